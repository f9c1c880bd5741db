"""Shrinking old tool results instead of summarising, where the engine would be done sooner (*What*, 2). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ds4_lsp.compaction import graphemes
from ds4_lsp.compaction.model import Item, Speeds
from ds4_lsp.compaction.triggers import Limits

PRUNE_ABOVE = 8192
HEAD = 4096
TAIL = 1024
"""Code points: results longer than the first shrink to the other two and a marker."""


@dataclass(frozen=True)
class Shrunk:
    """What the item at ``index`` of the surface would become."""

    index: int
    text: str
    tokens: int


def shrink(text: str, seq: int) -> str:
    """``text`` cut to its head and tail with a marker between them; unchanged when it is not over the limit.

    ``seq`` is the event that keeps the whole. What was shrunk once is under the limit, hence never shrunk again.
    """
    if len(text) <= PRUNE_ABOVE:
        return text
    first, last = graphemes.head(text, HEAD), graphemes.tail(text, TAIL)
    removed = len(text) - len(first) - len(last)
    return (
        f"{first}\n[… {removed} characters of this result were removed here to save context; `recall` with "
        f"event={seq} shows them …]\n{last}"
    )


def candidates(items: Sequence[Item], cut: int) -> list[int]:
    """Indexes of the tool results older than the tail that can shrink. Not those that the model has yet to read: it
    would ask for them again."""
    read = max((index for index, item in enumerate(items) if item.role == "assistant"), default=0)
    old = enumerate(items[: min(cut, read)])
    return [index for index, item in old if item.role == "tool" and len(item.text) > PRUNE_ABOVE]


def summary_seconds(request: int, summary: int, rebuilt: int, speeds: Speeds) -> float | None:
    """Engine time of a summary: its request, its decoding, and the rebuild; None while a speed is unknown."""
    if not speeds.prefill or not speeds.decode:
        return None
    return (request + rebuilt) / speeds.prefill + summary / speeds.decode


def choose(
    items: Sequence[Item],
    shrunk: Sequence[Shrunk],
    *,
    needed: int,
    limits: Limits,
    speeds: Speeds,
    summary_cost: float | None,
) -> tuple[Shrunk, ...]:
    """The results to shrink, oldest first; empty when summarising is the better way.

    Everything after the first changed node is evaluated again, so the newest ones go first, and no more of them than
    take ``needed`` (the next request) a tenth of the context below the threshold.
    """
    if summary_cost is None or not speeds.prefill:
        return ()
    starts = [0, *accumulate(item.tokens for item in items)]
    chosen: list[Shrunk] = []
    saved = 0
    for candidate in reversed(shrunk):
        gain = items[candidate.index].tokens - candidate.tokens
        if gain <= 0:
            continue
        chosen.append(candidate)
        saved += gain
        if needed - saved <= limits.soft_at - limits.step:
            evaluated = starts[-1] - starts[candidate.index] - saved
            return tuple(reversed(chosen)) if evaluated / speeds.prefill < summary_cost else ()
    return ()
