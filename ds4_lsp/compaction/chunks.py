"""Splitting a span that does not fit beside the summary request into consecutive parts. Pure but for counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ds4_lsp.compaction import graphemes
from ds4_lsp.compaction.boundary import balanced_cuts
from ds4_lsp.compaction.fitting import Count, fit_head, largest
from ds4_lsp.compaction.model import Item


@dataclass(frozen=True)
class Chunk:
    """Surface items ``start`` to ``stop`` (exclusive). Not ``whole``: one unit too large to be shown as it is."""

    start: int
    stop: int
    whole: bool


def split(items: Sequence[Item], cut: int, first_room: int, room: int, *, tail: int | None = None) -> list[Chunk]:
    """Cover ``items[:cut]`` by chunks of at most ``first_room`` and then ``room`` tokens, each cut balanced; but not
    after the item ``tail``, from which on calls may still wait for their results."""
    balanced = balanced_cuts(items)
    cuts = [index for index in range(1, cut + 1) if balanced[index] or (tail is not None and index > tail)]
    chunks: list[Chunk] = []
    start = 0
    while start < cut:
        limit = room if chunks else first_room
        later = [index for index in cuts if index > start]
        fitting = [index for index in later if sum(item.tokens for item in items[start:index]) <= limit]
        stop = fitting[-1] if fitting else later[0]
        chunks.append(Chunk(start, stop, bool(fitting)))
        start = stop
    return chunks


async def excerpt(items: Sequence[Item], cap: int, count: Count) -> str:
    """The items as labelled plain text, long ones cut to head and tail, in at most ``cap`` tokens."""

    def text(length: int) -> str:
        return "\n\n".join(f"[{_label(item)}]\n{_cut(item.text, length)}" for item in items)

    async def fits(length: int) -> bool:
        return await count(text(length)) <= cap

    longest = max((len(item.text) for item in items), default=0)
    # Of very many items not even the labels may fit.
    return await fit_head(text(await largest(0, longest, fits)), cap, count)


def _label(item: Item) -> str:
    return f"result of {item.name or 'a tool'}" if item.role == "tool" else item.role


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    first, last = graphemes.head(text, length - length // 4), graphemes.tail(text, length // 4)
    return f"{first}\n[… {len(text) - len(first) - len(last)} characters left out …]\n{last}"
