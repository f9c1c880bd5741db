"""The guard: may this edit land, and where?

The author names the text that it saw by a tag, and a target in it. Where the current text is that text, the target is
where it says. Where it is not, the target is looked for by content: its lines, with one neighbour on each side where
there is one, must stand together, byte for byte, exactly once in the text that was seen and exactly once in the
current one. A line diff would map such a block to the same place, for a block that is unique on both sides is an
anchor of every sensible diff; and where it is not unique, a diff's choice would be a guess, which the guard refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds4_lsp.edits.blocks import block_starts, places_after
from ds4_lsp.edits.fit import fit_lines, fit_span
from ds4_lsp.edits.text import LineIndex, content, file_tag, unify
from ds4_lsp.edits.views import View, covers

Mode = Literal["rebase", "strict"]


@dataclass(frozen=True)
class Lines:
    """1-based inclusive lines of the text that was seen. ``end = start - 1`` inserts before ``start``.

    ``exact``: the new text is put there to the byte, its line endings too. ``by_text``: they were named by what they
    say, so that their numbers need not have been shown.
    """

    start: int
    end: int
    exact: bool = False
    by_text: bool = False


@dataclass(frozen=True)
class OldText:
    """A text that occurs exactly once, whatever its line endings."""

    text: str


@dataclass(frozen=True)
class Whole:
    """Everything, whose tag must be current.

    ``lines``: as lines 1 to n, with a final ending as found. ``text``: with a final ending as given. ``exact``: to the
    byte, line endings too.
    """

    form: Literal["lines", "text", "exact"] = "text"


Target = Lines | OldText | Whole


@dataclass(frozen=True)
class Resolution:
    """``current[start:end]`` becomes ``new_text``.

    ``start_line`` to ``end_line``: the target's lines in the current text, ``end_line = start_line - 1`` for none.
    """

    start: int
    end: int
    new_text: str
    start_line: int
    end_line: int
    rebased: bool = False


@dataclass(frozen=True)
class Refusal:
    """Why not. ``read``: the lines to read again, as far as that can be told."""

    code: Literal["staleFileTag", "ambiguous", "invalid"]
    message: str
    read: tuple[int, int] | None = None


def resolve(
    target: Target,
    new: str,
    *,
    tag: str,
    current: str,
    view: View | None,
    mode: Mode = "rebase",
    require_shown: bool = True,
) -> Resolution | Refusal:
    """Where ``new`` may replace ``target``, which was named in the text with ``tag``.

    ``view``: what this author was shown of that text, if anything. ``require_shown`` False is for a client, which has
    the whole text that it names.
    """
    # Where the text that was seen is at hand it is compared itself: quicker than its checksum, and never wrong.
    unchanged = file_tag(current) == tag if view is None or view.text is None else current == view.text
    try:
        if unchanged:
            index = LineIndex(current)
            place = _locate(target, index)
            if require_shown:
                _check_shown(target, place, index, view)
            return _fit(target, new, index, place, rebased=False)
        seen = LineIndex(_seen_text(target, view, mode))
        place = _locate(target, seen)
        if require_shown:
            _check_shown(target, place, seen, view)
        index, place = _rebase(target, place, seen, current)
        return _fit(target, new, index, place, rebased=True)
    except _Refused as refused:
        return refused.refusal


@dataclass(frozen=True)
class _Place:
    """A target in one text: code points ``start`` to ``end`` (exclusive) in lines ``first`` to ``last``."""

    start: int
    end: int
    first: int
    last: int

    def moved(self, offset: int, rows: int) -> _Place:
        return _Place(self.start + offset, self.end + offset, self.first + rows, self.last + rows)


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _stale(message: str, target: Target) -> _Refused:
    read = (target.start, max(target.start, target.end)) if isinstance(target, Lines) else None
    return _Refused(Refusal("staleFileTag", message, read))


def _seen_text(target: Target, view: View | None, mode: Mode) -> str:
    """The text that a stale tag stands for, where an edit of it can be judged at all."""
    if view is None:
        raise _stale("no text with that file_tag was shown in this session", target)
    if mode == "strict":
        raise _stale("the text has changed since it was read", target)
    if isinstance(target, Whole):
        raise _stale("the text has changed since it was read, and replacing all of it needs the current tag", target)
    if view.text is None:
        raise _stale("the text has changed since it was read, and the text as read is no longer kept", target)
    return view.text


def _locate(target: Target, index: LineIndex) -> _Place:
    """The target in the text that it names."""
    match target:
        case Whole():
            return _Place(0, len(index.text), 1, len(index))
        case Lines(start, end):
            if start < 1 or end < start - 1:
                raise _Refused(Refusal("invalid", f"lines {start}-{end} are no range: lines count from 1"))
            if end >= 1 and not index.has(end):
                count = len(index)
                message = f"lines {start}-{end} were named, but the text has {count} lines"
                raise _Refused(Refusal("staleFileTag", message, (max(1, count - 20), max(1, count))))
            return _Place(index.end(start - 1), index.end(end), start, end)
        case OldText(text):
            start, end = _only(index, text)
            return _Place(start, end, index.line_at(start), index.line_at(end - 1))


def _only(index: LineIndex, old: str) -> tuple[int, int]:
    if not old:
        raise _Refused(Refusal("invalid", "`old` is empty: give the text to replace"))
    found = _find(index, unify(old), 3)
    if not found:
        message = "`old` does not occur in it; it must match exactly, white space too"
        raise _Refused(Refusal("staleFileTag", message))
    if len(found) > 1:
        rows = ", ".join(str(index.line_at(start)) for start, _end in found)
        more = ", …" if len(found) > 2 else ""
        message = f"`old` occurs more than once (lines {rows}{more}): add lines around it, or name line numbers"
        raise _Refused(Refusal("ambiguous", message))
    return found[0]


def _check_shown(target: Target, place: _Place, index: LineIndex, view: View | None) -> None:
    if view is None:
        raise _stale("no text with that file_tag was shown in this session", target)
    ranges = view.numbered if isinstance(target, Lines) and not target.by_text else view.known
    if place.last < place.first:
        # An insertion has no lines of its own: its author must have seen the line before or the line after.
        near = [line for line in (place.last, place.first) if line >= 1 and index.has(line)]
        if near and not any(covers(ranges, line, line) for line in near):
            raise _unseen(near[0], near[-1])
    elif not covers(ranges, place.first, place.last):
        raise _unseen(place.first, place.last)


def _unseen(start: int, end: int) -> _Refused:
    which = f"line {start} was not" if start == end else f"lines {start}-{end} were not all"
    return _Refused(Refusal("staleFileTag", f"{which} shown with that file_tag", (start, end)))


def _rebase(target: Target, place: _Place, seen: LineIndex, current: str) -> tuple[LineIndex, _Place]:
    """The current text's lines, and where the target stands among them."""
    low = max(place.first - 1, 1)
    high = place.last + 1 if seen.has(place.last + 1) else place.last
    start = seen.start(low)
    block = seen.text[start : seen.end(high)]
    is_unique = len(block_starts(seen.text, block)) < 2
    there = places_after(seen, current, low, high) if is_unique else []
    if not there and (is_unique or not block_starts(current, block)):
        raise _stale("those lines, or the line before or after them, have changed since they were read", target)
    if len(there) != 1:
        raise _stale("the text has changed, and those lines occur more than once: their place is not certain", target)
    [(at, line)] = there
    index = LineIndex(current, known=(at, line))
    if isinstance(target, OldText):
        _only(index, target.text)
    # Same lines, same bytes: offsets within the block carry over.
    return index, place.moved(at - start, line - low)


def _fit(target: Target, new: str, index: LineIndex, place: _Place, *, rebased: bool) -> Resolution:
    """The target's place with the text to put there."""
    back = 0
    match target:
        case Lines(exact=True) | Whole("exact"):
            fitted = new
        case OldText() | Whole("text"):
            fitted = fit_span(new, index, (place.start, place.end), (place.first, place.last))
        case _:
            fitted, back = fit_lines(new, index, place.first, place.last)
    return Resolution(place.start - back, place.end, fitted, place.first, place.last, rebased)


def _find(index: LineIndex, needle: str, most: int) -> list[tuple[int, int]]:
    """Offsets of ``needle`` (endings as LF) whatever the text's endings; at most ``most``, overlapping ones too."""
    text = unify(index.text)
    found: list[tuple[int, int]] = []
    at = text.find(needle)
    while at >= 0 and len(found) < most:
        found.append((at, at + len(needle)))
        at = text.find(needle, at + 1)
    if text == index.text:
        return found
    return [(_original(index, text, start), _original(index, text, end)) for start, end in found]


def _original(index: LineIndex, unified: str, offset: int) -> int:
    """The offset in a text of an offset in its unified form: never inside a CRLF."""
    line = unified.count("\n", 0, offset)
    if not index.has(line + 1):
        return len(index.text)
    column = offset - (unified.rfind("\n", 0, offset) + 1)
    return index.start(line + 1) + min(column, len(content(index[line])))
