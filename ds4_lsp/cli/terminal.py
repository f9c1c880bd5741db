"""Reading lines while the event loop runs, and the terminal's state put back at the end."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any


class LineReader:
    """Reads lines of stdin on a daemon thread, one at a time and only when asked, so that line editing works.

    A question that is given up (cancelled) leaves its read running; the next question takes over that read.
    """

    def __init__(self) -> None:
        self._prompts: SimpleQueue[str] = SimpleQueue()
        self._waiting: asyncio.Future[str | None] | None = None
        self._reading = False
        self._loop = asyncio.get_running_loop()
        self._saved = _terminal_state()
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def ask(self, prompt: str) -> str | None:
        """The next line without its ending; None at the end of the input."""
        self._waiting = self._loop.create_future()
        if self._reading:
            sys.stdout.write(prompt)
            sys.stdout.flush()
        else:
            self._reading = True
            self._prompts.put(prompt)
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def again(self, prompt: str) -> None:
        """Show ``prompt`` where a line is being read already: something was written over the one before."""
        if self._reading and sys.stdin.isatty():
            sys.stdout.write(prompt)
            sys.stdout.flush()

    def close(self) -> None:
        """Put the terminal back as it was: a read that was given up leaves it in line-editing mode."""
        if self._saved is not None:
            import termios

            with suppress(termios.error, OSError):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)

    def _read(self) -> None:
        if sys.stdin.isatty():
            with suppress(ImportError):
                importlib.import_module("readline")  # which is what gives input() its line editing
        while True:
            prompt = self._prompts.get()
            try:
                line: str | None = input(prompt if sys.stdin.isatty() else "")
            except (EOFError, OSError, ValueError):
                line = None
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._deliver, line)

    def _deliver(self, line: str | None) -> None:
        self._reading = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(line)


def _terminal_state() -> Any:
    """What termios says of stdin; None where it is no terminal."""
    try:
        import termios

        return termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    except (ImportError, OSError, ValueError):
        return None
