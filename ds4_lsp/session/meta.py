"""``meta.json``: what a list of sessions shows, cached beside the log it derives from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ds4_lsp.protocol.commands import SessionInfo
from ds4_lsp.protocol.errors import CorruptSession, NotFound, StorageFailed
from ds4_lsp.session.reader import LOG_NAME, read_file
from ds4_lsp.session.state import LogState
from ds4_lsp.session.storage import replace_file

META_NAME = "meta.json"
KV_NAME = "kv"
_VERSION = 1


@dataclass(frozen=True)
class SessionSummary:
    """``tokens``: of the transcript, as last measured. ``size``: bytes of the log. ``problem``: what is wrong."""

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


def summarise(directory: Path, state: LogState, size: int) -> SessionSummary:
    """The summary of a log's state. ``size``: bytes of the log that ``state`` covers."""
    header = state.header
    return SessionSummary(
        session_id=header.session_id if header else directory.name,
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


def has_snapshot(directory: Path) -> bool:
    return any((directory / KV_NAME).glob("*.kv"))


def write(directory: Path, summary: SessionSummary) -> None:
    """Raises ``OSError``; readers then rebuild what they need."""
    members = {"version": _VERSION, **asdict(summary)}
    replace_file(directory / META_NAME, json.dumps(members).encode(), durable=False)


def load(directory: Path) -> SessionSummary:
    """The cached summary where it covers the whole log, else one rebuilt from the log. Never raises for a bad session:
    its ``problem`` says what is wrong."""
    try:
        size = (directory / LOG_NAME).stat().st_size
        cached = _cached(directory)
        if cached is not None and cached.size == size:
            return cached
        state = LogState()
        for event in read_file(directory):
            state.apply(event)
        return summarise(directory, state, size)
    except (OSError, CorruptSession, NotFound, StorageFailed) as error:
        return SessionSummary(directory.name, "(unreadable)", (), 0.0, 0.0, 0, 0, 0, 0, False, str(error))


def _cached(directory: Path) -> SessionSummary | None:
    """The cache's content, or None where there is none of this version."""
    try:
        members = json.loads((directory / META_NAME).read_bytes())
        if members.pop("version") != _VERSION or members["session_id"] != directory.name:
            return None
        members["workspace"] = tuple(members["workspace"])
        members["snapshot"] = has_snapshot(directory)
        return SessionSummary(**members)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
