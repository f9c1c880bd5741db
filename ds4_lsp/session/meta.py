"""``meta.json``: what a list of sessions shows, cached beside the log it derives from.

The log is what counts. A cache that is not exactly of the expected shape, or not of the whole log, is as good as none.
"""

from __future__ import annotations

import json
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ds4_lsp.protocol.commands import SessionInfo
from ds4_lsp.protocol.errors import CorruptSession, NotFound, StorageFailed
from ds4_lsp.session.events import Header
from ds4_lsp.session.reader import LOG_NAME, read_file
from ds4_lsp.session.state import LogState
from ds4_lsp.session.storage import replace_file, storing

META_NAME = "meta.json"
KV_NAME = "kv"
LARGEST = 1 << 20
"""Bytes above which a cache is not read."""
UNREADABLE = "(unreadable)"

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Seconds = Annotated[float, Field(ge=0, lt=1e11, allow_inf_nan=False)]


@dataclass(frozen=True)
class SessionSummary:
    """``tokens``: of the transcript, as last measured. ``size``: bytes of the log.

    ``problem``: what is wrong; then the rest is as far as it could be read, and ``updated_at`` the time that the file
    system has of the log.
    """

    session_id: str
    title: str
    workspace: tuple[str, ...]
    created_at: float
    updated_at: float
    turns: int
    tokens: int
    compactions: int
    size: int
    snapshot: bool = False
    problem: str | None = None

    def info(self, *, current: bool) -> SessionInfo:
        """The summary as ``ds4.listSessions`` sends it."""
        return SessionInfo(
            session_id=self.session_id,
            title=self.title,
            created_at=self.created_at,
            updated_at=self.updated_at,
            turns=self.turns,
            tokens=self.tokens,
            compactions=self.compactions,
            current=current,
            snapshot=self.snapshot,
        )


class _Cache(BaseModel):
    """The file's content. Strict: what is not of these types was not written by this version."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    session_id: str
    title: str
    workspace: tuple[str, ...]
    created_at: Seconds
    updated_at: Seconds
    turns: Count
    tokens: Count
    compactions: Count
    size: Count


_CACHED = tuple(name for name in _Cache.model_fields if name != "version")


def summarise(directory: Path, state: LogState, size: int) -> SessionSummary:
    """The summary of a log's state. ``size``: bytes of the log that ``state`` covers."""
    header = state.header
    return SessionSummary(
        session_id=directory.name,
        title=state.title,
        workspace=header.workspace if header else (),
        created_at=header.created_at if header else 0.0,
        updated_at=state.updated_at,
        turns=state.turns,
        tokens=state.tokens,
        compactions=state.compactions,
        size=size,
        snapshot=has_snapshot(directory),
    )


def check_name(directory: Path, header: Header | None) -> None:
    """Raise ``CorruptSession`` where the log in ``directory`` is another session's: a copy, or one that was renamed,
    must not be taken for the real one."""
    if header is not None and header.session_id != directory.name:
        raise CorruptSession(
            f"The log in {directory} is of session {header.session_id}: the directory was copied or renamed. Nothing "
            "was changed. Give it that name again, or continue in a fork (ds4.forkSession).",
            path=str(directory),
        )


def has_snapshot(directory: Path) -> bool:
    with suppress(OSError):
        return any((directory / KV_NAME).glob("*.kv"))
    return False


def write(directory: Path, summary: SessionSummary) -> None:
    """Raises ``OSError``; readers then rebuild what they need."""
    members = {name: getattr(summary, name) for name in _CACHED}
    replace_file(directory / META_NAME, json.dumps({"version": 1, **members}).encode(), durable=False)


def load(directory: Path) -> SessionSummary:
    """The cached summary where it covers the whole log, else one rebuilt from the log. Never raises for a bad session:
    its ``problem`` says what is wrong."""
    try:
        size = (directory / LOG_NAME).stat().st_size
    except OSError:
        size = -1
    known = cached(directory)
    return known if known is not None and known.size == size else rebuilt(directory)


def rebuilt(directory: Path) -> SessionSummary:
    """The summary as the log has it, whatever the cache says. Never raises, as :func:`load`."""
    state = LogState()
    size, written = 0, 0.0
    try:
        with storing("look into", directory):
            status = (directory / LOG_NAME).stat()
        size, written = status.st_size, status.st_mtime
        for event in read_file(directory):
            state.apply(event)
            if event.seq == 0:
                check_name(directory, state.header)
        return summarise(directory, state, size)
    except (OSError, CorruptSession, NotFound, StorageFailed) as error:
        known = summarise(directory, state, size)
        return replace(
            known,
            title=known.title or UNREADABLE,
            updated_at=written or known.updated_at,
            problem=str(error),
        )


def cached(directory: Path) -> SessionSummary | None:
    """The cache's content, or None where there is none that this version wrote for this session."""
    path = directory / META_NAME
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        cache = _Cache.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    if cache.session_id != directory.name:
        return None
    return SessionSummary(**{name: getattr(cache, name) for name in _CACHED}, snapshot=has_snapshot(directory))
