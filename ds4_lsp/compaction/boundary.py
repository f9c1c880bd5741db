"""Where the tail begins: a pure function of the surface and its token counts (the page's section *What*, 1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ds4_lsp.compaction.model import Item
from ds4_lsp.protocol.errors import CorruptSession


def balanced_cuts(items: Sequence[Item]) -> list[bool]:
    """For each cut ``k`` from 0 to ``len(items)``: whether every call in ``items[:k]`` has its result there.

    Calls and results are matched by id. A result without an open call before it, or a call id used twice, is
    corruption and raises ``CorruptSession``.
    """
    waiting: set[str] = set()
    seen: set[str] = set()
    balanced = [True]
    for item in items:
        repeated = item.calls & seen
        if repeated:
            raise CorruptSession(
                f"event {item.seq} repeats the tool call id {min(repeated)}; open a fork that ends before it",
                seq=item.seq,
            )
        if item.result_for is not None:
            if item.result_for not in waiting:
                raise CorruptSession(
                    f"event {item.seq} is the result of {item.result_for}, a tool call that is not waiting for one; "
                    "open a fork that ends before it",
                    seq=item.seq,
                )
            waiting.discard(item.result_for)
        seen |= item.calls
        waiting |= item.calls
        balanced.append(not waiting)
    return balanced


def choose(items: Sequence[Item], tail_budget: int) -> int | None:
    """Index of the first item of the tail, or None when nothing older than the tail can go.

    The tail may be empty (``len(items)``) when the newest message alone is over ``tail_budget``.
    """
    balanced = balanced_cuts(items)
    starts = [0, *accumulate(item.tokens for item in items)]
    target = starts[-1] - tail_budget
    if target <= 0:
        return None
    return _settle(items, balanced, aligned(items, starts, target))


def choose_maximal(items: Sequence[Item]) -> int | None:
    """As :func:`choose`, with the smallest tail there is: the newest message, or a call with its results."""
    balanced = balanced_cuts(items)
    return _settle(items, balanced, max(0, len(items) - 1))


def aligned(items: Sequence[Item], starts: Sequence[int], target: int) -> int:
    """The first user message that starts at or after ``target`` tokens, else the first message border there.

    Notices are the program's, not the user's, and no better a border than any other message.
    """
    for index, item in enumerate(items):
        if starts[index] >= target and item.role == "user" and item.kind != "notice":
            return index
    return next(index for index, start in enumerate(starts) if start >= target)


def _settle(items: Sequence[Item], balanced: Sequence[bool], cut: int) -> int | None:
    while not balanced[cut]:
        cut -= 1
    # A checkpoint alone is all that an earlier pass could leave: to summarise it again would only lose detail.
    if all(item.kind == "checkpoint" for item in items[:cut]):
        return None
    return cut
