"""The server's end of one supervisor: start it, hear it, tell it to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ds4_lsp.tools import supervisor

MARKER = "DS4_LSP_JOB"
"""Environment variable that names the job in all its processes, to find them when their supervisor was killed."""
SWEEPS = 50
"""Looks for marked processes before those that do not end (in an uninterruptible wait) are given up."""


class Link:
    """A running supervisor, on the event loop that started it. ``ended`` is set when no process of the job is left."""

    def __init__(self, process: subprocess.Popen[bytes], on_line: Callable[[str], None], on_end: Callable[[], None]):
        assert process.stdin is not None and process.stdout is not None
        self.ended = asyncio.Event()
        self._process = process
        self._control = process.stdin
        self._status = process.stdout
        self._on_line = on_line
        self._on_end = on_end
        self._buffer = b""
        self._loop = asyncio.get_running_loop()
        os.set_blocking(self._status.fileno(), False)
        self._loop.add_reader(self._status.fileno(), self._read)

    def send(self, word: str) -> None:
        """``term`` or ``kill``. A supervisor that is gone has nothing left to stop."""
        try:
            os.write(self._control.fileno(), word.encode() + b"\n")
        except (BrokenPipeError, ValueError):
            return

    def hang_up(self) -> None:
        """Close the control pipe: every process of the job is killed at once."""
        self._control.close()

    def _read(self) -> None:
        try:
            data = self._status.read(65536)
        except BlockingIOError:
            return
        if data is None:
            return
        if not data:
            self._close()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._on_line(line.decode(errors="replace"))

    def _close(self) -> None:
        self._loop.remove_reader(self._status.fileno())
        self._status.close()
        self._control.close()
        # The pipe's other end closes as the process exits, so this wait is over before it begins.
        self._process.wait()
        self.ended.set()
        self._on_end()


def start(
    command: str,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    shell: str,
    output: int,
    cap: int,
    on_line: Callable[[str], None],
    on_end: Callable[[], None],
) -> Link:
    """Run ``command`` under a supervisor that writes at most ``cap`` bytes of output to the file ``output``.

    Errors: ``OSError`` (no such directory, too long a command), ``ValueError`` (a NUL or lone surrogate in it).
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, str(os.getpid()), str(cap), shell, command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        cwd=cwd,
        env=dict(environment),
        start_new_session=True,
        bufsize=0,
    )
    return Link(process, on_line, on_end)


def sweep(marker: str) -> None:
    """Kill every process whose environment carries ``marker``: what a supervisor that was killed has left. Linux."""
    wanted = f"{MARKER}={marker}".encode()
    # A process in the middle of an exec shows no environment, hence the second look.
    missed = 0
    for _ in range(SWEEPS):
        found = [pid for pid in supervisor.processes() if _carries(pid, wanted)]
        missed = 0 if found else missed + 1
        if missed == 2:
            return
        for pid in found:
            supervisor.send(pid, signal.SIGKILL)


def _carries(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
