"""Making text fit a number of tokens, by counting with the real tokenizer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ds4_lsp.compaction import graphemes

Count = Callable[[str], Awaitable[int]]
"""Tokens of a text, tokenised as plain text."""

_LONGEST_PIECE = 64
"""Code points per token that no useful text exceeds; bounds what is given to the tokenizer."""


async def largest(low: int, high: int, fits: Callable[[int], Awaitable[bool]]) -> int:
    """The largest number from ``low`` to ``high`` that fits, if ``low`` does and fitting is monotone; else ``low``."""
    while low < high:
        middle = (low + high + 1) // 2
        if await fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


async def fit_head(text: str, cap: int, count: Count) -> str:
    """The beginning of ``text`` that has at most ``cap`` tokens, ended at a line where that costs less than half."""
    if len(text) <= cap * _LONGEST_PIECE and await count(text) <= cap:
        return text

    async def fits(length: int) -> bool:
        return await count(graphemes.head(text, length)) <= cap

    length = await largest(0, min(len(text), cap * _LONGEST_PIECE), fits)
    return at_line(graphemes.head(text, length))


def at_line(text: str) -> str:
    """``text`` without its last, incomplete line, unless that is most of it."""
    end = text.rfind("\n")
    return (text[:end] if 2 * end >= len(text) else text).rstrip()


async def fit_head_tail(text: str, cap: int, count: Count, note: Callable[[int], str]) -> str:
    """``text`` when it has at most ``cap`` tokens; else three quarters head, one quarter tail, and ``note(characters
    left out)`` between them on a line of its own. Empty when not even the note fits."""
    if len(text) <= cap * _LONGEST_PIECE and await count(text) <= cap:
        return text

    def cut(length: int) -> str:
        first, last = graphemes.head(text, length - length // 4), graphemes.tail(text, length // 4)
        return f"{first}\n{note(len(text) - len(first) - len(last))}\n{last}"

    async def fits(length: int) -> bool:
        return await count(cut(length)) <= cap

    length = await largest(0, min(len(text) - 1, cap * _LONGEST_PIECE), fits)
    return cut(length) if length or await fits(0) else ""
