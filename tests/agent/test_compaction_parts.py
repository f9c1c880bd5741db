"""A context so full that not even the request for a summary fits: the conversation is summarised part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from compacting import (
    WORDS,
    compact,
    forget,
    host_of,
    kv_is_the_transcripts,
    log_is_whole,
    summaries,
    transcript,
    unevaluated,
)

from ds4_lsp.ports import Cancel, Segment

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONTEXT = 6144
PARTS = [f"Part {number} is known: item {number}{number}{number}." for number in range(1, 10)]


async def filled(large_stages: Any) -> Any:
    """A session whose last reply ended for want of context."""
    stage = await large_stages(CONTEXT, "parts", compaction={"auto": False}, sessions={"snapshots": True})
    stage.script("Noted.", "Noted.", "Yes.", WORDS * 100, "After.", summaries=PARTS)
    await stage.prompt("remember the port 8123")
    await stage.prompt("keep these: " + WORDS * 60)
    await stage.prompt("and " * 900)
    result = await stage.prompt("yes " * (CONTEXT - 800 - len(await transcript(stage))))
    assert result.stop_reason == "length"
    assert CONTEXT - len(await transcript(stage)) < 8
    forget(stage)
    return stage


def holds(tokens: Sequence[int], wanted: Sequence[int]) -> bool:
    size = len(wanted)
    return any(list(tokens[at : at + size]) == list(wanted) for at in range(len(tokens) - size + 1))


async def test_every_part_fits_and_carries_what_was_known_of_those_before_it(large_stages: Any) -> None:
    stage = await filled(large_stages)
    result = await compact(stage)
    assert result.compacted
    asked = summaries(stage)
    assert len(asked) > 1
    for number, part in enumerate(asked):
        assert part.generated is not None
        assert len(part.tokens) + part.max_tokens <= CONTEXT
        known = [await stage.engine.tokenize([Segment(text)]) for text in PARTS[: len(asked)]]
        assert [holds(part.tokens, one) for one in known] == [at == number - 1 for at in range(len(asked))]
    [summary] = stage.events("compact/summary")
    assert (summary.data["chunks"], summary.data["summary"]) == (len(asked), PARTS[len(asked) - 1])
    assert summary.data["usage"]["completionTokens"] == sum(len(part.generated.tokens) for part in asked)
    log_is_whole(stage)
    await kv_is_the_transcripts(stage, whole=True)
    assert len(stage.engine.kv) == result.after_tokens
    assert (await stage.prompt("and now?")).text == "After."
    await kv_is_the_transcripts(stage)


async def test_a_cancel_inside_or_between_parts_changes_nothing_and_costs_no_evaluation(large_stages: Any) -> None:
    stage = await filled(large_stages)
    surface = stage.runtime.session.surface.events
    host = host_of(stage)
    real = host.summarise

    async def inside() -> Any:
        cancel = Cancel()
        stage.engine.at = ("decode", 2, cancel.set)
        return await compact(stage, cancel=cancel)

    async def between() -> Any:
        cancel = Cancel()

        async def and_then_cancel(*arguments: Any) -> Any:
            answer = await real(*arguments)
            cancel.set()
            return answer

        host.summarise = and_then_cancel
        try:
            return await compact(stage, cancel=cancel)
        finally:
            host.summarise = real

    async def in_the_second_ones_prefill() -> Any:
        # The first part is in the KV already: only what follows it is evaluated.
        cancel = Cancel()
        stage.engine.at = ("prefill", 500, cancel.set)
        return await compact(stage, cancel=cancel)

    for cancelled, asked in ((inside, 1), (between, 1), (in_the_second_ones_prefill, 2)):
        forget(stage)
        result = await cancelled()
        assert (result.compacted, result.reason) == (False, "cancelled")
        assert len(summaries(stage)) == asked, "no further part is asked for"
        assert stage.events("compact/end")[-1].data["error"] == "cancelled"
        assert stage.runtime.session.surface.events == surface
        log_is_whole(stage)
        await kv_is_the_transcripts(stage)
        # What the parts had displaced is read back before the next turn or compaction.
        forget(stage)
        await stage.agent.snapshots.prepare(stage.runtime, Cancel())
        lacking = len(await transcript(stage)) - len(stage.engine.kv)
        assert lacking == await unevaluated(stage, ended=False)
        assert [synced for _total, synced in stage.engine.synced if synced.evaluated] == []
        await kv_is_the_transcripts(stage)
    stage.script("After.", summaries=PARTS)
    assert (await compact(stage)).compacted
    assert (await stage.prompt("and now?")).text == "After."
