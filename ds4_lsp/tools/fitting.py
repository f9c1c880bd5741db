"""Showing a part of a result where the whole does not fit the context: as much as fits, and how to get the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ds4_lsp.tools.base import Fits, ToolResult

LEAST_SHOWN = 200
"""Code points below which a piece of a text tells nothing."""


async def most(high: int, fits: Callable[[int], Awaitable[bool]]) -> int:
    """The largest number up to ``high`` that fits; 0 where none does."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if await fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


async def fit_part(result: ToolResult, room: int, tokens: Callable[[str], Awaitable[int]]) -> ToolResult | None:
    """The part of ``result`` that has at most ``room`` tokens, by its own means or cut in the middle; None where that
    would tell nothing. ``tokens``: of a text as this result's, its frame included."""

    async def fits(text: str) -> bool:
        return await tokens(text) <= room

    return await (result.part or _middle_out(result))(fits)


def _middle_out(result: ToolResult) -> Callable[[Fits], Awaitable[ToolResult | None]]:
    async def part(fits: Fits) -> ToolResult | None:
        text = result.text

        def cut(length: int) -> str:
            first, last = text[: length - length // 3], text[len(text) - length // 3 :]
            first = first[: first.rfind("\n") + 1] or first
            last = last[last.find("\n") + 1 :] or last
            left_out = len(text) - len(first) - len(last)
            note = (
                f"[… {left_out} of {len(text)} characters do not fit into the context now: ask for less, or a part …]"
            )
            return f"{first.rstrip()}\n{note}\n{last}"

        length = await most(len(text) - 1, lambda length: fits(cut(length)))
        if length < LEAST_SHOWN:
            return None
        # What was left out was not shown, and which lines those are is not known.
        return ToolResult(cut(length), ok=result.ok, data=result.data)

    return part
