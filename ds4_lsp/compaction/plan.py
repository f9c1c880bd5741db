"""Everything that is settled before the first event of a compaction is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import islice

from ds4_lsp.compaction import boundary, checkpoint
from ds4_lsp.compaction.checkpoint import Draft
from ds4_lsp.compaction.host import Host
from ds4_lsp.compaction.ledger import Facts
from ds4_lsp.compaction.model import Item, Nothing, Trigger
from ds4_lsp.compaction.triggers import Limits

_EVENTS_AT_ONCE = 2000
"""Events folded before the loop may serve something else, a cancel for example."""


@dataclass(frozen=True)
class Plan:
    """What goes, what stays, and what is already known of the checkpoint.

    ``revision`` is that of the surface that ``items`` were; ``items[:cut]`` are shadowed.
    """

    trigger: Trigger
    items: tuple[Item, ...]
    cut: int
    revision: int
    limits: Limits
    prefix: int
    frame_tokens: int
    draft: Draft

    @property
    def bottom(self) -> int:
        """Transcript length in tokens."""
        return self.prefix + sum(item.tokens for item in self.items)

    @property
    def shadowed(self) -> tuple[Item, ...]:
        return self.items[: self.cut]

    @property
    def shadowed_tokens(self) -> int:
        return sum(item.tokens for item in self.shadowed)


async def gather(host: Host) -> Facts:
    """Fold the session's log."""
    facts = Facts()
    events = iter(host.events())
    while batch := list(islice(events, _EVENTS_AT_ONCE)):
        for event in batch:
            facts.apply(event)
        await asyncio.sleep(0)
    return facts


def choose_cut(items: tuple[Item, ...], trigger: Trigger, limits: Limits, tail_tokens: int | None) -> int | None:
    """The boundary that a trigger asks for. Raises ``CorruptSession``."""
    if trigger == "overflow":
        return boundary.choose_maximal(items)
    return boundary.choose(items, limits.tail if tail_tokens is None else tail_tokens)


async def make(
    host: Host, trigger: Trigger, facts: Facts, limits: Limits, *, revision: int, tail_tokens: int | None
) -> Plan | Nothing:
    """Decide what is replaced by what; writes nothing. ``revision``: the surface's before ``facts`` were taken."""
    items = tuple(host.surface())
    cut = choose_cut(items, trigger, limits, tail_tokens)
    if cut is None:
        return Nothing("nothing to compact: all of the conversation is within the part that is kept word for word")
    shadowed = sum(item.tokens for item in items[:cut])
    draft = await _draft(host, facts, items[cut:], limits, shadowed)
    if draft is None:
        return Nothing(
            f"nothing to gain: a checkpoint (at most {limits.checkpoint} tokens) would not be smaller than the "
            f"{shadowed} tokens that it could replace"
        )
    return Plan(trigger, items, cut, revision, limits, host.prefix_tokens, host.frame_tokens, draft)


async def draft_again(host: Host, plan: Plan, facts: Facts) -> Draft:
    """The plan's draft by newer ``facts``. What was planned stands where they leave no room for a summary."""
    tail = tuple(host.surface())[plan.cut :]
    return await _draft(host, facts, tail, plan.limits, plan.shadowed_tokens) or plan.draft


async def _draft(host: Host, facts: Facts, tail: tuple[Item, ...], limits: Limits, shadowed: int) -> Draft | None:
    return await checkpoint.draft(
        facts,
        {item.seq for item in tail},
        limits,
        shadowed=shadowed,
        frame_tokens=host.frame_tokens,
        count=host.count,
    )
