"""Whether a text that is being written has begun to repeat itself. Pure, and linear in the text."""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOWS = ((3000, 100, True), (8000, 800, True), (8000, 800, False))
"""(code points at the end of the text, longest piece of which they consist over and over, whether of lines): that is 30
and 10 times at least. What people ask for repeats itself less: a table's rule, rows of zeros."""
STEP = 250
"""Code points between two looks."""


@dataclass
class Repetition:
    """Fed a text piece by piece."""

    _tail: str = ""
    _unseen: int = 0
    _found: bool = field(default=False)

    def feed(self, text: str) -> bool:
        """Whether the text up to here ends in a repetition."""
        longest = WINDOWS[-1][0]
        self._tail = (self._tail + text)[-longest:]
        self._unseen += len(text)
        if self._unseen >= STEP:
            self._unseen = 0
            self._found = any(
                len(self._tail) >= size
                and ("\n" in self._tail[-piece:] or not of_lines)
                and period(self._tail[-size:]) <= piece
                for size, piece, of_lines in WINDOWS
            )
        return self._found


def period(text: str) -> int:
    """The length of the shortest piece that the text repeats, its own length where it repeats none (Knuth, Morris,
    Pratt)."""
    borders = [0] * len(text)
    size = 0
    for at in range(1, len(text)):
        while size and text[at] != text[size]:
            size = borders[size - 1]
        size += text[at] == text[size]
        borders[at] = size
    return len(text) - (borders[-1] if borders else 0)
