"""Starting, watching and ending the engine process. Frames in both directions; its stderr goes to the log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ds4_lsp.engine.frames import LENGTHS, FrameError, check_lengths, decode_header, encode

log = logging.getLogger("ds4_lsp.engine")

KEPT_LINES = 100
SHOWN_LINES = 12
STACK_LINES = 3
"""Lines shown of the stacks that follow a crash."""
GRACE_SECONDS = 0.5
"""How long the process may take to end after its socket was closed."""
_LEVELS = {"D": logging.DEBUG, "I": logging.DEBUG, "W": logging.WARNING, "E": logging.ERROR}
_MAX_LINE = 4000

OnMessage = Callable[[dict[str, Any], bytes], None]
OnEnd = Callable[[str], None]


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
    """A running engine process. ``on_end`` hears once why it ended, whoever ended it."""

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
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._stopping = False
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
                self.kill()
        self._writer.close()
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_SECONDS)
        except TimeoutError:
            self.kill()
            await self._process.wait()
        # A grandchild may hold the pipe open.
        await asyncio.wait([self._logging], timeout=GRACE_SECONDS)
        self._logging.cancel()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        self._on_end(self._obituary())

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
            letter, text = "W", line
        text = text[:_MAX_LINE].rstrip()
        if text:
            self._lines.append(text)
            log.log(_LEVELS[letter], "%s", text)

    def _obituary(self) -> str:
        if self._stopping:
            return "the engine was stopped"
        code = self._process.returncode
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            why = f"the engine process was ended by {name}"
            if name == "SIGKILL":
                why += " (perhaps the system had no memory left)"
        else:
            why = f"the engine process exited with status {code}"
        lines = "\n".join(self._last_lines())
        return f"{why}; its last lines:\n{lines}" if lines else why

    def _last_lines(self) -> list[str]:
        lines = list(self._lines)
        # A crash is followed by the stacks of all threads: what was said right before it tells more.
        crash = next((at for at, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
        end = len(lines) if crash is None else crash + 1 + STACK_LINES
        return lines[max(0, end - SHOWN_LINES) : end]
