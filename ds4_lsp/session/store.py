"""The sessions of one workspace on disk: ``BASE/<workspace>/<session>/``."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from platformdirs import user_state_path

from ds4_lsp.protocol.errors import Ambiguous, NotFound
from ds4_lsp.session import meta
from ds4_lsp.session.events import Event, Header
from ds4_lsp.session.fork import copy_log
from ds4_lsp.session.lock import SessionLock, is_held, locked
from ds4_lsp.session.log import EventLog
from ds4_lsp.session.meta import SessionSummary
from ds4_lsp.session.reader import LOG_NAME
from ds4_lsp.session.session import Session
from ds4_lsp.session.storage import make_directory, replace_file, storage_failed, storing, sync_directory

WORKSPACE_NAME = "workspace.json"
_GROUP = re.compile(r"[0-9a-f]{16}\Z")
_SESSION = re.compile(r"[0-9a-f]{16}\Z")
_NEW, _DELETED = ".new-", ".deleted-"
_log = logging.getLogger(__name__)

Observe = Callable[[Event], None]


def _ignore(_event: Event) -> None:
    pass


def default_base() -> Path:
    """Where sessions are kept unless a setting says otherwise."""
    return Path(user_state_path("ds4-lsp", appauthor=False)) / "sessions"


def workspace_key(workspace: Sequence[Path]) -> str:
    """The directory name of a workspace: the same for the same folders in any order."""
    paths = sorted({str(path.resolve()) for path in workspace})
    return hashlib.sha256("\0".join(paths).encode("utf-8", "surrogateescape")).hexdigest()[:16]


class SessionStore:
    """``base`` None is the user's state directory. Nothing is created before a session is."""

    def __init__(self, base: Path | None, workspace: Sequence[Path]) -> None:
        self.base = base or default_base()
        self.workspace = tuple(str(path.resolve()) for path in workspace)
        self.directory = self.base / workspace_key(workspace)

    def create(self, title: str | None = None, parent: tuple[str, int] | None = None) -> Session:
        """A new, empty, open session. Raises ``StorageFailed``."""
        header = self._header(title, parent)
        draft = self._draft(header)
        try:
            EventLog.create(draft, header).close()
            return self._publish(draft, header)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def open(self, prefix: str, observe: Observe = _ignore) -> Session:
        """The session whose id begins with ``prefix``, and no other's does. ``observe`` is given all its events.

        Raises ``NotFound``, ``Ambiguous``, ``SessionLocked``, ``CorruptSession`` or ``StorageFailed``.
        """
        return Session.open(self.find(prefix), observe)

    def find(self, prefix: str) -> Path:
        """The directory of a session, by any unique prefix of its id. Raises ``NotFound`` or ``Ambiguous``."""
        found = [path for path in self._directories() if path.name.startswith(prefix)] if prefix else []
        if not found:
            raise NotFound(
                f"This workspace has no session {prefix!r}. ds4.listSessions names those that it has.", sessionId=prefix
            )
        if len(found) > 1:
            names = sorted(path.name for path in found)
            raise Ambiguous(
                f"{prefix!r} is the beginning of {len(names)} sessions: {', '.join(names[:5])}. Give more of the id.",
                sessionIds=names,
            )
        return found[0]

    def list(self) -> Sequence[SessionSummary]:
        """Every session of the workspace, newest first; a damaged one too, with its ``problem``."""
        summaries = [(path, meta.load(path)) for path in self._directories()]
        # One that was deleted meanwhile has a problem, and is none.
        there = [item for path, item in summaries if item.problem is None or _has_log(path)]
        return sorted(there, key=lambda item: (item.updated_at, item.session_id), reverse=True)

    def latest(self) -> str | None:
        """The id of the session last written to that can be read, if any."""
        return next((item.session_id for item in self.list() if item.problem is None), None)

    def delete(self, prefix: str) -> str:
        """Remove a session and everything beside it; returns its id.

        Raises ``NotFound``, ``Ambiguous``, ``SessionLocked`` (also where this process has it open), ``StorageFailed``.
        """
        path = self.find(prefix)
        lock = SessionLock(path)
        try:
            _bury(path)
        finally:
            lock.release()
        return path.name

    def leftovers(self) -> Sequence[Path]:
        """Directories named as sessions that have no log: what is left of ones that were removed in part. Nothing uses
        them, and they may still hold what was said."""
        return [path for path in self._entries() if _SESSION.match(path.name) and path.is_dir() and not _has_log(path)]

    def remove_leftover(self, path: Path) -> None:
        """Remove one of :meth:`leftovers`. Raises ``SessionLocked`` while a server has it open, ``StorageFailed``."""
        with storing("look into", path):
            if is_held(path):
                raise locked(path)
        if not _has_log(path):
            _bury(path)

    def fork(
        self, prefix: str, seq: int | None = None, *, title: str | None = None, observe: Observe = _ignore
    ) -> Session:
        """A new, open session that begins as a copy of another up to event ``seq`` (inclusive; None: as far as its
        calls have results). The other may be open elsewhere; it may be damaged after ``seq``.

        The copy keeps the texts that its edits refer to. Queued prompts stay with the original.
        Raises ``InvalidRequest`` for a cut that would part a call from its result or fall into a compaction; else as
        :meth:`open` and :meth:`create` do.
        """
        source = self.find(prefix)
        draft = self._draft(None)
        try:
            header = copy_log(source, draft, seq, lambda parent, old: self._header(title or old, parent))
            return self._publish(draft, header, observe)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def clean(self) -> int:
        """Remove what creations and deletions that were cut short left behind, an hour after; returns how many."""
        removed = 0
        for path in self._entries():
            with suppress(OSError):
                stale = time.time() - path.stat().st_mtime > 3600
                if stale and path.name.startswith((_NEW, _DELETED)):
                    shutil.rmtree(path)
                    removed += 1
        return removed

    def _header(self, title: str | None, parent: tuple[str, int] | None) -> Header:
        return Header(secrets.token_hex(8), self.workspace, round(time.time(), 3), title, parent)

    def _draft(self, header: Header | None) -> Path:
        name = header.session_id if header else secrets.token_hex(8)
        path = self.directory / f"{_NEW}{name}"
        with storing("create a session in", self.directory):
            make_directory(self.directory)
            marker = self.directory / WORKSPACE_NAME
            if not marker.exists():
                replace_file(marker, json.dumps({"workspace": self.workspace}).encode())
            path.mkdir(mode=0o700)
        return path

    def _publish(self, draft: Path, header: Header, observe: Observe = _ignore) -> Session:
        """Give a complete draft its name: a session is there as a whole or not at all."""
        path = self.directory / header.session_id
        with storing("create", path):
            draft.rename(path)
            sync_directory(self.directory)
        return Session.open(path, observe)

    def _directories(self) -> Sequence[Path]:
        return [path for path in self._entries() if _SESSION.match(path.name) and _has_log(path)]

    def _entries(self) -> Sequence[Path]:
        try:
            return sorted(self.directory.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_failed("read the sessions in", self.directory, error) from error


def every_store(base: Path | None) -> Iterator[SessionStore]:
    """The stores of all workspaces that ever had a session under ``base``."""
    root = base or default_base()
    if not root.is_dir():
        return
    with storing("read the sessions in", root):
        groups = sorted(path for path in root.iterdir() if _GROUP.match(path.name) and path.is_dir())
    for group in groups:
        try:
            store = SessionStore(root, _workspace_of(group))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            _log.warning("%s does not name its workspace: %s", group, error)
            store = SessionStore(root, [])
        # The folders may since have become links to elsewhere; the sessions stay where they are.
        store.directory = group
        yield store


def _bury(path: Path) -> None:
    """Renamed first: a session disappears at once and as a whole, whatever happens to the rest."""
    grave = path.with_name(f"{_DELETED}{path.name}-{secrets.token_hex(4)}")
    with storing("delete", path):
        try:
            path.rename(grave)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # A longer name can need room, and deleting is how one gets some. Without its log it is no session.
            (path / LOG_NAME).unlink(missing_ok=True)
            grave = path
    shutil.rmtree(grave, ignore_errors=True)


def _workspace_of(group: Path) -> list[Path]:
    named = json.loads((group / WORKSPACE_NAME).read_bytes())["workspace"]
    if not isinstance(named, list):
        raise TypeError(f"{named!r} is no list of folders")
    return [Path(item) for item in named]


def _has_log(directory: Path) -> bool:
    """Whether a session is there. One that cannot be looked into is: what it lacks is its ``problem``."""
    try:
        (directory / LOG_NAME).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
