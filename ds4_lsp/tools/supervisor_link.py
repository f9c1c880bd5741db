"""The server's end of one supervisor: start it, hear it, tell it to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ds4_lsp.tools import supervisor

MARKER = "DS4_LSP_JOB"
"""Environment variable that names the job in all its processes, to find them when their supervisor was killed."""
SWEEPS = 50
"""Looks for marked processes before those that do not end (in an uninterruptible wait) are given up."""
DESTROY_SECONDS = 0.5
"""Time for processes to end after SIGKILL, before those that do not (in an uninterruptible wait) are given up."""


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
        self._wake()

    def hang_up(self) -> None:
        """Close the control pipe: every process of the job is killed at once."""
        self._control.close()
        self._wake()

    async def destroy(self) -> None:
        """Do from here what a supervisor that does not act should have done, and end it too.

        ``ended`` is set then, but for processes that not even SIGKILL ends.
        """
        await asyncio.to_thread(_destroy, self._process)
        if self._process.returncode is None or self.ended.is_set():
            return
        self._read()
        # The command may have opened the pipe's other end too, so that it does not close.
        if not self.ended.is_set():
            self._close()

    def _wake(self) -> None:
        # A command can stop its supervisor, which hears nothing then.
        self._process.send_signal(signal.SIGCONT)

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


def _destroy(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DESTROY_SECONDS
    pause = 0.001
    # While the supervisor lives, everything of the job is below it: it goes last. Stopped, it does not reap the dead.
    while process.poll() is None and supervisor.living(supervisor.descendants(process.pid)):
        for pid in supervisor.freeze(process.pid):
            supervisor.send(pid, signal.SIGKILL)
        if time.monotonic() >= deadline:
            break
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(DESTROY_SECONDS)


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
