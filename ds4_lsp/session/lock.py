"""One writer per session: an operating system's lock, which ends with its process however that ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ds4_lsp.protocol.errors import NotFound, SessionLocked
from ds4_lsp.session.reader import LOG_NAME
from ds4_lsp.session.storage import replace_file, storing

LOCK_NAME = "lock"
PID_NAME = "lock.pid"


class SessionLock:
    """Held from construction to :meth:`release`. Raises ``NotFound``, ``SessionLocked`` (with ``pid``) or
    ``StorageFailed``."""

    def __init__(self, directory: Path) -> None:
        self._lock = FileLock(directory / LOCK_NAME, mode=0o600, thread_local=False)
        pid_path = directory / PID_NAME
        with storing("lock", directory):
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                # Inside, since a Timeout is an OSError too.
                raise locked(directory) from error
            self._refuse_emptiness(directory)
        # In a file of its own: a contender may truncate the lock's file before it learns that it is held. It serves a
        # message only, and must not keep a full disk from being cleaned.
        with suppress(OSError):
            replace_file(pid_path, f"{os.getpid()}\n".encode(), durable=False)

    def _refuse_emptiness(self, directory: Path) -> None:
        """Locking makes the directory of a session that was deleted in that moment: nothing of it may stay."""
        if (directory / LOG_NAME).exists():
            return
        self.release()
        with suppress(OSError):
            if [path.name for path in directory.iterdir()] == [LOCK_NAME]:
                (directory / LOCK_NAME).unlink()
                directory.rmdir()
        raise NotFound(f"There is no session in {directory}.", path=str(directory))

    def release(self) -> None:
        """Idempotent; never raises for a directory that has vanished."""
        with suppress(OSError):
            self._lock.release()


def locked(directory: Path) -> SessionLocked:
    """The refusal to touch a session that another process has open."""
    pid = holder(directory)
    who = "another process" if pid is None else f"process {pid}"
    return SessionLocked(
        f"Session {directory.name} is open in {who}. Close it there, or continue in a fork of it (ds4.forkSession).",
        sessionId=directory.name,
        pid=pid,
    )


def is_held(directory: Path) -> bool:
    """Whether a process has the session open. Changes nothing; may raise ``OSError``."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who ask do not see each other; it ends with the descriptor.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(directory: Path) -> int | None:
    """The pid that last locked the session: its holder, where the lock is held."""
    try:
        return int((directory / PID_NAME).read_text())
    except (OSError, ValueError):
        return None
