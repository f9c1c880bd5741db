"""Shrinking old tool results in place of a summary, on the real engine and at its own measured speeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compacting import FORGETFUL, WORDS, compact, forget, kv_is_the_transcripts, log_is_whole, summaries, transcript
from rig import call

from ds4_lsp.agent.compaction_host import common_prefix
from ds4_lsp.ports import Cancel
from ds4_lsp.session.snapshots import name_for

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONTEXT = 12000
SOFT_AT = CONTEXT * 85 // 100
LINE = "one line of the file that was read, and no other\n"


async def read_much(stage: Any, size: int = 8800) -> None:
    """A turn that reads two files of 10000 characters each, and talks enough for both speeds to be measured; and one
    that brings the transcript to about ``size`` tokens."""
    for name in ("a", "b"):
        (Path(stage.editor.current_root) / f"{name}.txt").write_text(LINE * 204)
    read_a, read_b = (call("read", path=f"{name}.txt") for name in ("a", "b"))
    stage.script(read_a, read_b, WORDS * 3, *["Yes."] * 4, summaries=[FORGETFUL] * 3)
    await stage.prompt("read both files")
    assert len([event for event in stage.events("tool/result") if len(event.data["text"]) > 8192]) == 2
    await reach(stage, size)
    forget(stage)


async def reach(stage: Any, size: int) -> Any:
    """A prompt that brings the whole request to ``size`` tokens."""
    return await stage.prompt("yes " * (size - len(await transcript(stage)) - 8))


def shrunk(stage: Any) -> list[Any]:
    replaced = [event for event in stage.events("tool/result") if event.surface_op["op"] == "replace"]
    # A compaction shortens what reaches into the tail; that is another thing.
    return [event for event in replaced if "of this result were removed" in event.data["text"]]


async def test_old_results_shrink_durably_and_only_what_follows_the_first_is_evaluated_again(
    large_stages: Any,
) -> None:
    stage = await large_stages(CONTEXT, "prune", sessions={"snapshots": True})
    await read_much(stage)
    meter = stage.agent.services.meter
    assert meter.prefill_speed > 0
    assert meter.decode_speed > 0
    before = await transcript(stage)
    originals = {event.seq: event for event in stage.events("tool/result")}
    result = await reach(stage, SOFT_AT + 20)
    assert (result.stop_reason, result.text) == ("end", "Yes.")

    assert stage.events("compact/start") == []
    assert summaries(stage) == []
    replaced = shrunk(stage)
    assert len(replaced) == 1, "as few as suffice"
    for new in replaced:
        [old] = new.sources
        assert new.data | {"text": ""} == originals[old].data | {"text": "", "original": old}
        text = originals[old].data["text"]
        assert new.data["text"].startswith(text[:4000])
        assert new.data["text"].endswith(text[-1000:])
        assert f"event={old} " in new.data["text"]

    [told] = stage.listener.of(2 + 1, "compaction.end")
    assert told["compacted"] is True
    assert told["pruned"] == [
        {
            "originalSeq": new.sources[0],
            "replacementSeq": new.seq,
            "callId": new.data["callId"],
            "charsBefore": len(originals[new.sources[0]].data["text"]),
            "charsAfter": len(new.data["text"]),
        }
        for new in replaced
    ]
    assert told["charsRemoved"] == sum(node["charsBefore"] - node["charsAfter"] for node in told["pruned"])

    # The new transcript is evaluated from the first node that changed, and from nowhere before it.
    (size, synced), *_ = stage.engine.synced
    after = (await transcript(stage))[:size]
    assert told["reason"].startswith(f"{len(before)} → {size} tokens, ")
    same = common_prefix(before, after)
    assert (synced.cached, synced.evaluated) == (same, size - same)
    assert same > len(stage.runtime.transcript.system)
    await kv_is_the_transcripts(stage)
    log_is_whole(stage)

    # The snapshot, which is written when the turn has ended, is of the transcript as it is now.
    async with stage.agent.runner._engine_free:
        pass
    await stage.agent.snapshots.settle()
    info = stage.engine.info
    held = list(stage.engine.kv)
    assert [path.name for path in stage.runtime.session.kv_dir.glob("*.kv")] == [name_for(info.fingerprint, held)]


async def test_what_was_shrunk_is_not_shrunk_again(large_stages: Any) -> None:
    stage = await large_stages(CONTEXT, "prune")
    await read_much(stage)
    for _ in range(3):
        await reach(stage, SOFT_AT + 20)
    sources = [event.sources for event in shrunk(stage)]
    assert 1 <= len(sources) <= 2
    assert len(set(sources)) == len(sources)
    assert [event.data["trigger"] for event in stage.events("compact/start")][-1:] == ["soft"], "then it is summarised"
    log_is_whole(stage)
    await kv_is_the_transcripts(stage)


async def test_who_asked_for_a_compaction_gets_a_summary_from_an_automatic_one(large_stages: Any) -> None:
    stage = await large_stages(CONTEXT, "prune")
    await read_much(stage)
    runtime = stage.runtime
    request = stage.agent.compactor.request(runtime, "mind the port", Cancel())
    runtime.cancel = Cancel()
    assert await stage.agent.compactor.relieve(runtime, "hard", SOFT_AT)
    assert (await request.done).compacted
    assert len(summaries(stage)) == 1
    assert shrunk(stage) == []


async def test_where_a_summary_is_the_quicker_way_it_is_taken(large_stages: Any) -> None:
    stage = await large_stages(CONTEXT, "prune", compaction={"tailPercent": 1, "promptsMaxTokens": 200})
    stage.script("Yes.", summaries=["Fine."])
    await stage.prompt("keep these: " + WORDS * 120)
    assert (await compact(stage)).compacted, "the last summary's length is the guess at the next one's"
    await read_much(stage, 9900)
    # So much is needed that both results would have to shrink, with all that follows them to be evaluated again.
    await reach(stage, SOFT_AT + 800)
    assert [event.data["trigger"] for event in stage.events("compact/start")] == ["manual", "soft"]
    assert len(summaries(stage)) == 1
    assert shrunk(stage) == []
