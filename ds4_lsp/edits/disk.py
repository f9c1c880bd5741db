"""Files on disk: read as bytes, written whole or not at all.

Synchronous; large files are a thread's work. Errors are ``Ds4Error`` with what to do next.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from ds4_lsp.edits.leftovers import noted
from ds4_lsp.edits.text import UTF8, Text, decode, encode, file_tag
from ds4_lsp.protocol.errors import InvalidRequest, NotApplied, NotFound, StaleFileTag

SIZE_LIMIT = 50_000_000
"""Bytes from which on a file is not read as text."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What file systems without hard links answer."""


def read(path: Path, name: str | None = None) -> Text:
    """The text of a file, which messages call ``name``.

    ``NotFound``; ``InvalidRequest``: not a regular file, too large, binary, unreadable.
    """
    name = name or str(path)
    return _decode(_bytes(path, name), name)


def _decode(data: bytes, name: str) -> Text:
    try:
        return decode(data)
    except InvalidRequest as error:
        raise InvalidRequest(f"{name} cannot be used as text: {error.message}") from None


def _bytes(path: Path, name: str) -> bytes:
    try:
        # Looked at before it is opened: opening a device can have effects, and opening a pipe waits for its writer.
        _check_regular(name, path.stat())
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            _check_regular(name, status)
            data = file.read(SIZE_LIMIT)
    except FileNotFoundError:
        raise NotFound(f"{name} does not exist. `list` and `search` show what does.") from None
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) >= SIZE_LIMIT:
        size = f"{max(status.st_size, len(data)):,} bytes"
        raise InvalidRequest(
            f"{name} is too large ({size}; the limit is {SIZE_LIMIT:,}): use `bash` with head, sed or grep"
        )
    return data


def write(path: Path, text: str, before_tag: str | None) -> None:
    """Replace a file's text, or create the file.

    ``before_tag``: the tag that the text on disk must still have; None: nothing may be there yet, and missing parent
    directories are made. Encoding, byte order mark and mode stay, and a symlink's target is written, not the link.
    At every moment the path holds the old file or the new one, whole. ``StaleFileTag``, ``NotFound``;
    ``InvalidRequest``: the text is one that could not be read again; ``NotApplied``: the file is read-only, or leads
    elsewhere by now, or cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        if before_tag is None:
            data = _fitting(path, encode(text, UTF8))
            if os.path.lexists(target):
                raise _exists(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, data, None)
            return
        status = target.stat() if target.exists() else None
        data = _bytes(target, str(target))
        found = _decode(data, str(target))
        if status is None or file_tag(found.text) != before_tag:
            raise _changed(path)
        _check_writable(target, status)
        _replace(target, _fitting(path, encode(text, found.encoding)), (status, data))
    except OSError as error:
        raise NotApplied(f"{path} could not be written: {error.strerror or error}") from None


def remove(path: Path) -> None:
    """Remove a file. ``path`` is real: ``NotApplied`` where it leads elsewhere by now. ``OSError``."""
    _check_place(path)
    path.unlink()


def is_real(path: Path) -> bool:
    """Whether a path that was real, without links, still is."""
    return os.path.realpath(path) == str(path)


def _check_place(target: Path) -> None:
    if not is_real(target):
        raise NotApplied(f"{target} leads somewhere else now: it or a folder of it has become a link")


def _check_writable(target: Path, status: os.stat_result) -> None:
    # A rename needs no permission on the file that it replaces, and the superuser none at all; editors ask for one.
    if not status.st_mode & 0o222 or not os.access(target, os.W_OK):
        mode = stat.S_IMODE(status.st_mode)
        raise NotApplied(f"{target} is read-only (mode {mode:04o}): ask the user, who can make it writable")


def _fitting(path: Path, data: bytes) -> bytes:
    if len(data) >= SIZE_LIMIT:
        raise InvalidRequest(
            f"{path} would become too large ({len(data):,} bytes; the limit is {SIZE_LIMIT:,}): use `bash`"
        )
    return data


def _replace(target: Path, data: bytes, old: tuple[os.stat_result, bytes] | None) -> None:
    """Put ``data`` at ``target``: over the file that was ``old``, or with None as a new one, which must not exist."""
    temporary = target.with_name(f".ds4-{secrets.token_hex(8)}.tmp")
    with noted(temporary):
        _write_through(temporary, target, data, old)
    _sync_directory(target.parent)


def _write_through(temporary: Path, target: Path, data: bytes, old: tuple[os.stat_result, bytes] | None) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if old is not None:
                kept = _keep_owner(file.fileno(), old[0])
                # A program that runs as its owner must not come to run as somebody else.
                os.fchmod(file.fileno(), stat.S_IMODE(old[0].st_mode) & (0o7777 if kept else 0o1777))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _check_place(target)
        if old is None:
            _move_new(temporary, target)
        elif _identity(target.stat()) != _identity(old[0]) or _bytes(target, str(target)) != old[1]:
            # Writing to a slow disk takes a while, in which another program may save the file; clocks of file systems
            # are too coarse to tell.
            raise _changed(target)
        else:
            temporary.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _move_new(temporary: Path, target: Path) -> None:
    """Rename to a name that nothing has. ``StaleFileTag``: something has it."""
    try:
        # A link fails where a file has come into being meanwhile; a rename would replace it.
        target.hardlink_to(temporary)
        temporary.unlink()
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise _exists(target) from None
        temporary.replace(target)


def _exists(path: Path) -> StaleFileTag:
    return StaleFileTag(f"{path} exists already: read it, and give its file_tag")


def _changed(path: Path) -> StaleFileTag:
    return StaleFileTag(f"{path} has changed on disk: read it again")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _keep_owner(descriptor: int, status: os.stat_result) -> bool:
    """Give a new file the owner and group of the old one; whether it has them."""
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) == (status.st_uid, status.st_gid):
        return True
    # Only root may give files away; a file of one's own is better than no edit.
    with suppress(PermissionError):
        os.fchown(descriptor, status.st_uid, status.st_gid)
        return True
    return False


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_regular(name: str, status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise InvalidRequest(f"{name} is a directory: use `list`")
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise InvalidRequest(f"{name} is {kind}, not a file with text")
