"""Starting, watching and ending the engine process. Frames in both directions; its stderr goes to the log."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ds4_lsp.engine import death
from ds4_lsp.engine.frames import LENGTHS, FrameError, check_lengths, decode_header, encode

log = logging.getLogger("ds4_lsp.engine")

KEPT_LINES = 5000
"""Lines of the log that are kept for the file that is written when the process dies."""
GRACE_SECONDS = 0.5
"""How long the process may take to end after its socket was closed."""
_LEVELS = {"D": logging.DEBUG, "I": logging.DEBUG, "W": logging.WARNING, "E": logging.ERROR}
_MAX_LINE = 4000

OnMessage = Callable[[dict[str, Any], bytes], None]
OnEnd = Callable[["death.Death | None"], None]
"""Hears once that the process has ended: of what, or None when it was made to."""


def environment() -> dict[str, str]:
    """The engine's environment: what has to be there before its first thread starts."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH")
    return os.environ | {
        # Spinning OpenMP threads starve everything else, and each other where a core is busy elsewhere.
        "GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "1000"),
        # A failed assertion would start a debugger and wait for it.
        "GGML_NO_BACKTRACE": "1",
        "PYTHONPATH": f"{root}{os.pathsep}{path}" if path else root,
    }


def command(*arguments: str) -> list[str]:
    """The engine's command line. ``-P``: a module in the current folder must not shadow the real one."""
    return [sys.executable, "-P", "-m", "ds4_lsp.engine", *arguments]


class Child:
    """A running engine process. ``planned``: what it loads, as far as it has said."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        on_message: OnMessage,
        on_end: OnEnd,
    ) -> None:
        self._process = process
        self._reader, self._writer = streams
        self._on_message = on_message
        self._on_end = on_end
        self.planned: death.Planned | None = None
        self._lines: deque[death.Line] = deque(maxlen=KEPT_LINES)
        self._crashed = False
        self._stopping = False
        self._oom_kills = death.oom_kills()
        self._logging = asyncio.create_task(self._log_lines())
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, on_message: OnMessage, on_end: OnEnd) -> Child:
        """Start the process. It leads a session of its own: an interrupt typed at a terminal is not for it."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                *command(str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=environment(),
                cwd="/",
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, await asyncio.open_connection(sock=ours), on_message, on_end)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Raises ``FrameError`` when the message is too large; a dead process is reported by ``on_end``."""
        frame = encode(header, payload)
        if not self._writer.is_closing():
            self._writer.write(frame)

    def kill(self) -> None:
        """End the process at once, without waiting for that."""
        self._stopping = True
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self) -> None:
        """End the process and wait for that."""
        self._stopping = True
        self._writer.close()
        await asyncio.shield(self._watching)

    async def _watch(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            try:
                await self._read()
            except FrameError as error:
                log.error("the engine sent nonsense and is ended: %s", error)
                self._lines.append(("E", f"it sent nonsense: {error}"))
                self._kill()
        self._writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        except TimeoutError:
            self._kill()
            await self._process.wait()
        # A grandchild may hold the pipe open.
        await asyncio.wait([self._logging], timeout=GRACE_SECONDS)
        self._logging.cancel()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        self._on_end(None if self._stopping else await asyncio.to_thread(self._autopsy))

    async def _read(self) -> None:
        while True:
            head_size, payload_size = LENGTHS.unpack(await self._reader.readexactly(LENGTHS.size))
            check_lengths(head_size, payload_size)
            head = await self._reader.readexactly(head_size)
            payload = await self._reader.readexactly(payload_size)
            self._on_message(decode_header(head), payload)

    async def _log_lines(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        rest = b""
        while chunk := await stream.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-_MAX_LINE:]
            for line in lines:
                self._log_line(line.decode("utf-8", "replace"))
        if rest:
            self._log_line(rest.decode("utf-8", "replace"))

    def _log_line(self, line: str) -> None:
        letter, bar, text = line[:1], line[1:2], line[2:]
        if bar != "|" or letter not in _LEVELS:
            letter, text = "", line
        text = text[:_MAX_LINE].rstrip()
        if not text:
            return
        self._crashed = self._crashed or text.startswith(death.CRASH)
        self._lines.append((letter, text))
        # The stacks of all threads are for the file.
        log.log(logging.DEBUG if self._crashed else _LEVELS.get(letter, logging.WARNING), "%s", text)

    def _autopsy(self) -> death.Death:
        lines, planned, status = list(self._lines), self.planned, self._process.returncode
        before, now = self._oom_kills, death.oom_kills()
        found = death.diagnose(
            status if status is not None else 1,
            lines,
            planned,
            memory_ran_out=now > before if now is not None and before is not None else None,
            file_now=death.file_state(planned.path) if planned is not None else None,
        )
        return dataclasses.replace(found, log=death.write_log(lines, self.pid))
