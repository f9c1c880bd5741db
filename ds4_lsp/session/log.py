"""The append-only log of one session. One writer; the caller holds the session's lock."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ds4_lsp.protocol.errors import InvalidRequest, StorageFailed
from ds4_lsp.session.events import HEADER, KNOWN_TYPES, Damaged, Event, Header, check_surface_op, decode, encode
from ds4_lsp.session.reader import LOG_NAME, Tail, open_log, read, read_descriptor
from ds4_lsp.session.storage import storage_failed, storing, sync_directory, write_all

TORN_NAME = LOG_NAME + ".torn"
_log = logging.getLogger(__name__)


class EventLog:
    """Events on disk. An event whose append returned is in the file; after :meth:`sync` it is on the disk.

    A failed append leaves the log as it was: the session goes on with the next append that finds room.
    """

    def __init__(self, directory: Path, fd: int, header: Header, tail: Tail, next_seq: int) -> None:
        self.directory = directory
        self.path = directory / LOG_NAME
        self.header = header
        self._fd = fd
        self._length = tail.length
        self._synced = 0
        self._next_seq = next_seq
        self._checksums = tail.checksums
        self._excess = 0
        """Bytes of ours after ``_length`` that could not be removed yet."""
        self._unsure = False
        """An fsync failed."""

    @classmethod
    def create(cls, directory: Path, header: Header) -> Self:
        """Start a log in an existing directory. Raises ``StorageFailed``."""
        path = directory / LOG_NAME
        line = encode(Event(0, HEADER, header.created_at, header.to_data()))
        with storing("create", path):
            fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                write_all(fd, line)
                os.fsync(fd)
                sync_directory(directory)
            except BaseException:
                os.close(fd)
                raise
        log = cls(directory, fd, header, Tail(len(line), 0, False, True), 1)
        log._synced = len(line)
        return log

    @classmethod
    def open(cls, directory: Path, observe: Callable[[Event], None] = lambda _event: None) -> Self:
        """Read the log, giving each event to ``observe``, cut a torn last line off into ``events.jsonl.torn``, and make
        it ready for appends.

        Raises ``NotFound``, ``StorageFailed``, or ``CorruptSession`` (also from ``observe``): then nothing was changed.
        """
        path = directory / LOG_NAME
        header: Header | None = None
        count = 0
        with open_log(path) as stream:
            events = read(stream, str(path))
            while True:
                try:
                    event = next(events)
                except StopIteration as stop:
                    tail: Tail = stop.value
                    break
                header = header or Header.from_event(event)
                observe(event)
                count += 1
        assert header is not None
        with storing("open", path):
            fd = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            log = cls(directory, fd, header, tail, count)
            log._mend(tail)
        except BaseException:
            os.close(fd)
            raise
        return log

    @property
    def next_seq(self) -> int:
        return self._next_seq

    @property
    def length(self) -> int:
        """Bytes of the log."""
        return self._length

    def append(
        self,
        type: str,
        data: Mapping[str, Any],
        *,
        surface_op: Mapping[str, Any] | None = None,
        sources: Sequence[int] = (),
        ignorable: bool = False,
    ) -> Event:
        """Write one event; see :meth:`prepare` and :meth:`write`."""
        event = self.prepare(type, data, surface_op=surface_op, sources=sources, ignorable=ignorable)
        self.write(event)
        return event

    def prepare(
        self,
        type: str,
        data: Mapping[str, Any],
        *,
        surface_op: Mapping[str, Any] | None = None,
        sources: Sequence[int] = (),
        ignorable: bool = False,
    ) -> Event:
        """The next event, as it will be read back. Raises ``InvalidRequest`` where it could not be."""
        if type not in KNOWN_TYPES and not ignorable:
            raise InvalidRequest(f"Event type {type!r} is unknown, so older readers must be allowed to ignore it.")
        draft = Event(self._next_seq, type, round(time.time(), 3), dict(data), surface_op, tuple(sources), ignorable)
        try:
            check_surface_op(type, surface_op)
            # What is in memory must equal what a reload gives: lists for tuples, strings for keys.
            return decode(encode(draft)[:-1], self._next_seq)
        except (Damaged, TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"A {type} event cannot be logged: {error}.") from error

    def write(self, event: Event) -> None:
        """Append a prepared event by one write. Raises ``StorageFailed``; the log is then as it was before."""
        if event.seq != self._next_seq:
            raise InvalidRequest(f"Event {event.seq} is not the next one ({self._next_seq}).")
        self.check_place()
        line = encode(event) if self._checksums else _plain(event)
        try:
            if self._excess:
                self._cut()
            written = os.write(self._fd, line)
        except OSError as error:
            raise storage_failed("write the session log", self.path, error) from error
        if os.lseek(self._fd, 0, os.SEEK_CUR) != self._length + written:
            # Both wrote at once. Its reader refuses the log at the second of the two lines, and can save what precedes.
            raise self._not_ours("its end moved while this server wrote to it")
        if written < len(line):
            self._roll_back(written)
            raise StorageFailed(
                f"Could not write the session log {self.path}: no room for {len(line)} bytes. Free some space there "
                "(`ds4-lsp sessions prune` helps) and send the prompt again.",
                path=str(self.path),
            )
        self._length += len(line)
        self._next_seq += 1

    def sync(self) -> None:
        """Return when every appended event is on the disk. Raises ``StorageFailed``."""
        self.check_place()
        if self._synced == self._length:
            return
        with storing("make durable", self.path):
            if self._unsure:
                self._dirty_again()
            try:
                os.fsync(self._fd)
            except OSError:
                self._unsure = True
                raise
        self._unsure = False
        self._synced = self._length

    def events(self) -> Iterator[Event]:
        """The events appended so far, streamed from disk. Works while events are appended, and after the
        directory has vanished."""
        return read_descriptor(self._fd, self._length, str(self.path))

    def close(self) -> None:
        """Release the file. Appended events stay; durable are those of the last :meth:`sync`. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def check_place(self) -> None:
        """Raise ``StorageFailed`` unless the log is open, is where it was, and ends with what was written here: nobody
        finds again what is written elsewhere, and what another wrote must not be touched."""
        if self._fd < 0:
            raise StorageFailed(f"Session {self.directory.name} is closed.", path=str(self.path))
        with storing("find the session log", self.path):
            there, mine = self.path.stat(), os.fstat(self._fd)
        if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            raise self._not_ours("another file took its place")
        if mine.st_size != self._length + self._excess:
            raise self._not_ours(f"it has {mine.st_size} bytes where this server left {self._length}")

    def _not_ours(self, what: str) -> StorageFailed:
        return StorageFailed(
            f"The session log {self.path} was changed by another program: {what}. Nothing was written. Close the "
            "session there and restart this server to go on with what is there, or start a new one (ds4.newSession).",
            path=str(self.path),
        )

    def _mend(self, tail: Tail) -> None:
        """Make the file end after its last whole line."""
        self._check_end(tail)
        with storing("repair the end of", self.path):
            if tail.torn:
                # Saved before it is cut: torn bytes can be all there is of someone's long prompt.
                fragment = os.pread(self._fd, tail.torn, tail.length)
                torn = os.open(self.directory / TORN_NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    write_all(torn, fragment + b"\n")
                    os.fsync(torn)
                finally:
                    os.close(torn)
                sync_directory(self.directory)
                self._cut()
                _log.warning("cut %d torn bytes off %s into %s", tail.torn, self.path, TORN_NAME)
            elif tail.unterminated:
                # Takes away what stands where the line feed belongs, if anything does.
                self._cut()
                write_all(self._fd, b"\n")
                self._length += 1

    def _check_end(self, tail: Tail) -> None:
        """What was read as torn may have been another's line, half written: it is whole by now, or longer."""
        with storing("open", self.path):
            size = os.fstat(self._fd).st_size
        # Another byte in the place of the last line feed is no part of the line.
        if size not in (tail.length + tail.torn, tail.length + tail.unterminated):
            raise self._not_ours(f"it grew to {size} bytes while it was read")

    def _dirty_again(self) -> None:
        """Write the bytes that no fsync confirmed once more, in place: the kernel drops the dirty mark of pages that it
        failed to write, and the next fsync would succeed without them."""
        fd = os.open(self.path, os.O_WRONLY)
        try:
            position = self._synced
            while position < self._length:
                chunk = os.pread(self._fd, min(1 << 20, self._length - position), position)
                position += os.pwrite(fd, chunk, position)
        finally:
            os.close(fd)

    def _cut(self) -> None:
        os.ftruncate(self._fd, self._length)
        self._excess = 0

    def _roll_back(self, written: int) -> None:
        try:
            self._cut()
        except OSError:
            self._excess = written
            _log.exception("could not remove a partial line from %s; will try again", self.path)


def _plain(event: Event) -> bytes:
    """A line for a log whose writer used no checksums: a log has them on all lines or on none."""
    line = encode(event)
    return line[: line.rindex(b',"crc":"')] + b"}\n"
