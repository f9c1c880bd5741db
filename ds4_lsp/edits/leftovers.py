"""Temporary files that a killed process left behind.

A note of each is made before the file itself, in the user's state directory, and is locked for as long as its writer
lives. A later start finds the notes that nobody holds any more, and removes those files: nothing is looked for in the
workspace, and no file is touched that a living process is writing.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_state_path

log = logging.getLogger(__name__)


def directory() -> Path:
    """Where the notes are: one file each, which has the temporary file's name and holds its path."""
    return Path(user_state_path("ds4-lsp", appauthor=False)) / "writing"


@contextmanager
def noted(temporary: Path) -> Iterator[None]:
    """Keep a note of a file that does not outlive the block, unless the process is killed in it."""
    note = directory() / temporary.name
    try:
        descriptor = _note(note, os.fsencode(temporary))
    except OSError as error:
        # An edit is worth more than the certainty that nothing is left of it.
        log.warning("no note can be made of %s: %s", temporary, error.strerror or error)
        yield
        return
    try:
        yield
    finally:
        if not os.path.lexists(temporary):
            with suppress(FileNotFoundError):
                note.unlink()
        os.close(descriptor)


def clear() -> list[Path]:
    """Remove what killed processes left; never raises. Returns the files that were there."""
    found: list[Path] = []
    try:
        notes = list(directory().iterdir())
    except OSError:
        return found
    for note in notes:
        try:
            found += _clear(note)
        except OSError as error:
            log.warning("what %s names cannot be removed: %s", note, error.strerror or error)
    return found


def _note(note: Path, content: bytes) -> int:
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        descriptor = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Between the two calls it belongs to nobody, and another process that starts may have cleared it.
        if os.fstat(descriptor).st_nlink:
            break
        os.close(descriptor)
    os.write(descriptor, content)
    return descriptor


def _clear(note: Path) -> list[Path]:
    descriptor = os.open(note, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path = Path(os.fsdecode(os.read(descriptor, 65536)))
        # A note that its writer did not finish names no file that there could be.
        is_left = path.is_absolute() and path.name == note.name and os.path.lexists(path)
        if is_left:
            path.unlink()
        note.unlink()
        return [path] if is_left else []
    except BlockingIOError:
        return []
    finally:
        os.close(descriptor)
