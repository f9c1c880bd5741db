"""Where the tail begins: a pure function of the surface and its token counts (the page's section *What*, 1).

Two promises. What the model has not read is never on the far side of the cut. And the tail never has less than its
budget, token for token: where the budget ends inside a message that is much larger, the end of that message stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ds4_lsp.compaction.model import Item
from ds4_lsp.protocol.errors import CorruptSession

LEAST_GAIN = 64
"""Tokens that shortening one message must free to be worth a node of its own."""


@dataclass(frozen=True)
class Trim:
    """The message at ``index`` is to be shortened: of its end at least ``tail`` tokens stay."""

    index: int
    tail: int


@dataclass(frozen=True)
class Cut:
    """``at``: the first item of the tail. ``trims``: items of the tail that are much larger than their share of it.
    ``ending``: tokens of the end of the prompt before the tail that its budget has room for: the checkpoint ends with
    them.
    """

    at: int
    trims: tuple[Trim, ...] = ()
    ending: int = 0

    @property
    def older(self) -> int:
        """How many items no part of which the tail needs."""
        return max([self.at, *(trim.index + 1 for trim in self.trims if not trim.tail)])


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


def first_unread(items: Sequence[Item], *, results_only: bool = False) -> int:
    """Index of the first item that no reply follows, which the model has therefore not read; ``len(items)`` for none.

    ``results_only``: only while tool results are among them. A prompt's words are in the checkpoint, and a notice
    is no news to the user; but nobody keeps a result.
    """
    first = next((index + 1 for index in reversed(range(len(items))) if items[index].role == "assistant"), 0)
    unread = items[first:]
    if results_only:
        return first if any(item.role == "tool" for item in unread) else len(items)
    return first if any(item.kind in ("prompt", "result") for item in unread) else len(items)


def choose(items: Sequence[Item], tail_budget: int, prompt_budget: int) -> Cut | None:
    """Where to cut for a tail of at least ``tail_budget`` tokens, or None when nothing older than it can go.

    A prompt in which the budget ends stays whole if it has at most ``prompt_budget`` tokens. A larger one goes: the
    checkpoint has as many of its words, and its end.
    """
    balanced = balanced_cuts(items)
    starts = [0, *accumulate(item.tokens for item in items)]
    target = starts[-1] - tail_budget
    if target <= 0:
        return None
    unread = first_unread(items)
    reached = bisect_right(starts, target) - 1
    at = min(reached, unread)
    if at < unread and starts[at] < target and items[at].kind == "prompt" and items[at].tokens > prompt_budget:
        at += 1
    at, slack = _settled(balanced, at), tail_budget // 4
    prompt = _before_prompt(items, starts, at, slack)
    trims = _trims(items[: min(reached + 1, unread)], starts, at, target=target, slack=slack)
    if not _nothing_before(items, prompt):
        return Cut(prompt, trims, max(0, starts[prompt] - target))
    # A short prompt alone is not worth it, unless much more goes with it.
    return Cut(at, trims, max(0, starts[at] - target)) if trims and not _nothing_before(items, at) else None


def choose_maximal(items: Sequence[Item]) -> Cut | None:
    """As :func:`choose`, with the smallest tail there is: the newest message, or a call with its results, and results
    that the model has not read."""
    balanced = balanced_cuts(items)
    at = _settled(balanced, min(max(0, len(items) - 1), first_unread(items, results_only=True)))
    return None if _nothing_before(items, at) else Cut(at)


def _settled(balanced: Sequence[bool], at: int) -> int:
    while not balanced[at]:
        at -= 1
    return at


def _before_prompt(items: Sequence[Item], starts: Sequence[int], at: int, slack: int) -> int:
    """A prompt that begins shortly before the cut is the better border: what follows answers it."""
    for index in range(at, -1, -1):
        if starts[at] - starts[index] > slack or index == len(items):
            break
        if items[index].kind == "prompt":
            return index
    return at


def _nothing_before(items: Sequence[Item], at: int) -> bool:
    # A checkpoint alone is all that an earlier pass could leave: to summarise it again would only lose detail.
    return all(item.kind == "checkpoint" for item in items[:at])


def _trims(items: Sequence[Item], starts: Sequence[int], at: int, *, target: int, slack: int) -> tuple[Trim, ...]:
    """The messages that reach over the target by much more than what the tail needs of them."""
    trims = []
    for index in range(at, len(items)):
        item = items[index]
        tail = max(0, starts[index + 1] - target)
        if item.role != "user" and item.tokens - tail > max(slack, LEAST_GAIN):
            trims.append(Trim(index, tail))
    return tuple(trims)
