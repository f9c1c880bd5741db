"""The engine process dies at the worst moments: the user is told why, the session is whole, the next prompt works."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsp_client import Client, ResponseError
from rig import LONG, Rig, prompt

from ds4_lsp.session.verify import verify

LENGTHY = "word " * 600
COUNTING = "one two three four five six seven eight nine ten " * 4
SETTINGS = {"model": {"batchSize": 64}, "compaction": {"auto": False}}
SIGNALS = [signal.SIGKILL, signal.SIGABRT]


def slow(purpose: str) -> dict[str, Any]:
    return {"purpose": purpose, "text": COUNTING, "delay_ms": 40}


def engine(client: Client) -> psutil.Process:
    children = psutil.Process(client.process.pid).children(recursive=True)
    [found] = [child for child in children if "ds4_lsp.engine" in child.cmdline()]
    return found


def tells(message: str, number: signal.Signals) -> None:
    """What happened, what the engine logged last, and what to do."""
    first, *lines = message.splitlines()
    assert f"the engine process was ended by {number.name}" in first
    assert first.endswith("its last lines:")
    assert len(lines) >= 2
    if number is signal.SIGABRT:
        assert "Aborted" in message
    assert lines[-1] == "The next prompt starts a new engine."


def is_whole(rig: Rig) -> None:
    for log in rig.state.rglob("events.jsonl"):
        report = verify(log.parent)
        assert (report.problems, report.repairs) == ([], [])


async def history(client: Client) -> list[tuple[str, str]]:
    shown = (await client.run("ds4.showHistory", {"turns": 99}))["history"]
    return [(entry["role"], entry["text"].strip()) for entry in shown]


async def test_a_death_at_work_ends_what_runs_with_the_reason_and_nothing_else(rig: Rig) -> None:
    turns = [{"purpose": "turn", "text": "never"}, slow("turn"), *[{"purpose": "turn", "text": "Here."}] * 3]
    script = rig.script(*[*turns, slow("summary"), {"purpose": "summary", "text": "## Summary\nWords."}] * len(SIGNALS))
    client = await rig.start(script=script, settings=SETTINGS)
    for number in SIGNALS:
        session = (await client.run("ds4.newSession"))["sessionId"]

        def events(*kinds: str, session: str = session) -> list[dict[str, Any]]:
            return [event for kind in kinds for event in client.events(kind) if event["sessionId"] == session]

        # In prefill.
        _, answer = client.send_command("ds4.prompt", {"text": LENGTHY}, token=f"{number} words")
        await client.wait(lambda: [e for e in events("state") if e["turn"] == 1 and e["state"] == "prefill"], LONG)
        engine(client).send_signal(number)
        result = await asyncio.wait_for(answer, LONG)
        assert (result["stopReason"], result["text"], result["toolCalls"]) == ("error", "", [])
        tells(result["error"], number)
        assert events("turn.end")[-1]["error"] == result["error"]
        assert await history(client) == [("user", LENGTHY.strip()), ("notice", result["error"])]
        status = await client.run("ds4.status")
        assert (status["state"], status["model"], status["queue"]) == ("idle", None, [])
        is_whole(rig)

        # In decoding, of the next prompt.
        _, answer = client.send_command("ds4.prompt", {"text": "count"})
        await client.wait(lambda: [event for event in events("text") if event["turn"] == 2], LONG)
        engine(client).send_signal(number)
        result = await asyncio.wait_for(answer, LONG)
        assert result["stopReason"] == "error"
        tells(result["error"], number)
        seen = "".join(event["delta"] for event in events("text")).strip()
        assert COUNTING.startswith(seen) and seen
        assert result["text"] == seen
        assert (await history(client))[-3:] == [("user", "count"), ("assistant", seen), ("notice", result["error"])]
        is_whole(rig)
        assert (await prompt(client, "and now?"))["text"] == "Here."

        # In a compaction's summary.
        before = await history(client)
        _, answer = client.send_command("ds4.compact")
        await client.wait(lambda: events("compaction.delta"), LONG)
        engine(client).send_signal(number)
        with pytest.raises(ResponseError) as refused:
            await asyncio.wait_for(answer, LONG)
        assert refused.value.data["code"] == "engineDied"
        tells(refused.value.message, number)
        [end] = events("compaction.end")
        assert end["compacted"] is False
        assert await history(client) == before
        is_whole(rig)
        assert (await prompt(client, "and now?"))["text"] == "Here."

        # While the KV is rebuilt: the compaction stands.
        _, answer = client.send_command("ds4.compact", token=f"{number} compact")
        await client.wait(lambda: client.progress(f"{number} compact")[-1].get("message") == "rebuilding", LONG)
        engine(client).send_signal(number)
        assert (await asyncio.wait_for(answer, LONG))["compacted"] is True
        is_whole(rig)
        assert (await prompt(client, "and now?"))["text"] == "Here."
        assert [entry for entry in await history(client) if entry[0] != "compaction"] == [
            *before,
            *[("user", "and now?"), ("assistant", "Here.")] * 2,
        ]
    assert client.stray == b""


@pytest.mark.parametrize("fault", ["kill", "abort"])
async def test_a_death_while_loading_is_told_and_the_next_prompt_loads_again(rig: Rig, fault: str) -> None:
    once = Path(rig.root / "fired")
    client = await rig.start(
        script=rig.script("Here."), env={"DS4_LSP_FAULT": f"load:{fault}", "DS4_LSP_FAULT_ONCE": str(once)}
    )
    number = signal.SIGKILL if fault == "kill" else signal.SIGABRT
    # The load that the server begins by itself.
    told = await client.wait_for("window/showMessage", lambda params: "engine process" in params["message"])
    assert told["type"] == 1
    assert number.name in told["message"]
    status = await client.run("ds4.status")
    assert (status["state"], status["model"]) == ("error", None)
    assert number.name in status["error"]
    assert (await client.wait_for("experimental/serverStatus", lambda s: s["health"] == "error"))["quiescent"]
    # One that a prompt waits for.
    once.unlink()
    with pytest.raises(ResponseError) as refused:
        await prompt(client, "hello?")
    assert refused.value.data["code"] == "engineDied"
    assert number.name in refused.value.message
    assert (await client.run("ds4.status"))["queue"] == []
    is_whole(rig)
    result = await prompt(client, "hello again")
    assert (result["stopReason"], result["text"]) == ("end", "Here.")
    assert await history(client) == [("user", "hello again"), ("assistant", "Here.")]
    is_whole(rig)
    bars = [one["token"] for one in client.notifications("window/workDoneProgress/create")]
    assert all(client.progress(bar)[-1]["kind"] == "end" for bar in bars)
