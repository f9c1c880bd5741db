"""What a turn changed, from the log: each file's text before its first edit and after its last. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ds4_lsp.session.events import Event


@dataclass(frozen=True)
class Change:
    """One file of one turn. ``before_blob`` None: the turn created it."""

    uri: str
    path: Path
    before_blob: str | None
    after_tag: str


def changes(events: Iterable[Event], turn: int | None) -> tuple[int, list[Change]]:
    """The turn and its changes, newest file first; None means the last turn with an edit that was not undone."""
    # By path: one file can be spelled in several ways, as by an editor that opened it in the middle of the turn.
    turns: dict[int, dict[str, Change]] = {}
    for event in events:
        if event.type != "edit/applied":
            continue
        data = event.data
        if data.get("undoes") is not None:
            turns.get(data["undoes"], {}).pop(data["path"], None)
            continue
        files = turns.setdefault(data["turn"], {})
        change = Change(data["uri"], Path(data["path"]), data["beforeBlob"], data["afterTag"])
        known = files.pop(data["path"], None)
        files[data["path"]] = change if known is None else replace(change, before_blob=known.before_blob)
    if turn is None:
        turn = max((number for number, files in turns.items() if files), default=0)
    return turn, list(reversed(turns.get(turn, {}).values()))
