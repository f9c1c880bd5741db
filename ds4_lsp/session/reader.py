"""Reading a log as a stream: events in order, then what stands after the last whole line."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ds4_lsp.protocol.errors import CorruptSession, NotFound
from ds4_lsp.session.events import Damaged, Event, Header, Newer, decode_checked, is_sealed
from ds4_lsp.session.storage import storing

LOG_NAME = "events.jsonl"
_BUFFER = 1 << 20


@dataclass(frozen=True)
class Tail:
    """How a log ends. ``length``: bytes of its whole lines. ``torn``: bytes of an incomplete line after them.
    ``unterminated``: the last event is whole and counted in ``length``, and lacks only its LF, or has another byte in
    its place. ``checksums``: its lines carry them."""

    length: int
    torn: int
    unterminated: bool
    checksums: bool


def read(stream: BinaryIO, name: str) -> Generator[Event, None, Tail]:
    """Yield every event of a log and return its :class:`Tail`. Memory: one line.

    Raises ``CorruptSession``, with ``line`` in its data, for a damaged line that is not merely torn at the end, and for
    a log that a newer version wrote. ``name`` is what messages call the log.
    """
    seq = length = 0
    checksums = False
    while line := stream.readline():
        whole = line.endswith(b"\n")
        text = line[:-1] if whole or _ends_in_damage(line) else line
        try:
            event, sealed = decode_checked(text, seq)
            if seq == 0:
                Header.from_event(event)
                checksums = sealed
            elif sealed != checksums:
                raise Damaged("its checksum is missing")
        except Newer as error:
            raise corrupt(
                name, seq + 1, f"was written by a newer version of ds4-lsp ({error}). Update ds4-lsp to open it", seq
            ) from error
        except Damaged as error:
            if not whole and seq > 0:
                return Tail(length, len(line), False, checksums)
            raise corrupt(name, seq + 1, f"is damaged: {error}. Nothing was changed", seq) from error
        length += len(text) + whole
        seq += 1
        yield event
        if not whole:
            return Tail(length, 0, True, checksums)
    if seq == 0:
        raise corrupt(name, 1, "is missing: the log is empty. Delete the session", 0)
    return Tail(length, 0, False, checksums)


def _ends_in_damage(line: bytes) -> bool:
    """Whether a last line without LF is whole but for that one byte, which became another. Its checksum says so: what
    a write that was cut short leaves ends before its checksum, or right after it."""
    return is_sealed(line[:-1])


def corrupt(name: str, line: int, what: str, good: int) -> CorruptSession:
    """``good``: how many events before the damage can be read."""
    rescue = f" The {good} events before it can be saved by a fork up to event {good - 1}." if good > 1 else ""
    return CorruptSession(f"Session log {name}: line {line} {what}.{rescue}", line=line, path=name)


def read_file(directory: Path) -> Iterator[Event]:
    """The events of the log in ``directory``, without a lock and changing nothing; a torn last line is left out."""
    path = directory / LOG_NAME
    with open_log(path) as stream:
        yield from read(stream, str(path))


def open_log(path: Path) -> BinaryIO:
    """Open for reading. Raises ``NotFound``, ``StorageFailed``, or ``CorruptSession`` for what is no regular file."""
    try:
        with storing("read", path):
            # Does not wait for somebody to write into a pipe.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.fdopen(descriptor, "rb", buffering=_BUFFER)
            os.close(descriptor)
            raise CorruptSession(f"Session log {path} is no regular file. Delete the session.", path=str(path))
    except Exception as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NotFound(f"There is no session log at {path}.", path=str(path)) from error
        raise


class PositionedFile(io.RawIOBase):
    """Reads a descriptor that someone else appends to, from the start up to ``limit`` bytes.

    It keeps its own position, and goes on reading a file whose name has vanished.
    """

    def __init__(self, fd: int, limit: int) -> None:
        super().__init__()
        self._fd = fd
        self._limit = limit
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed wants a wider Buffer
        view = memoryview(buffer)[: max(0, self._limit - self._position)]
        if not view:
            return 0
        count = os.preadv(self._fd, [view], self._position)
        self._position += count
        return count


def read_descriptor(fd: int, limit: int, name: str) -> Generator[Event, None, Tail]:
    """Like :func:`read`, on the first ``limit`` bytes of an open descriptor."""
    with io.BufferedReader(PositionedFile(fd, limit), _BUFFER) as stream:
        return (yield from read(stream, name))
