"""Which lines of a text come nearest to what its author took them to be. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

MOST_LINES = 5000
"""Lines that are compared one by one: some tens of milliseconds."""
LEAST = 0.6
"""Likeness below which a line is another one (``difflib``'s ratio, from 0 to 1)."""


def nearest(named: str, rows: Sequence[str]) -> tuple[int, int] | None:
    """The 1-based lines most like the lines of ``named``, None where none is alike."""
    wanted = [line.strip() for line in named.splitlines()] or [""]
    # The longest line says most of where the others are.
    anchor = max(range(len(wanted)), key=lambda row: len(wanted[row]))
    if not wanted[anchor]:
        return None
    matcher = difflib.SequenceMatcher(b=wanted[anchor][:400], autojunk=False)
    best, at = LEAST, None
    for number, row in enumerate(rows[:MOST_LINES], 1):
        matcher.set_seq1(row.strip()[:400])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, at = matcher.ratio(), number
    if at is None:
        return None
    first = max(1, at - anchor)
    return first, min(len(rows), first + len(wanted) - 1)
