"""What models slip at when they name text, mended where the seen text leaves no doubt about what is meant.

The guard is not asked here and does not change: this only says in other words which lines are meant and what is to be
there. Each rule is safe since the server knows what it showed: a mended target is lines of that very text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ds4_lsp.edits.guard import Lines, OldText, Refusal, Target, Whole
from ds4_lsp.edits.indent import reindent
from ds4_lsp.edits.text import unify

NUMBERS_OFF = "The line numbers of the view were taken off: they are no part of the file."
INDENTED = "The indentation was made that of the file."

NUMBERED_NEW = Refusal(
    "invalid", "lines of `new` begin with line numbers, as the view shows them: give the text without numbers"
)

_HEADER = re.compile(r"\S.*: file_tag=[0-9a-f]{8} lines \d+-\d+ of \d+")
_NUMBERED = re.compile(r"[ \t]*(\d{1,7})(?:([ \t|:])(.*)|)")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Mended:
    """``notes``: what its author is told of how it was understood."""

    target: Target
    new: str
    notes: tuple[str, ...] = ()


def mend(target: Target, new: str, text: str, *, every: bool = False) -> Mended | Refusal:
    """``target`` and ``new`` as they were meant in ``text``, which its author saw.

    ``every``: all occurrences of an old text are meant. What needs no mending, or cannot be mended, comes back as it
    was; a ``Refusal`` is for what would damage the file.
    """
    rows = _rows(text)
    match target:
        case OldText(old):
            return _mend_old(_without_header(old), _without_header(new), unify(text), rows, every=every)
        case Lines(start, end):
            return _plain_new(target, _without_header(new), start, rows[start - 1 : max(end, start - 1)])
        case Whole():
            return _plain_new(target, _without_header(new), 1, rows)


def _mend_old(old: str, new: str, text: str, rows: Sequence[str], *, every: bool) -> Mended | Refusal:
    flat = unify(old)
    named = _rows(flat)
    found = _occurrences(text, flat)
    if not found and (numbers := _numbers(named)) is not None:
        return _by_numbers(numbers, new, rows)
    if every and found:
        return _everywhere(flat, new, text)
    if len(found) == 1:
        return _once(found[0], flat, new, text, rows)
    places = _places(named, rows, str.rstrip if not found else str)
    if len(places) == 1:
        return _plain_new(_lines(places[0], named), new, places[0], named)
    if found or places:
        return Mended(OldText(old), new)
    return _by_shape(old, named, new, rows)


def _by_numbers(numbers: list[tuple[int, str]], new: str, rows: Sequence[str]) -> Mended | Refusal:
    """``old`` copied from the view: taken only where each line begins with the number that was shown for it."""
    first, last = numbers[0][0], numbers[-1][0]
    here = rows[first - 1 : last] if first else []
    said = [body for _number, body in numbers]
    if len(here) != len(said) or any(a.strip() != b.strip() for a, b in zip(said, here, strict=True)):
        message = "the lines of `old` begin with line numbers, and those are other lines: give the text without numbers"
        return Refusal("staleFileTag", message, (max(1, first), max(1, last)))
    fresh = _as_named(_rows(new), first, said)
    if fresh is None:
        return NUMBERED_NEW
    return Mended(Lines(first, last), "\n".join(reindent(said, here, fresh) or fresh), (NUMBERS_OFF,))


def _as_named(new: list[str], first: int, said: Sequence[str]) -> list[str] | None:
    """The rows of a ``new`` whose ``old`` was numbered, without their numbers; None where only some have one."""
    own = _numbers(said) is not None
    numbers = _numbers(new)
    if numbers is not None and numbers[0][0] == first:
        plain = [body for _number, body in numbers]
        # Where the file's own lines begin with numbers there must be two of them.
        return plain if not own or _numbers(plain) is not None else new
    near = range(first, first + len(said) + len(new))
    mixed = any((match := _NUMBERED.fullmatch(row)) and int(match[1]) in near for row in new)
    return None if mixed and not own else new


def _by_shape(old: str, named: Sequence[str], new: str, rows: Sequence[str]) -> Mended | Refusal:
    """``old`` with another indentation than the file's: its place must be the only one of that shape."""
    places = _places(named, rows, str.strip)
    if not places and (core := _core(old, new, rows)) is not None:
        old, new = core
        named = _rows(old)
        places = _places(named, rows, str.strip)
    if len(places) != 1:
        return Mended(OldText(old), new)
    target = _lines(places[0], named)
    mended = _plain_new(target, new, target.start, named)
    if isinstance(mended, Refusal):
        return mended
    fitted = reindent(named, rows[target.start - 1 : target.end], _rows(mended.new))
    if fitted is None:
        message = "`old` is indented otherwise than the file, and `new` cannot be brought to the file's indentation"
        return Refusal("staleFileTag", message, (target.start, target.end))
    return replace(mended, new="\n".join(fitted), notes=(*mended.notes, INDENTED))


def _core(old: str, new: str, rows: Sequence[str]) -> tuple[str, str] | None:
    """The lines that ``old`` and ``new`` do not share, where all of ``old`` stands in the text once but for white
    space: a block that its author laid out anew. None where it does not, or where the lines alone are not certain."""
    solid = _squeezed(old)
    if not solid or len(_occurrences(_squeezed("\n".join(rows)), solid)) != 1:
        return None
    before, after = _rows(unify(old)), _rows(unify(new))
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    if head + tail == len(before) and head:
        head -= 1
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    if not left or left == before or len(_places(left, rows, str.strip)) != 1:
        return None
    return "\n".join(left), "\n".join(right)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _once(at: int, old: str, new: str, text: str, rows: Sequence[str]) -> Mended | Refusal:
    """``old`` stands there to the letter. Where it is whole lines, whole lines are meant: then it does not matter
    whether either text ends its last line, and an empty ``new`` leaves no empty line behind."""
    start = text.rfind("\n", 0, at) + 1
    lead = text[start:at]
    end = at + len(old)
    first = text.count("\n", 0, at) + 1
    if lead.strip() or unify(new).strip() == old.strip():
        return Mended(OldText(old), new)
    mended = _plain_new(OldText(old), new, first, rows[first - 1 : first])
    if isinstance(mended, Refusal):
        return mended
    fresh = mended.new
    if not (old.endswith("\n") or end == len(text) or text[end] == "\n"):
        # A piece of a line: its indentation stands there already.
        doubled = lead and not old[0].isspace() and fresh.startswith(lead)
        return replace(mended, new=fresh[len(lead) :] if doubled else fresh)
    if lead and fresh and (old[0].isspace() or not fresh.startswith(lead)):
        fresh = lead + fresh
    return replace(mended, target=Lines(first, first + old.rstrip("\n").count("\n"), by_text=True), new=fresh)


def _everywhere(old: str, new: str, text: str) -> Mended | Refusal:
    """Every occurrence, as the lines from the first to the last one. Of a word only whole words."""
    fresh = unify(new)
    pattern = re.escape(old)
    if _WORD.fullmatch(old):
        pattern = rf"(?<!\w){pattern}(?!\w)"
    found = list(re.finditer(pattern, text))
    left = text.count(old) - len(found)
    if not found:
        return Refusal("staleFileTag", f"`old` stands there only as a part of longer words ({left} times)")
    start = text.rfind("\n", 0, found[0].start()) + 1
    end = found[-1].end()
    if text[end - 1] != "\n":
        end = text.find("\n", end) if "\n" in text[end:] else len(text)
    body = re.sub(pattern, lambda _match: fresh, text[start:end])
    first = text.count("\n", 0, start) + 1
    target = Lines(first, first + text.count("\n", start, end - 1), by_text=True)
    notes = [f"{len(found)} {'place' if len(found) == 1 else 'places'} changed."]
    if left:
        notes.append(f"{left} more were left, where it is a part of a longer word.")
    return Mended(target, body, tuple(notes))


def _plain_new(target: Target, new: str, first: int, before: Sequence[str]) -> Mended | Refusal:
    """``new`` without the numbers of the view, for lines from ``first`` on, which read ``before`` until now."""
    rows = _rows(unify(new))
    numbers = _numbers(rows, view_only=True)
    if numbers is None or _numbers(list(before[:1]), view_only=True) is not None:
        return Mended(target, new)
    if numbers[0][0] == first:
        plain = "\n".join(body for _number, body in numbers)
        return Mended(target, plain + ("\n" if new.endswith(("\n", "\r")) else ""), (NUMBERS_OFF,))
    if len(numbers) > 1:
        return NUMBERED_NEW
    return Mended(target, new)


def _numbers(rows: Sequence[str], *, view_only: bool = False) -> list[tuple[int, str]] | None:
    """The rows with their numbers, where each has one and they count up by one. ``view_only``: with nothing but the
    view's own space after the number."""
    found: list[tuple[int, str]] = []
    for row in rows:
        match = _NUMBERED.fullmatch(row)
        if match is None or (view_only and match[2] not in (None, " ")) or (view_only and row[0].isspace()):
            return None
        found.append((int(match[1]), match[3] or ""))
    if not found or any(later[0] != earlier[0] + 1 for earlier, later in pairwise(found)):
        return None
    # A number alone is the view of an empty line, or just a number.
    return found if any(body for _number, body in found) else None


def _places(named: Sequence[str], rows: Sequence[str], like: Callable[[str], str]) -> list[int]:
    """1-based lines at which the named rows stand, as compared by ``like``; at most two."""
    wanted = [like(row) for row in named]
    if not any(row.strip() for row in wanted):
        return []
    there = [like(row) for row in rows]
    found: list[int] = []
    for at in range(len(there) - len(wanted) + 1):
        if there[at] == wanted[0] and there[at : at + len(wanted)] == wanted:
            found.append(at + 1)
            if len(found) > 1:
                break
    return found


def _lines(start: int, named: Sequence[str]) -> Lines:
    return Lines(start, start + len(named) - 1, by_text=True)


def _occurrences(text: str, old: str) -> list[int]:
    """Offsets, at most two."""
    at = text.find(old) if old else -1
    if at < 0:
        return []
    again = text.find(old, at + 1)
    return [at] if again < 0 else [at, again]


def _rows(text: str) -> list[str]:
    """The lines without their endings; a final ending begins no line."""
    return unify(text).removesuffix("\n").split("\n")


def _without_header(text: str) -> str:
    first, _, rest = unify(text).partition("\n")
    return rest if rest and _HEADER.fullmatch(first) else text
