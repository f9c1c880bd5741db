"""Files of a session on disk: private modes, durable writes, and an errno's meaning for the user."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ds4_lsp.protocol.errors import StorageFailed

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_RIGHT = {errno.EROFS, errno.EACCES, errno.EPERM}
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ELOOP}


def storage_failed(action: str, path: Path, error: OSError) -> StorageFailed:
    """The refusal that an OS error becomes; says what to do."""
    if error.errno in _NO_ROOM:
        remedy = "Free some space there (`ds4-lsp sessions prune` helps) and send the prompt again."
    elif error.errno == errno.EACCES and (closed := _closed_directory(path)) is not None:
        remedy = (
            f"Give yourself access to its directory (chmod u+rwx {closed}). Make it writable, or set "
            "ds4.sessions.directory to a place that is."
        )
    elif error.errno in _NO_RIGHT:
        remedy = "Make it writable, or set ds4.sessions.directory to a place that is."
    elif error.errno in _GONE:
        remedy = "The directory is gone or in another's way: put it back, or start a new session (ds4.newSession)."
    else:
        remedy = "Check the disk, or set ds4.sessions.directory to another one."
    reason = error.strerror or str(error)
    return StorageFailed(f"Could not {action} {path}: {reason}. {remedy}", path=str(path), errno=error.errno)


def _closed_directory(path: Path) -> Path | None:
    """The first directory on the way to ``path`` that this user may not enter, or that one itself if it is closed."""
    for directory in reversed(path.parents):
        if directory.is_dir() and not os.access(directory, os.X_OK):
            return directory
    return path if path.is_dir() and not os.access(path, os.R_OK | os.X_OK) else None


@contextmanager
def storing(action: str, path: Path) -> Iterator[None]:
    """Turn ``OSError`` into ``StorageFailed``."""
    try:
        yield
    except OSError as error:
        raise storage_failed(action, path, error) from error


def make_directory(path: Path) -> None:
    """Create ``path``, mode 0700, and its parents, where missing. Raises ``OSError``."""
    if path.is_dir():
        return
    missing = [path, *path.parents]
    for directory in reversed([item for item in missing if not item.exists()]):
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def make_inside(path: Path) -> None:
    """Create ``path``, mode 0700, where missing, and never its parent: that may have been deleted or moved away, and
    must not come back. Raises ``OSError``."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def sync_directory(path: Path) -> None:
    """Make names in a directory durable. Raises ``OSError``."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data``. Raises ``OSError``."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def replace_file(path: Path, data: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Put ``data`` in the place of ``path`` (mode 0600): whole, or not at all. Raises ``OSError``, and what an iterable
    ``data`` raises."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            for piece in (data,) if isinstance(data, bytes) else data:
                write_all(fd, piece)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)
