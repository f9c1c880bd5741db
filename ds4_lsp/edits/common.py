"""What two texts have in common at their ends."""

from __future__ import annotations

_PIECE = 65536
"""Code points compared at once: a comparison copies one side."""


def common_prefix(one: str, other: str) -> int:
    """How many code points both begin with."""
    low, high = 0, min(len(one), len(other))
    while low + _PIECE < high and other.startswith(one[low : low + _PIECE], low):
        low += _PIECE
    high = min(high, low + _PIECE)
    while low < high:
        middle = (low + high + 1) // 2
        if other.startswith(one[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(one: str, other: str, most: int | None = None) -> int:
    """How many code points both end with, at most ``most``."""
    low, high = 0, min(len(one), len(other)) if most is None else most

    def same(start: int, end: int) -> bool:
        """Of the code points ``start`` to ``end``, counted from the ends."""
        return other.startswith(one[len(one) - end : len(one) - start], len(other) - end)

    while low + _PIECE < high and same(low, low + _PIECE):
        low += _PIECE
    high = min(high, low + _PIECE)
    while low < high:
        middle = (low + high + 1) // 2
        if same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low
