"""An engine whose KV is smaller than its numbers say: one maximal compaction, one retry, then a clear error."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from compacting import FORGETFUL, WORDS, checkpoint, kv_is_the_transcripts, log_is_whole, summaries, transcript

pytestmark = pytest.mark.asyncio(loop_scope="session")

REAL, CLAIMED = 4096, 8192
LOST = "The reply of a round that fails, which the script counts as given."


@pytest_asyncio.fixture(loop_scope="session")
async def boaster(large_stages: Any) -> Any:
    """A stage whose engine claims twice the context that it has."""
    stage = await large_stages(REAL, "boaster")
    stage.engine.claimed = CLAIMED
    return stage


async def fill(stage: Any, size: int) -> None:
    """Two turns that bring the transcript to about ``size`` tokens."""
    await stage.prompt("remember the port 8123")
    await stage.prompt("yes " * (size - len(await transcript(stage)) - 20))
    assert size - 20 <= len(await transcript(stage)) <= size


def overflowed(stage: Any) -> dict[str, Any]:
    """The ``compact/end`` of the one compaction there was, which the engine's want of room triggered."""
    [start], [end] = stage.events("compact/start"), stage.events("compact/end")
    assert start.data["trigger"] == "overflow"
    return dict(end.data)


async def test_a_prompt_that_the_engine_has_no_room_for_is_answered_after_one_compaction(boaster: Any) -> None:
    boaster.script("Noted.", "Yes.", LOST, "After all.", summaries=[FORGETFUL] * 9)
    await fill(boaster, 3400)
    result = await boaster.prompt("the newest request " + "no " * 900)
    assert (result.stop_reason, result.text) == ("end", "After all.")
    assert overflowed(boaster).get("error") is None
    log_is_whole(boaster)
    await kv_is_the_transcripts(boaster)
    nodes = boaster.runtime.session.surface.events
    assert [node.type for node in nodes] == ["user/message", "user/message", "assistant/message"]
    assert nodes[1].data["text"].startswith("the newest request")
    assert "remember the port 8123" in checkpoint(boaster)["parts"]["task"]


async def test_the_parts_asked_for_then_fit_the_room_that_there_really_is(boaster: Any) -> None:
    boaster.script("Noted.", "Yes.", LOST, "After all.", summaries=[FORGETFUL] * 9)
    await fill(boaster, 3400)
    await boaster.prompt("no " * 900)
    refused, *parts = summaries(boaster)
    assert refused.generated is None
    assert len(refused.tokens) > REAL
    assert parts
    for part in parts:
        assert part.generated is not None
        assert len(part.tokens) + part.max_tokens <= REAL


async def test_a_reply_that_meets_the_end_of_the_engines_room_goes_on_after_one_compaction(boaster: Any) -> None:
    long = "I wonder about it, and about this, and about that. " * 60
    boaster.script("Noted.", "Yes.", long, "The end.", summaries=[FORGETFUL] * 9)
    await fill(boaster, 3800)
    result = await boaster.prompt("and now?")
    assert result.stop_reason == "end"
    cut, end = result.text.split("\n\n")
    assert (long.startswith(cut), end) == (True, "The end.")
    assert overflowed(boaster).get("error") is None
    log_is_whole(boaster)
    await kv_is_the_transcripts(boaster)
    # The tail is the newest unit alone; the model is told why its reply ends there.
    nodes = boaster.runtime.session.surface.events
    assert [node.type for node in nodes] == ["user/message", "assistant/message", "user/message", "assistant/message"]
    assert nodes[1].data["stop"] == "length"
    assert "was cut" in nodes[2].data["text"]
    assert "and now?" in checkpoint(boaster)["parts"]["task"]


async def test_where_one_compaction_is_not_enough_the_turn_ends_in_a_clear_error(boaster: Any) -> None:
    boaster.script("Noted.", "Yes.", LOST, "After.", summaries=[FORGETFUL] * 9)
    await fill(boaster, 2800)
    result = await boaster.prompt("no " * 2700)
    assert result.stop_reason == "error"
    assert f"do not fit the context of {REAL}" in result.error
    assert "ds4.model.contextSize" in result.error
    assert overflowed(boaster).get("error") is None, "one, and no other"
    log_is_whole(boaster)
    # Not wedged: the checkpoint stands, and the next turn makes room for what is new.
    boaster.script(LOST, "After.", summaries=[FORGETFUL] * 9)
    assert (await boaster.prompt("and now?")).text == "After."
    assert len(boaster.events("compact/start")) == 2
    log_is_whole(boaster)
    await kv_is_the_transcripts(boaster)


async def test_with_nothing_to_compact_the_error_is_clear_and_the_session_is_not_wedged(boaster: Any) -> None:
    boaster.script(LOST, LOST, "After.", summaries=[FORGETFUL] * 9)
    result = await boaster.prompt("no " * 3000)
    assert result.stop_reason == "error"
    assert f"do not fit the context of {REAL}" in result.error
    assert "ds4.model.contextSize" in result.error
    assert boaster.events("compact/start") == []
    again = await boaster.prompt("a short one")
    assert (again.stop_reason, again.text) == ("end", "After.")
    assert overflowed(boaster).get("error") is None
    log_is_whole(boaster)
    await kv_is_the_transcripts(boaster)


async def test_without_automatic_compaction_the_turn_ends_as_the_setting_says(boaster: Any) -> None:
    boaster.set(compaction={"auto": False})
    boaster.script("Noted.", "Yes.", WORDS * 60, LOST, "After.", summaries=[FORGETFUL] * 9)
    await fill(boaster, 3800)
    result = await boaster.prompt("and now?")
    assert result.stop_reason == "length"
    refused = await boaster.prompt("and then?")
    assert refused.stop_reason == "error"
    assert "/compact" in refused.error
    assert boaster.events("compact/start") == []
    result = await boaster.prompt("/compact")
    assert result.text.startswith("Compacted: ")
    assert (await boaster.prompt("so?")).text == "After."
    log_is_whole(boaster)
