from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.server.transport import FramingError, Transport, frame, read_frame


@given(st.lists(st.text()), st.integers(1, 7))
@settings(deadline=None)
def test_frames_come_back_whole_in_any_chunking(texts: list[str], chunk: int) -> None:
    data = b"".join(frame(json.dumps(text)) for text in texts)

    class Chunks(io.RawIOBase):
        def __init__(self) -> None:
            self.rest = data

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            part, self.rest = self.rest[:chunk], self.rest[chunk:]
            buffer[: len(part)] = part
            return len(part)

    stream = io.BufferedReader(Chunks(), buffer_size=8192)
    found = []
    while (body := read_frame(stream)) is not None:
        found.append(json.loads(body))
    assert found == texts


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Length: x\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99999999999\r\n\r\n",
        b"X-Other: 1\r\n\r\n{}",
        b"hello\r\n\r\n",
        b"A" * 5000,
    ],
)
def test_a_stream_that_is_no_sequence_of_frames_is_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        read_frame(io.BytesIO(data))


@pytest.mark.parametrize("data", [b"", b"Content-Le", b"Content-Length: 10\r\n\r\n{}", b"Content-Length: 2\r\n"])
def test_a_stream_that_ends_anywhere_is_an_end(data: bytes) -> None:
    assert read_frame(io.BytesIO(data)) is None


def test_header_names_are_case_insensitive_and_other_headers_are_skipped() -> None:
    assert read_frame(io.BytesIO(b"content-LENGTH:2\r\nContent-Type: a; charset=utf-8\r\n\r\n{}")) == b"{}"


def _transport(read_fd: int, write_fd: int, on_end: Callable[[str], None]) -> Transport:
    transport = Transport(read_fd, write_fd, on_end)
    transport.attach(lambda function, *args: function(*args), lambda _message: None, lambda _reason: None)
    return transport


def test_messages_from_many_threads_never_interleave_and_a_slow_reader_loses_none() -> None:
    never, _keep = os.pipe()
    read_fd, write_fd = os.pipe()
    transport = _transport(never, write_fd, lambda _reason: None)
    transport.start()
    bodies = [json.dumps([thread, number, "x" * 5000]) for thread in range(4) for number in range(50)]
    threads = [
        threading.Thread(target=lambda part=part: [transport.write(frame(body)) for body in part])
        for part in (bodies[start : start + 50] for start in range(0, 200, 50))
    ]
    for thread in threads:
        thread.start()
    with os.fdopen(read_fd, "rb") as stream:
        found = [read_frame(stream) for _ in bodies]
    assert sorted(found) == sorted(body.encode() for body in bodies)
    for thread in threads:
        thread.join()
    os.close(_keep)
    transport.close(1.0)
    os.close(write_fd)


def test_a_reader_that_is_gone_ends_the_connection() -> None:
    never, keep = os.pipe()
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    ended = threading.Event()
    reasons: list[str] = []

    def on_end(reason: str) -> None:
        reasons.append(reason)
        ended.set()

    transport = _transport(never, write_fd, on_end)
    transport.start()
    transport.write(frame("{}"))
    assert ended.wait(10)
    assert "cannot be written to" in reasons[0]
    os.close(keep)
    os.close(write_fd)


def test_the_end_is_noticed_before_anyone_listens_and_earlier_messages_are_kept() -> None:
    read_fd, client = os.pipe()
    ended = threading.Event()
    transport = Transport(read_fd, client, lambda _reason: ended.set())
    transport.start()
    os.write(client, frame('{"a": 1}') + frame("no json") + frame('{"b": 2}'))
    transport.close(10)
    os.close(client)
    assert ended.wait(10)
    messages: list[Any] = []
    complaints: list[str] = []
    transport.attach(lambda function, *args: function(*args), messages.append, complaints.append)
    assert messages == [{"a": 1}, {"b": 2}]
    assert len(complaints) == 1
    os.close(read_fd)
