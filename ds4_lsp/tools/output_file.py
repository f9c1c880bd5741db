"""Reads parts of a job's output file, in memory that does not grow with it."""

from __future__ import annotations

import io
import os
from pathlib import Path

from ds4_lsp.tools.output import Sample, unfinished

WINDOW_BYTES = 65536
"""What is read at the beginning and at the end. More than any look shows, since escapes and progress lines go."""
CHUNK_BYTES = 1 << 20


def sample(path: Path, start: int = 0, *, growing: bool = False) -> Sample:
    """The output from byte ``start`` on; where it is ``growing``, without the first bytes of a code point at its end.
    A file that is gone (a deleted session) reads as empty."""
    try:
        with path.open("rb", buffering=0) as file:
            size = max(0, os.fstat(file.fileno()).st_size - start)
            file.seek(start)
            if size <= 2 * WINDOW_BYTES:
                data = _finished(_exactly(file, size), growing)
                return Sample(len(data), data.count(b"\n"), data, data, whole=True)
            head = _exactly(file, WINDOW_BYTES)
            lines, left = head.count(b"\n"), size - len(head) - WINDOW_BYTES
            while left > 0 and (chunk := file.read(min(CHUNK_BYTES, left))):
                lines += chunk.count(b"\n")
                left -= len(chunk)
            tail = _finished(_exactly(file, WINDOW_BYTES), growing)
            return Sample(size - WINDOW_BYTES + len(tail), lines + tail.count(b"\n"), head, tail, whole=False)
    except FileNotFoundError:
        return Sample(0, 0, b"", b"", whole=True)


def read(path: Path, start: int, limit: int) -> bytes:
    """At most ``limit`` bytes from byte ``start`` on."""
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            return _exactly(file, limit)
    except FileNotFoundError:
        return b""


def _finished(data: bytes, growing: bool) -> bytes:
    return data[: len(data) - unfinished(data)] if growing else data


def _exactly(file: io.FileIO, size: int) -> bytes:
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
