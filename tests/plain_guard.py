"""The guard by lists of lines: slow, and plain enough to be believed. ``ds4_lsp.edits.guard`` must agree with it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ds4_lsp.edits.guard import Lines, Mode, OldText, Refusal, Resolution, Target, Whole
from ds4_lsp.edits.text import content, ending, file_tag, lines, unify
from ds4_lsp.edits.views import View, covers


class PlainIndex:
    """Where the lines of one text are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: Sequence[str] = lines(text)
        self._starts = list(accumulate(map(len, self.lines), initial=0))

    def __len__(self) -> int:
        """The number of lines."""
        return len(self.lines)

    def start(self, line: int) -> int:
        """Offset of the first code point of a 1-based line; that of the line after the last is the text's end."""
        return self._starts[line - 1]

    def end(self, line: int) -> int:
        """Offset just after a 1-based line, its ending included. Line 0 ends at 0."""
        return self._starts[line]

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds the code point at ``offset``; at the text's end, the last line, at least 1."""
        return max(1, min(bisect_right(self._starts, offset), len(self.lines)))


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
    index = PlainIndex(current)
    try:
        if file_tag(current) == tag:
            place = _locate(target, index)
            if require_shown:
                _check_shown(target, place, index, view)
            return _fit(target, new, index, place, rebased=False)
        seen = PlainIndex(_seen_text(target, view, mode))
        place = _locate(target, seen)
        if require_shown:
            _check_shown(target, place, seen, view)
        return _fit(target, new, index, _rebase(target, place, seen, index), rebased=True)
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


def _locate(target: Target, index: PlainIndex) -> _Place:
    """The target in the text that it names."""
    count = len(index)
    match target:
        case Whole():
            return _Place(0, len(index.text), 1, count)
        case Lines(start, end):
            if start < 1 or end < start - 1:
                raise _Refused(Refusal("invalid", f"lines {start}-{end} are no range: lines count from 1"))
            if end > count or start > count + 1:
                message = f"lines {start}-{end} were named, but the text has {count} lines"
                raise _Refused(Refusal("staleFileTag", message, (max(1, count - 20), max(1, count))))
            return _Place(index.end(start - 1), index.end(end), start, end)
        case OldText(text):
            start, end = _only(index, text)
            return _Place(start, end, index.line_at(start), index.line_at(end - 1))


def _only(index: PlainIndex, old: str) -> tuple[int, int]:
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


def _check_shown(target: Target, place: _Place, index: PlainIndex, view: View | None) -> None:
    if view is None:
        raise _stale("no text with that file_tag was shown in this session", target)
    ranges = view.numbered if isinstance(target, Lines) else view.known
    if place.last < place.first:
        # An insertion has no lines of its own: its author must have seen the line before or the line after.
        near = [line for line in (place.last, place.first) if 1 <= line <= len(index)]
        if near and not any(covers(ranges, line, line) for line in near):
            raise _unseen(near[0], near[-1])
    elif not covers(ranges, place.first, place.last):
        raise _unseen(place.first, place.last)


def _unseen(start: int, end: int) -> _Refused:
    which = f"line {start} was not" if start == end else f"lines {start}-{end} were not all"
    return _Refused(Refusal("staleFileTag", f"{which} shown with that file_tag", (start, end)))


def _rebase(target: Target, place: _Place, seen: PlainIndex, current: PlainIndex) -> _Place:
    """Where the target stands in the current text now."""
    low = max(place.first - 1, 1)
    block = seen.lines[low - 1 : place.last + 1]
    there = _occurrences(current.lines, block)
    if not there:
        raise _stale("those lines, or the line before or after them, have changed since they were read", target)
    if len(there) > 1 or len(_occurrences(seen.lines, block)) > 1:
        raise _stale("the text has changed, and those lines occur more than once: their place is not certain", target)
    if isinstance(target, OldText):
        _only(current, target.text)
    rows = there[0] + 1 - low
    # Same lines, same bytes: offsets within the block carry over.
    return place.moved(current.start(low + rows) - seen.start(low), rows)


def _occurrences(lines: Sequence[str], block: Sequence[str]) -> list[int]:
    """Where ``block`` stands in ``lines``, 0-based, at most two. An empty block stands nowhere."""
    found: list[int] = []
    if not block:
        return found
    first, last, at = block[0], len(block) - 1, -1
    while len(found) < 2:
        try:
            at = lines.index(first, at + 1, max(0, len(lines) - last))
        except ValueError:
            break
        if lines[at + last] == block[last] and lines[at : at + last + 1] == block:
            found.append(at)
    return found


def _fit(target: Target, new: str, index: PlainIndex, place: _Place, *, rebased: bool) -> Resolution:
    """The target's place with the text to put there."""
    back = 0
    if target == Whole("exact"):
        fitted = new
    elif isinstance(target, OldText) or target == Whole("text"):
        fitted = fit_span(new, index, (place.start, place.end), (place.first, place.last))
    else:
        fitted, back = fit_lines(new, index, place.first, place.last)
    return Resolution(place.start - back, place.end, fitted, place.first, place.last, rebased)


def _find(index: PlainIndex, needle: str, most: int) -> list[tuple[int, int]]:
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


def _original(index: PlainIndex, unified: str, offset: int) -> int:
    """The offset in a text of an offset in its unified form: never inside a CRLF."""
    line = unified.count("\n", 0, offset)
    if line >= len(index):
        return len(index.text)
    column = offset - (unified.rfind("\n", 0, offset) + 1)
    return index.start(line + 1) + min(column, len(content(index.lines[line])))


def fit_lines(new: str, index: PlainIndex, start: int, end: int) -> tuple[str, int]:
    """``new`` as whole lines in place of lines ``start`` to ``end`` (1-based inclusive).

    A last ending of ``new`` is neither needed nor doubled: ``"a"`` and ``"a\\n"`` are the same line, ``""`` is none.
    A missing final ending of the text stays missing. Returns the text, and how many code points before the lines it
    replaces as well: the ending before last lines that go.
    """
    old, fresh = index.lines, [content(line) for line in lines(new)]
    endings = _endings(old, start, end, len(fresh))
    before, after = _around(index, index.end(start - 1), index.end(end))
    if not old or ending(old[-1]) or end < len(old):
        return _join(before, list(zip(fresh, endings, strict=True)), after), 0
    if not fresh:
        # Lines that end the text go: with them goes the ending that parted them from the line that is now the last.
        return "", len(ending(old[start - 2])) if 1 < start <= end else 0
    parts = list(zip(fresh, [*endings[:-1], ""], strict=True))
    appended = [("", endings[0])] if end < start else []
    return _join(before, appended + parts, after), 0


def fit_span(new: str, index: PlainIndex, span: tuple[int, int], rows: tuple[int, int]) -> str:
    """``new`` in place of the code points ``span``, in lines ``rows``.

    Its line breaks take those lines' endings; a final one is as given.
    """
    fresh = lines(new)
    endings = _endings(index.lines, *rows, len(fresh))
    parts = [(content(line), mark if ending(line) else "") for line, mark in zip(fresh, endings, strict=True)]
    before, after = _around(index, *span)
    return _join(before, parts, after)


def _endings(old: Sequence[str], start: int, end: int, count: int) -> list[str]:
    """The endings for ``count`` lines in place of lines ``start`` to ``end``; further ones take the last."""
    # Only a text's last line lacks an ending, so one of two neighbours has one unless the text has none at all.
    followed = [ending(old[number - 1]) for number in (start - 1, start - 2) if 1 <= number <= len(old)]
    last = next(filter(None, followed), "") or (ending(old[0]) if old else "") or "\n"
    found: list[str] = []
    for number in range(start, start + count):
        if number <= end:
            last = ending(old[number - 1]) or last
        found.append(last)
    return found


def _around(index: PlainIndex, start: int, end: int) -> tuple[str, str]:
    return index.text[max(0, start - 1) : start], index.text[end : end + 1]


def _join(before: str, parts: list[tuple[str, str]], after: str) -> str:
    """The lines as one text that keeps its lines apart where it is put.

    In a text with mixed endings a CR can come to stand before an LF, and two line ends would become one: there CRLF
    takes the place of one of them.
    """
    if before == "\r" and after == "\n" and not any(map("".join, parts)):
        return "\r"
    text: list[str] = []
    last = before
    for body, mark in parts:
        apart = "\r\n" if mark == "\n" and not body and last == "\r" else mark
        piece = body + apart
        text.append(piece)
        last = piece[-1:] or last
    if last == "\r" and after == "\n" and any(text):
        text.append("\n")
    return "".join(text)
