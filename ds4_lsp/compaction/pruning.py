"""Carrying a prune out: durable one-node replacements that change only content and cite the original."""

from __future__ import annotations

from typing import Any

from ds4_lsp.compaction import prune
from ds4_lsp.compaction.host import Host
from ds4_lsp.compaction.ledger import Facts
from ds4_lsp.compaction.model import Item, PrunedNode, PruneResult
from ds4_lsp.compaction.prune import Shrunk
from ds4_lsp.compaction.summarise import request_tokens
from ds4_lsp.compaction.triggers import Limits


async def plan(
    host: Host, items: tuple[Item, ...], cut: int, *, facts: Facts, limits: Limits, needed: int
) -> tuple[Shrunk, ...]:
    """Which results to shrink so that no summary is needed; empty when a summary is the better way."""
    found = prune.candidates(items, cut)
    if not found or not host.speeds.prefill or not host.speeds.decode:
        return ()
    shrunk = []
    for index in found:
        item = items[index]
        text = prune.shrink(item.text, item.whole)
        saved = await host.count(item.text) - await host.count(text)
        shrunk.append(Shrunk(index, text, item.tokens - saved))
    # The last summary's length is the best guess at the next one's.
    expected = min(facts.summary_tokens or limits.summary, limits.summary)
    rebuilt = limits.largest_checkpoint - limits.summary + expected + sum(item.tokens for item in items[cut:])
    cost = prune.summary_seconds(await request_tokens(host), expected, max(0, rebuilt), host.speeds)
    return prune.choose(items, shrunk, needed=needed, limits=limits, speeds=host.speeds, summary_cost=cost)


def carry_out(host: Host, items: tuple[Item, ...], chosen: tuple[Shrunk, ...]) -> PruneResult:
    """Append the replacements and flush them. Each stands by itself: a failure keeps those before it."""
    wanted = {items[one.index].seq for one in chosen}
    data: dict[int, dict[str, Any]] = {event.seq: dict(event.data) for event in host.events() if event.seq in wanted}
    nodes = []
    for one in chosen:
        item = items[one.index]
        replacement = host.append(
            "tool/result",
            data[item.seq] | {"text": one.text, "original": item.whole},
            surface_op={"op": "replace", "start": item.position, "end": item.position},
            sources=(item.seq,),
        )
        nodes.append(PrunedNode(item.seq, replacement.seq, item.result_for or "", len(item.text), len(one.text)))
    host.sync()
    return PruneResult(tuple(nodes), sum(node.chars_before - node.chars_after for node in nodes))
