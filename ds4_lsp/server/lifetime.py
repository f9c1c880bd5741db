"""How the process ends: for whatever reason, once, within two seconds.

A thread, not the event loop, holds the deadline: no state of the loop, of the worker or of a library can keep the
process alive.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

DEADLINE = 1.7
"""Seconds from the reason to the end of the process, whatever still runs."""
PARENT_POLL = 0.3
"""Seconds between looks at the parent where the system has no pidfd."""


class Lifetime:
    """One-way: alive, then ending. ``end`` may be called from any thread, any number of times."""

    def __init__(self) -> None:
        self.exit_code: Callable[[], int] = lambda: 1
        """Asked when the process ends."""
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self.reason: str | None = None

    def on_end(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` once the process is to end, in the thread that says so; at once if it already is."""
        with self._lock:
            if self.reason is None:
                self._callbacks.append(callback)
                return
        callback()

    def end(self, reason: str) -> None:
        """Begin the end. The first reason counts."""
        with self._lock:
            if self.reason is not None:
                return
            self.reason = reason
            callbacks, self._callbacks = self._callbacks, []
        threading.Thread(target=self._watchdog, name="ds4-watchdog", daemon=True).start()
        for callback in callbacks:
            callback()
        log.info("ending: %s", reason)

    def _watchdog(self) -> None:
        time.sleep(DEADLINE)
        os._exit(self.exit_code())

    def watch_parent(self, pid: int) -> None:
        """End with the process ``pid``, also if it has ended already (LSP, ``InitializeParams.processId``)."""
        threading.Thread(target=self._wait_for, args=(pid,), name="ds4-parent", daemon=True).start()

    def _wait_for(self, pid: int) -> None:
        try:
            wait_for_process(pid)
        except OSError as error:
            log.warning("the parent process %d cannot be watched: %s", pid, error)
            return
        self.end(f"the parent process {pid} ended")


def wait_for_process(pid: int) -> None:
    """Return when the process ``pid`` has ended. Raises ``OSError`` where it cannot be watched."""
    if hasattr(os, "pidfd_open"):
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:
            pass
        else:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll()
            os.close(fd)
            return
    while alive(pid):
        time.sleep(PARENT_POLL)


def alive(pid: int) -> bool:
    """Whether a process has this id. Another user's counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
