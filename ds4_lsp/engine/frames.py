"""Frames between the client and the engine process: lengths, a JSON header, int32 tokens."""

from __future__ import annotations

import json
import socket
import struct
import threading
import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

LENGTHS = struct.Struct("<II")
"""Bytes of the header, bytes of the payload."""

MAX_PART = 64 * 1024 * 1024
"""Most bytes of a header or payload; far above a transcript's size, far below what would hurt."""


class FrameError(Exception):
    """The peer does not speak this protocol, or a part exceeds ``MAX_PART``."""


def tokens_array(tokens: Iterable[int]) -> array[int]:
    """``tokens`` as int32."""
    return array("i", tokens)


def fingerprint(tokens: array[int]) -> list[int]:
    """[length, CRC-32]: what both sides compare to know that their mirrors agree."""
    return [len(tokens), zlib.crc32(tokens)]


def encode(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """One frame. Raises ``FrameError`` when a part is too large."""
    head = json.dumps(header, separators=(",", ":")).encode()
    check_lengths(len(head), len(payload))
    return LENGTHS.pack(len(head), len(payload)) + head + payload


def check_lengths(head: int, payload: int) -> None:
    """Raises ``FrameError`` when either is over ``MAX_PART`` or the payload is no whole number of tokens."""
    if head > MAX_PART or payload > MAX_PART or payload % 4:
        raise FrameError(f"a message of {head} + {payload} bytes exceeds the limit of {MAX_PART} bytes a part")


def decode_header(data: bytes) -> dict[str, Any]:
    """The header's object. Raises ``FrameError`` when it is none."""
    try:
        header = json.loads(data)
    except ValueError as error:
        raise FrameError(f"a header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FrameError("a header is not an object")
    return header


def decode_tokens(data: bytes) -> array[int]:
    tokens = array("i")
    tokens.frombytes(data)
    return tokens


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix; by slices, so that long transcripts cost microseconds."""
    limit = min(len(a), len(b))
    done = 0
    while done < limit:
        end = min(done + 512, limit)
        if a[done:end] == b[done:end]:
            done = end
            continue
        while a[done] == b[done]:
            done += 1
        return done
    return limit


class Channel:
    """The engine's end: blocking, whole frames, one writer at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        frame = encode(header, payload)
        with self._lock:
            self._socket.sendall(frame)

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """The next frame; None at the end of the stream."""
        lengths = self._exactly(LENGTHS.size)
        if lengths is None:
            return None
        head_size, payload_size = LENGTHS.unpack(lengths)
        check_lengths(head_size, payload_size)
        head = self._exactly(head_size)
        payload = self._exactly(payload_size)
        if head is None or payload is None:
            return None
        return decode_header(head), payload

    def _exactly(self, count: int) -> bytes | None:
        parts: list[bytes] = []
        while count:
            part = self._socket.recv(min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
