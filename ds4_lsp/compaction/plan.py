"""Everything that is settled before the first event of a compaction is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from itertools import islice

from ds4_lsp.compaction import boundary, checkpoint
from ds4_lsp.compaction.boundary import Cut
from ds4_lsp.compaction.checkpoint import Draft, Ending
from ds4_lsp.compaction.host import Host
from ds4_lsp.compaction.ledger import Facts
from ds4_lsp.compaction.model import Item, Nothing, Shortened, Trigger
from ds4_lsp.compaction.triggers import Limits

_EVENTS_AT_ONCE = 2000
"""Events folded before the loop may serve something else, a cancel for example."""


@dataclass(frozen=True)
class Plan:
    """What goes, what stays, and what is already known of the checkpoint.

    ``revision`` is that of the surface that ``items`` were; ``items[:cut]`` are shadowed. ``shortened``: items of the
    tail of which only a part stays. ``read``: how many of the items the model has read, and may be asked about.
    """

    trigger: Trigger
    items: tuple[Item, ...]
    cut: int
    revision: int
    limits: Limits
    prefix: int
    frame_tokens: int
    draft: Draft
    shortened: tuple[Shortened, ...]
    ending: Ending | None
    read: int

    @property
    def bottom(self) -> int:
        """Transcript length in tokens."""
        return self.prefix + sum(item.tokens for item in self.items)

    @property
    def shadowed(self) -> tuple[Item, ...]:
        return self.items[: self.cut]

    @property
    def covered(self) -> int:
        """How many of the items lose something, from the first on: what a summary must be of at least."""
        lost = {one.seq for one in self.shortened}
        return max([self.cut, *(index + 1 for index, item in enumerate(self.items) if item.seq in lost)])

    @property
    def asked_on(self) -> int:
        """Tokens of the transcript that the summary is asked on."""
        return self.prefix + sum(item.tokens for item in self.items[: self.read])

    @property
    def shadowed_tokens(self) -> int:
        return sum(item.tokens for item in self.shadowed)

    @property
    def removed_tokens(self) -> int:
        """What goes from the transcript: what is shadowed, and what the shortened messages lose."""
        return self.shadowed_tokens + _spared(self.items, self.shortened)


async def gather(host: Host) -> Facts:
    """Fold the session's log."""
    facts = Facts()
    events = iter(host.events())
    while batch := list(islice(events, _EVENTS_AT_ONCE)):
        for event in batch:
            facts.apply(event)
        await asyncio.sleep(0)
    return facts


def choose_cut(items: tuple[Item, ...], trigger: Trigger, limits: Limits, tail_tokens: int | None) -> Cut | None:
    """The boundary that a trigger asks for. Raises ``CorruptSession``."""
    if trigger == "overflow":
        return boundary.choose_maximal(items)
    return boundary.choose(items, limits.tail if tail_tokens is None else tail_tokens, limits.prompts)


async def make(
    host: Host, trigger: Trigger, facts: Facts, limits: Limits, *, revision: int, tail_tokens: int | None
) -> Plan | Nothing:
    """Decide what is replaced by what; writes nothing. ``revision``: the surface's before ``facts`` were taken."""
    items = tuple(host.surface())
    cut = choose_cut(items, trigger, limits, tail_tokens)
    if cut is None:
        return Nothing("nothing to compact: all of the conversation is within the part that is kept word for word")
    shortened = [await host.shorten(items[trim.index], trim.tail) for trim in cut.trims]
    parts = tuple(one for one in shortened if one is not None)
    removed = sum(item.tokens for item in items[: cut.at]) + _spared(items, parts)
    if trigger in ("soft", "hard", "generation") and removed - _checkpoint(items) < limits.least_gain:
        return Nothing(
            f"not worth it yet: only {removed - _checkpoint(items)} tokens are older than the part that is kept, and "
            f"an automatic compaction replaces at least {limits.least_gain}"
        )
    last = items[cut.at - 1]
    ending = Ending(last.seq, last.text, cut.ending) if cut.ending else None
    draft = await _draft(host, facts, items[cut.at :], limits, removed=removed, ending=ending)
    if draft is None and ending is not None:
        # The words of a prompt that is not much larger than its share of the checkpoint are in there already.
        ending = None
        draft = await _draft(host, facts, items[cut.at :], limits, removed=removed, ending=None)
    if draft is None and trigger == "overflow":
        # The turn would end here: the user's words give way, and can be had with `recall`.
        limits = replace(limits, prompts=limits.part)
        draft = await _draft(host, facts, items[cut.at :], limits, removed=removed, ending=None)
    if draft is None:
        return Nothing(
            f"nothing to gain: a checkpoint (at most {limits.checkpoint} tokens) would not be smaller than the "
            f"{removed} tokens that it could replace"
        )
    return Plan(
        trigger,
        items,
        cut.at,
        revision,
        limits,
        host.prefix_tokens,
        host.frame_tokens,
        draft,
        parts,
        ending,
        boundary.first_unread(items, results_only=True),
    )


def _checkpoint(items: tuple[Item, ...]) -> int:
    """Tokens of the earlier checkpoint, which is merged into the next one."""
    return sum(item.tokens for item in items[:1] if item.kind == "checkpoint")


def _spared(items: tuple[Item, ...], shortened: tuple[Shortened, ...]) -> int:
    sizes = {item.seq: item.tokens for item in items}
    return sum(sizes[one.seq] - one.tokens for one in shortened)


async def draft_again(host: Host, plan: Plan, facts: Facts) -> Draft:
    """The plan's draft by newer ``facts``. What was planned stands where they leave no room for a summary."""
    tail = tuple(host.surface())[plan.cut :]
    made = await _draft(host, facts, tail, plan.limits, removed=plan.removed_tokens, ending=plan.ending)
    return made or plan.draft


async def _draft(
    host: Host, facts: Facts, tail: tuple[Item, ...], limits: Limits, *, removed: int, ending: Ending | None
) -> Draft | None:
    return await checkpoint.draft(
        facts,
        {item.seq for item in tail},
        limits,
        shadowed=removed,
        frame_tokens=host.frame_tokens,
        count=host.count,
        ending=ending,
    )
