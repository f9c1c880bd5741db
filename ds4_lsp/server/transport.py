"""Framed JSON over two file descriptors, each with a thread of its own.

Threads because a pipe, a socket, a terminal and a file then all work alike, nobody else's descriptor becomes
non-blocking, and a client that stops reading blocks one thread and nothing more. What is sent is queued on the
event loop and written whole by the one writer thread, so messages never interleave.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

log = logging.getLogger(__name__)

MAX_MESSAGE = 256 * 1024 * 1024
"""Bytes. A longer incoming message ends the connection: its frame cannot be trusted."""
MAX_BACKLOG = 256 * 1024 * 1024
"""Bytes waiting for a client that does not read before it is given up."""
MAX_HEADER = 4096
"""Bytes of one header line."""
PENDING_MESSAGES = 512
"""Messages read ahead of the event loop; the client waits beyond that."""


class FramingError(Exception):
    """The byte stream is not a sequence of framed messages; there is no way to find the next one."""


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next message's body; None at the end of the stream, also inside a message. Raises ``FramingError``."""
    length: int | None = None
    while True:
        line = stream.readline(MAX_HEADER)
        if not line:
            return None
        if not line.endswith(b"\n"):
            if len(line) < MAX_HEADER:
                return None
            raise FramingError("a header line has no end")
        name, colon, value = line.strip().partition(b":")
        if not name and not colon:
            if length is None:
                raise FramingError("a message has no Content-Length")
            break
        if name.lower() == b"content-length":
            if not value.strip().isdigit() or int(value) > MAX_MESSAGE:
                raise FramingError(f"the Content-Length {value.strip()[:40]!r} is not acceptable")
            length = int(value)
        elif not colon:
            raise FramingError(f"the line {line[:40]!r} is not a header")
    body = stream.read(length)
    return body if len(body) == length else None


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. Raises ``OSError`` when the reader is gone."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Transport:
    """Both directions of one connection.

    It can start before there is an event loop, so that the end of the connection is noticed while the server is still
    being loaded; what was read by then is delivered once ``attach`` is called. ``on_end`` is called from the thread
    that noticed, at once: the end does not depend on the loop.
    """

    def __init__(self, read_fd: int, write_fd: int, on_end: Callable[[str], None]) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._on_end = on_end
        self._post: Callable[..., None] | None = None
        self._early: list[tuple[Callable[..., None], Any]] = []
        self._greeter: Callable[[Any], bytes | None] | None = None
        self._first: tuple[Any] | tuple[()] = ()
        """The first message, once there is one."""
        self._on_message: Callable[[Any], None] = _nowhere
        self._on_bad_json: Callable[[str], None] = _nowhere
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._delivery = threading.Lock()
        self._backlog = 0
        self._room = threading.Semaphore(PENDING_MESSAGES)
        self._writer = threading.Thread(target=self._write, name="ds4-write", daemon=True)
        self._reader = threading.Thread(target=self._read, name="ds4-read", daemon=True)

    @property
    def backlog(self) -> int:
        """Bytes sent but not yet taken by the client."""
        return self._backlog

    def start(self) -> None:
        self._writer.start()
        self._reader.start()

    def attach(
        self, post: Callable[..., None], on_message: Callable[[Any], None], on_bad_json: Callable[[str], None]
    ) -> None:
        """Deliver each parsed message to ``on_message`` and a parser's complaint to ``on_bad_json``, by ``post``, which
        runs them on the event loop."""
        self._on_message = on_message
        self._on_bad_json = on_bad_json
        with self._delivery:
            self._post = post
            for function, argument in self._early:
                post(function, argument)
            self._early.clear()

    def greet(self, answer: Callable[[Any], bytes | None]) -> None:
        """Offer the first message to ``answer``, in whichever thread has both: what that returns is sent at once,
        before there is a loop. The message is delivered all the same, after that."""
        with self._delivery:
            self._greeter = answer
            self._greet()

    def _greet(self) -> None:
        if self._greeter is None or not self._first:
            return
        greeter, self._greeter = self._greeter, None
        data = greeter(self._first[0])
        if data is not None:
            self.write(data)

    def write(self, data: bytes) -> None:
        """Queue one framed message. Never blocks."""
        with self._lock:
            self._backlog += len(data)
            full = self._backlog > MAX_BACKLOG
        if full:
            self._on_end("the client has stopped reading")
            return
        self._outgoing.put(data)

    def close(self, timeout: float = 0.0) -> None:
        """Stop writing once everything queued is out; waits at most ``timeout`` seconds for that."""
        self._outgoing.put(None)
        if timeout and self._writer.is_alive():
            self._writer.join(timeout)

    def _write(self) -> None:
        while (data := self._outgoing.get()) is not None:
            try:
                write_all(self._write_fd, data)
            except OSError as error:
                self._on_end(f"the client cannot be written to ({error.strerror})")
                return
            with self._lock:
                self._backlog -= len(data)

    def _read(self) -> None:
        reason = "the client closed the connection"
        try:
            with open(self._read_fd, "rb", closefd=False) as stream:
                while (body := read_frame(stream)) is not None:
                    self._deliver(body)
        except FramingError as error:
            reason = f"the client does not speak LSP: {error}"
        except OSError as error:
            reason = f"the client cannot be read ({error.strerror})"
        self._settle()
        self._on_end(reason)

    def _deliver(self, body: bytes) -> None:
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._soon(self._complain, str(error))
            return
        with self._delivery:
            if not self._first:
                self._first = (message,)
                self._greet()
        self._room.acquire()
        self._soon(self._handle, message)

    def _soon(self, function: Callable[..., None], argument: Any) -> None:
        with self._delivery:
            if self._post is None:
                self._early.append((function, argument))
            else:
                self._post(function, argument)

    def _complain(self, reason: str) -> None:
        self._on_bad_json(reason)

    def _handle(self, message: Any) -> None:
        self._room.release()
        self._on_message(message)

    def _settle(self) -> None:
        """Let the loop take what was read before the end (an ``exit``, say), but do not depend on it."""
        taken = threading.Event()
        self._soon(lambda _nothing: taken.set(), None)
        taken.wait(0.2)


def _nowhere(_value: Any) -> None:
    """Before a transport is attached; nothing is delivered then."""


def frame(message: str) -> bytes:
    """A message as it goes over the wire."""
    body = message.encode("utf-8")
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
