"""Who asks for a compaction while something else happens, and what happens while it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from compacting import (
    FORGETFUL,
    WORDS,
    checkpoint,
    compact,
    forget,
    host_of,
    kv_is_the_transcripts,
    log_is_whole,
    summaries,
    until,
)
from rig import call

from ds4_lsp.agent.compactor import LATE
from ds4_lsp.ports import Cancel, Segment

pytestmark = pytest.mark.asyncio(loop_scope="session")

SLOW = 0.01


async def asks_for(stage: Any, number: str) -> bool:
    """Whether the last request for a summary mentions ``number``, whose digits are tokens of their own."""
    digits = await stage.engine.tokenize([Segment(number)])
    request = list(summaries(stage)[-1].tokens[-600:])
    size = len(digits)
    return any(request[at : at + size] == digits for at in range(len(request) - size + 1))


async def begun(stage: Any) -> Any:
    """A session with something to compact."""
    stage.set(compaction={"auto": True})
    stage.script("Noted.", summaries=[])
    await stage.prompt("keep these: " + WORDS * 60)
    forget(stage)
    return stage


async def test_what_several_requests_ask_to_keep_in_mind_adds_up_while_they_wait(large_stages: Any) -> None:
    stage = await begun(await large_stages(6144))
    stage.script("One two three four five six seven eight.", delay=SLOW, summaries=[FORGETFUL])
    turn = asyncio.ensure_future(stage.prompt("count"))
    await until(lambda: stage.agent.services.meter.state == "generating")
    first = asyncio.ensure_future(compact(stage, "the port is 8123"))
    second = asyncio.ensure_future(compact(stage))
    third = asyncio.ensure_future(compact(stage, "the year is 1947"))
    results = await asyncio.gather(first, second, third)
    assert results[0].compacted
    assert results[0] == results[1] == results[2]
    assert (await turn).stop_reason == "end"
    assert len(summaries(stage)) == 1
    assert await asks_for(stage, "8123")
    assert await asks_for(stage, "1947")
    assert stage.listener.messages == []
    assert len(stage.events("compact/start")) == 1
    log_is_whole(stage)
    await kv_is_the_transcripts(stage)


@pytest.mark.parametrize("trigger", ["manual", "soft"])
async def test_a_request_that_joins_a_running_compaction_is_told_that_its_wishes_come_too_late(
    large_stages: Any, trigger: str
) -> None:
    stage = await begun(await large_stages(6144))
    stage.listener.messages.clear()
    stage.script("Fine.", delay=SLOW, summaries=[FORGETFUL])
    if trigger == "manual":
        running: Any = asyncio.ensure_future(compact(stage, "the port is 8123"))
    else:
        running = asyncio.ensure_future(stage.prompt("yes " * 3300))
    await until(lambda: any(kind == "compaction.delta" for _turn, kind, _data in stage.listener.heard))
    late = await compact(stage, "the year is 1947")
    await running
    assert (late.compacted, late.trigger) == (True, trigger)
    assert len(summaries(stage)) == 1
    assert await asks_for(stage, "8123") is (trigger == "manual")
    assert not await asks_for(stage, "1947")
    assert stage.listener.messages == [f"DS4: {LATE}"]
    assert [data["text"] for _turn, kind, data in stage.listener.heard if kind == "notice"] == [LATE]
    stage.listener.messages.clear()


async def test_a_job_that_ends_while_the_summary_is_written_is_not_recorded_as_running(large_stages: Any) -> None:
    stage = await large_stages(6144)
    (Path(stage.editor.current_root) / "go").unlink(missing_ok=True)
    waiting = "until [ -e go ]; do sleep 0.05; done; exit 3"
    stage.script(call("bash", command=waiting, refresh_sec=0), "It runs.", summaries=[FORGETFUL] * 2)
    await stage.prompt("start it. " + WORDS * 140)
    assert stage.events("job/ended") == []
    host = host_of(stage)
    real = host.summarise

    async def and_the_job_ends(*arguments: Any) -> Any:
        answer = await real(*arguments)
        (Path(stage.editor.current_root) / "go").touch()
        await until(lambda: stage.events("job/ended") != [])
        return answer

    host.summarise = and_the_job_ends
    assert (await compact(stage)).compacted
    ledger = checkpoint(stage)["parts"]["ledger"]
    assert "exit status 3" in ledger
    assert "running" not in ledger
    assert stage.runtime.notices == []
    log_is_whole(stage)


async def test_a_job_that_still_runs_is_reported_to_the_model_after_the_rebuild(large_stages: Any) -> None:
    stage = await large_stages(6144)
    (Path(stage.editor.current_root) / "go").unlink(missing_ok=True)
    waiting = "until [ -e go ]; do sleep 0.05; done"
    stage.script(call("bash", command=waiting, refresh_sec=0), "It runs.", "Good.", summaries=[FORGETFUL])
    await stage.prompt("start it. " + WORDS * 60)
    assert (await compact(stage)).compacted
    await stage.prompt("and now?")
    notices = [event.data["text"] for event in stage.events("user/message") if event.data["kind"] == "notice"]
    assert [text.startswith("Still running: job 1 is running: until") for text in notices] == [True]
    (Path(stage.editor.current_root) / "go").touch()
    await until(lambda: stage.events("job/ended") != [])


async def test_a_bad_snapshot_of_the_session_does_not_hide_the_one_of_the_system_prompt(large_stages: Any) -> None:
    stage = await large_stages(6144, "snapshots", sessions={"snapshots": True})
    stage.script("Noted.", summaries=[FORGETFUL])
    await stage.prompt("keep these: " + WORDS * 60)
    assert await stage.agent.snapshots.save(stage.runtime)
    [snapshot] = stage.runtime.session.kv_dir.glob("*.kv")
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 1
    snapshot.write_bytes(data)
    await stage.engine.sync([1], on_progress=lambda _done, _total: None, cancel=Cancel())
    forget(stage)
    await stage.agent.snapshots.prepare(stage.runtime, Cancel())
    found = await stage.agent.services.transcript(stage.runtime)
    assert list(stage.engine.kv) == found.system[: found.shared]
    assert stage.engine.synced == [], "nothing was evaluated"
    assert not snapshot.exists()
