"""What the other commands say and do while a session is compacted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from compacting import FORGETFUL, WORDS, compact, forget, log_is_whole, until
from rig import words

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol import commands as c
from ds4_lsp.protocol.errors import Busy

pytestmark = pytest.mark.asyncio(loop_scope="session")

SLOW = 0.01


async def begun(stage: Any, *replies: str) -> Any:
    """A session with something to compact, whose summary takes its time."""
    stage.script("Noted.", summaries=[])
    await stage.prompt("keep these: " + WORDS * 60)
    forget(stage)
    stage.script(*replies, delay=SLOW, summaries=[FORGETFUL] * 2)
    return stage


async def run(stage: Any, command: str, arguments: Any, cancel: Cancel | None = None) -> Any:
    return await stage.agent.command(command, arguments, cancel or Cancel())


async def summarising(stage: Any) -> Any:
    """A compaction that is amid its summary."""
    stage.listener.heard.clear()
    running = asyncio.ensure_future(compact(stage))
    await until(lambda: any(kind == "compaction.delta" for _turn, kind, _data in stage.listener.heard))
    return running


def states(stage: Any) -> list[str]:
    return [data["state"] for _turn, kind, data in stage.listener.heard if kind == "state"]


async def test_a_changed_setting_and_a_fork_leave_the_state_of_a_running_compaction(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144))
    running = await summarising(stage)
    stage.set(sampling={"topP": 0.9})
    assert (await run(stage, "ds4.status", c.NoArguments())).state == "compacting"
    await run(stage, "ds4.forkSession", c.ForkSessionArguments(session_id=stage.runtime.id))
    assert (await run(stage, "ds4.status", c.NoArguments())).state == "compacting"
    assert (await running).compacted
    assert "idle" not in states(stage)[:-1]
    assert (await run(stage, "ds4.status", c.NoArguments())).state == "idle"


async def test_a_prompt_that_waits_for_a_compaction_is_queued(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144), "Fine.")
    running = await summarising(stage)
    sent = await run(stage, "ds4.prompt", c.PromptArguments(text="and now?", wait=False))
    assert sent.queued
    assert [data["text"] for _turn, kind, data in stage.listener.heard if kind == "queued"] == ["and now?"]
    assert (await running).compacted
    await until(lambda: stage.listener.of(sent.turn, "turn.end") != [])
    assert "".join(stage.listener.texts(sent.turn)) == "Fine."


async def test_a_session_whose_compaction_waits_is_not_deleted(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144), "One two three four five six seven eight nine ten.")
    waiting = stage.runtime
    stage.agent.sessions.create(None)
    turn = asyncio.ensure_future(stage.prompt("count"))
    await until(lambda: stage.agent.services.meter.state == "generating")
    asked = asyncio.ensure_future(run(stage, "ds4.compact", c.CompactArguments(session_id=waiting.id)))
    await until(lambda: stage.agent.runner.is_used(waiting))
    with pytest.raises(Busy, match="a compaction"):
        await run(stage, "ds4.deleteSession", c.DeleteSessionArguments(session_id=waiting.id))
    assert (await turn).stop_reason == "end"
    assert (await asked).compacted
    await run(stage, "ds4.deleteSession", c.DeleteSessionArguments(session_id=waiting.id))


async def test_who_joins_a_compaction_and_gives_up_does_not_end_it_for_the_other(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144))
    running = await summarising(stage)
    gives_up = Cancel()
    joined = asyncio.ensure_future(run(stage, "ds4.compact", c.CompactArguments(session_id=stage.runtime.id), gives_up))
    await asyncio.sleep(0)
    gives_up.set()
    assert (await joined).reason == "cancelled"
    assert (await running).compacted


async def test_the_last_who_waits_for_a_compaction_ends_it(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144))
    cancels = [Cancel(), Cancel()]
    stage.listener.heard.clear()
    asked = [
        asyncio.ensure_future(run(stage, "ds4.compact", c.CompactArguments(session_id=stage.runtime.id), cancel))
        for cancel in cancels
    ]
    await until(lambda: any(kind == "compaction.delta" for _turn, kind, _data in stage.listener.heard))
    for cancel in cancels:
        cancel.set()
    assert [(await one).reason for one in asked] == ["cancelled", "cancelled"]
    assert stage.events("compact/end")[-1].data["error"] == "cancelled"
    log_is_whole(stage)


async def test_the_context_that_is_told_is_the_current_sessions(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144), "Fine.")
    first = stage.runtime
    size = (await run(stage, "ds4.status", c.NoArguments())).context.used
    running = await summarising(stage)
    second = stage.agent.sessions.create(None)
    assert (await run(stage, "ds4.status", c.NoArguments())).context.used == 0
    assert (await running).compacted
    assert (await run(stage, "ds4.status", c.NoArguments())).context.used == 0
    await stage.prompt("hello")
    assert 0 < (await run(stage, "ds4.status", c.NoArguments())).context.used < size
    small = first.session.state.tokens
    await run(stage, "ds4.switchSession", c.SwitchSessionArguments(session_id=first.id))
    assert (await run(stage, "ds4.status", c.NoArguments())).context.used == small != second.session.state.tokens


async def test_a_compaction_that_the_end_of_the_server_stops_is_recorded_as_cancelled(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144, "ending"))
    running = await summarising(stage)
    runtime = stage.runtime
    log = runtime.session.directory / "events.jsonl"
    await stage.agent.shutdown()
    assert not (await asyncio.gather(running, return_exceptions=True))[0].compacted
    ends = [line for line in log.read_text().splitlines() if '"compact/end"' in line]
    assert len(ends) == 1
    assert '"error":"cancelled"' in ends[0].replace(" ", "")


async def test_why_a_full_context_ends_a_turn_is_among_its_events(large_stages: Any) -> None:
    stage = await large_stages(2700, "full", compaction={"auto": False})
    stage.script(words(1500))
    result = await stage.prompt("go " * 20)
    assert result.stop_reason == "length"
    notices = [data["text"] for _turn, kind, data in stage.listener.heard if kind == "notice"]
    assert len(notices) == 1
    assert "the context is full" in notices[0]
    assert notices[0] in result.text


async def test_a_context_too_small_for_compaction_is_told_of_once_also_amid_a_reply(large_stages: Any) -> None:
    stage = await large_stages(3000, "floor")
    stage.limit(1500)
    stage.script(words(500), words(120), "The end.", summaries=[FORGETFUL] * 6)
    await stage.prompt("go " * 20)
    assert len(stage.events("compact/start")) > 0
    told = [text for text in stage.listener.messages if "compaction cannot help" in text.lower()]
    assert len(told) == 1
    stage.listener.messages.clear()
