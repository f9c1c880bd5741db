"""A message that is much larger than its share of the tail: its beginning, a marker, and its end as it was."""

from __future__ import annotations

from ds4_lsp.compaction import graphemes
from ds4_lsp.compaction.fitting import Count, largest

HEAD_TOKENS = 64
"""Tokens of the beginning that stay: of a file its name and tag, of a call what it is."""
LINE_REACH = 160
"""Code points by which an end may begin earlier, to begin with a whole line."""


def marker(left_out: int, seq: int) -> str:
    """What stands for ``left_out`` code points of event ``seq``."""
    return f"[… {left_out} characters are left out here to save context: `recall` with event={seq} shows them …]"


async def end_of(text: str, least: int, count: Count) -> int:
    """Where the end of ``text`` begins that has at least ``least`` tokens, and not many more. 0: all is needed."""
    size = max(1, least)
    while size < len(text) and await count(graphemes.tail(text, size)) < least:
        size *= 2
    size = min(size, len(text))

    async def is_more_than_enough(less: int) -> bool:
        return await count(graphemes.tail(text, size - less)) >= least

    less = await largest(0, size, is_more_than_enough)
    # A border that a grapheme forbids is moved inwards by ``tail``: what was counted is what is taken.
    start = len(text) - len(graphemes.tail(text, size - less))
    line = text.rfind("\n", max(0, start - LINE_REACH), start)
    return line + 1 if line >= 0 else (0 if start <= LINE_REACH else start)


async def beginning_of(text: str, most: int, count: Count) -> int:
    """Where the beginning of ``text`` ends that has at most ``most`` tokens; after a line, where there is one."""

    async def fits(length: int) -> bool:
        return await count(graphemes.head(text, length)) <= most

    first = graphemes.head(text, await largest(0, min(len(text), most * 8), fits))
    return first.rfind("\n") + 1 or len(first)


async def shorten(text: str, tail: int, seq: int, count: Count) -> str | None:
    """``text`` with at least ``tail`` tokens of its end; None where nothing could be left out."""
    end, start = await beginning_of(text, HEAD_TOKENS, count), await end_of(text, tail, count)
    if start <= end:
        return None
    note = marker(start - end, seq)
    return f"{text[:end].rstrip()}\n{note}\n{text[start:]}" if start - end > len(note) else None
