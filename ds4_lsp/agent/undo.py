"""What a turn changed, from the log, and what each file's text was before it. Pure.

The edits that a turn made of one file are a chain: each should have found the text that the one before it left. Where
that is so, the file goes back in one step. Where it is not, somebody typed in between, and what they typed stays: the
edits are taken back one by one, newest first, each only from the lines that it had made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from ds4_lsp.edits.guard import Lines, Mode, Refusal, resolve
from ds4_lsp.edits.text import file_tag, lines
from ds4_lsp.edits.views import View
from ds4_lsp.session.events import Event

CHANGED_SINCE = "it was changed since"
CHANGED_BETWEEN = "it was changed between two edits of the turn, in the lines of one of them or right beside them"
MADE_AND_CHANGED = "the turn created it, and it was changed since: it is kept"


@dataclass(frozen=True)
class Step:
    """One edit. ``before`` and ``after`` name stored texts; ``before`` None: it created the file.

    ``saved_tag``: of what a formatter made of the text in the edit's own save. ``saved``: it reached the disk.
    """

    before_tag: str
    after_tag: str
    before: str | None
    after: str | None
    saved_tag: str | None = None
    saved: bool = True

    @property
    def left(self) -> frozenset[str]:
        """Tags of the texts that this edit can have left, if nobody else changed anything."""
        return frozenset({self.after_tag, self.saved_tag or self.after_tag})


@dataclass(frozen=True)
class Change:
    """One file of one turn. ``steps``: its edits, oldest first, at least one."""

    uri: str
    path: Path
    steps: tuple[Step, ...]

    @property
    def creates(self) -> bool:
        return self.steps[0].before is None

    @property
    def left(self) -> frozenset[str]:
        """Tags of the text as the turn left it."""
        return self.steps[-1].left

    @property
    def is_proven(self) -> bool:
        """Whether nobody else changed the file between two of its edits."""
        return all(
            later.before is not None and later.before_tag in earlier.left for earlier, later in pairwise(self.steps)
        )


def changes(
    events: Iterable[Event], turn: int | None, tried: Mapping[int, Collection[Change]] = MappingProxyType({})
) -> tuple[int, list[Change]]:
    """The turn and its changes, newest file first.

    None means the last turn with an edit that was not undone. A turn of which nothing is left but what was ``tried``
    and could not be undone comes after all others: it must not stand in the way of earlier ones.
    """
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
        step = Step(
            data["beforeTag"],
            data["afterTag"],
            data["beforeBlob"],
            data["afterBlob"],
            data.get("savedTag"),
            data.get("saved", True),
        )
        known = files.pop(data["path"], None)
        change = Change(data["uri"], Path(data["path"]), (step,))
        files[data["path"]] = change if known is None else replace(change, steps=(*known.steps, step))
    if turn is None:
        left = {number: set(files.values()) for number, files in turns.items() if files}
        turn = max(left, key=lambda number: (not left[number] <= set(tried.get(number, ())), number), default=0)
    return turn, list(reversed(turns.get(turn, {}).values()))


def reverted(change: Change, current: str, stored: Callable[[str], str], mode: Mode) -> str | None:
    """``current`` without the turn's edits; None where somebody else's text would go with them.

    ``stored`` gives the text of a name. ``mode``: in ``strict`` no edit is taken back from a text other than the one
    that it left.
    """
    if file_tag(current) not in change.left:
        return None
    first = change.steps[0]
    if change.is_proven:
        return None if first.before is None else stored(first.before)
    for step in reversed(change.steps):
        if step.before is None or step.after is None:
            return None
        before = stored(step.before)
        if file_tag(current) in step.left:
            current = before
            continue
        taken = _take_back(before, stored(step.after), current, mode)
        if taken is None:
            return None
        current = taken
    return current


def _take_back(before: str, after: str, current: str, mode: Mode) -> str | None:
    """``current`` with the lines that one edit made as they were before it, wherever they stand now."""
    old, new = lines(before), lines(after)
    head = _equal(old, new)
    tail = _equal(old[head:][::-1], new[head:][::-1])
    target = Lines(head + 1, len(new) - tail, exact=True)
    every = ((1, len(new)),)
    text = "".join(old[head : len(old) - tail])
    found = resolve(target, text, tag=file_tag(after), current=current, view=View(after, every, every), mode=mode)
    if isinstance(found, Refusal):
        return None
    return current[: found.start] + found.new_text + current[found.end :]


def _equal(one: list[str], other: list[str]) -> int:
    """How many items two lists have in common at their front."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
