"""Frames: what is written is read, sizes are bounded, mirrors are compared by length and checksum."""

from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.engine.frames import (
    LENGTHS,
    MAX_PART,
    Channel,
    FrameError,
    common_prefix,
    decode_header,
    decode_tokens,
    encode,
    fingerprint,
    tokens_array,
)

TOKENS = st.lists(st.integers(0, 2**31 - 1), max_size=2000)


@settings(deadline=None)
@given(st.text(), TOKENS)
def test_a_frame_is_read_as_it_was_written(text: str, tokens: list[int]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = threading.Thread(
            target=Channel(ours).send, args=({"id": 1, "text": text}, tokens_array(tokens).tobytes())
        )
        sender.start()
        received = Channel(theirs).receive()
        sender.join()
    assert received is not None
    header, payload = received
    assert header == {"id": 1, "text": text}
    assert decode_tokens(payload).tolist() == tokens


def test_the_end_of_the_stream_is_none_wherever_it_comes() -> None:
    frame = encode({"id": 1}, b"\0" * 8)
    for length in range(len(frame)):
        ours, theirs = socket.socketpair()
        with theirs:
            with ours:
                ours.sendall(frame[:length])
            assert Channel(theirs).receive() is None


@pytest.mark.parametrize(("head", "payload"), [(MAX_PART + 1, 0), (2, MAX_PART + 4), (2, 3)])
def test_sizes_out_of_bounds_are_refused_before_anything_is_read(head: int, payload: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(LENGTHS.pack(head, payload))
        with pytest.raises(FrameError):
            Channel(theirs).receive()


@pytest.mark.parametrize("data", [b"[]", b"{", b"\xff"])
def test_a_header_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode_header(data)


@settings(deadline=None)
@given(TOKENS, TOKENS, TOKENS)
def test_the_common_prefix_is_the_longest(head: list[int], a: list[int], b: list[int]) -> None:
    first, second = tokens_array(head + a), tokens_array(head + b)
    length = common_prefix(first, second)
    assert length >= len(head)
    assert first[:length] == second[:length]
    assert length in (len(first), len(second)) or first[length] != second[length]


def test_fingerprints_tell_tokens_apart() -> None:
    assert fingerprint(tokens_array([1, 2])) != fingerprint(tokens_array([2, 1]))
    assert fingerprint(tokens_array([])) == [0, 0]
