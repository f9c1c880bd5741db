"""The engine process dies at the worst moments: the user is told why, the session is whole, the next prompt works."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from lsp_client import Client, ResponseError
from rig import LONG, Rig, prompt

from ds4_lsp.session.verify import verify

LENGTHY = "word " * 500
COUNTING = "one two three four five six seven eight nine ten " * 4
SETTINGS = {"model": {"batchSize": 64}, "compaction": {"auto": False}}


def slow(purpose: str) -> dict[str, Any]:
    return {"purpose": purpose, "text": COUNTING, "delay_ms": 40}


def engine(client: Client) -> psutil.Process:
    children = psutil.Process(client.process.pid).children(recursive=True)
    [found] = [child for child in children if "ds4_lsp.engine" in child.cmdline()]
    return found


def said(client: Client, token: str, beginning: str) -> bool:
    """Whether the progress of that token had such a message."""
    return any(value.get("message", "").startswith(beginning) for value in client.progress(token))


def tells(message: str, number: signal.Signals) -> None:
    """What happened, what to do, and where the engine's log is."""
    first, *remedy, last = message.splitlines()
    # The system counts every process that it ends for want of memory, those of other tests too.
    assert number.name in first
    assert len(remedy) <= (number is signal.SIGKILL)
    assert last.startswith("The next prompt starts a new engine. Its log: ")


def is_whole(rig: Rig) -> None:
    for log in rig.state.rglob("events.jsonl"):
        report = verify(log.parent)
        assert report.problems == []
        # The cache for lists is written when a turn has ended.
        assert [repair for repair in report.repairs if "meta.json" not in repair] == []


async def history(client: Client) -> list[tuple[str, str]]:
    shown = (await client.run("ds4.showHistory", {"turns": 99}))["history"]
    return [(entry["role"], entry["text"].strip()) for entry in shown]


HERE = "Here. " + " ".join(map(str, range(120)))
"""Long enough for a checkpoint to be smaller than what it stands for."""


@dataclass
class Doomed:
    """A session whose engine gets a signal in whatever it does."""

    rig: Rig
    client: Client
    number: signal.Signals
    id: str

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.client.events(kind) if event["sessionId"] == self.id]

    async def strike(self, condition: Callable[[], Any]) -> None:
        await self.client.wait(condition, LONG)
        engine(self.client).send_signal(self.number)

    async def is_answered(self) -> None:
        assert (await prompt(self.client, "and now?"))["text"] == HERE

    async def in_prefill(self) -> None:
        token = f"{self.number} prefill"
        _, answer = self.client.send_command("ds4.prompt", {"text": LENGTHY}, token=token)
        await self.strike(lambda: said(self.client, token, "reading "))
        result = await asyncio.wait_for(answer, LONG)
        assert (result["stopReason"], result["text"], result["toolCalls"]) == ("error", "", [])
        tells(result["error"], self.number)
        assert self.events("turn.end")[-1]["error"] == result["error"]
        assert await history(self.client) == [("user", LENGTHY.strip()), ("notice", result["error"])]
        status = await self.client.run("ds4.status")
        assert (status["state"], status["model"], status["queue"]) == ("idle", None, [])
        is_whole(self.rig)

    async def in_decoding(self) -> None:
        before = len(self.events("text"))
        _, answer = self.client.send_command("ds4.prompt", {"text": "count"})
        await self.strike(lambda: self.events("text")[before:])
        result = await asyncio.wait_for(answer, LONG)
        assert result["stopReason"] == "error"
        tells(result["error"], self.number)
        seen = "".join(event["delta"] for event in self.events("text")[before:]).strip()
        assert seen
        assert COUNTING.startswith(seen)
        assert result["text"] == seen
        shown = await history(self.client)
        assert shown[-3:] == [("user", "count"), ("assistant", seen), ("notice", result["error"])]
        is_whole(self.rig)

    async def in_a_summary(self) -> None:
        before = await history(self.client)
        _, answer = self.client.send_command("ds4.compact")
        await self.strike(lambda: self.events("compaction.delta"))
        with pytest.raises(ResponseError) as refused:
            await asyncio.wait_for(answer, LONG)
        assert refused.value.data["code"] == "engineDied"
        tells(refused.value.message, self.number)
        [end] = self.events("compaction.end")
        assert end["compacted"] is False
        assert await history(self.client) == before
        is_whole(self.rig)

    async def in_a_rebuild(self) -> None:
        """Or right after it, on a fast machine. What is in the log stands."""
        before = await history(self.client)
        token = f"{self.number} compact"
        _, answer = self.client.send_command("ds4.compact", token=token)
        await self.strike(lambda: answer.done() or said(self.client, token, "rebuilding"))
        assert (await asyncio.wait_for(answer, LONG))["compacted"] is True
        assert [entry for entry in await history(self.client) if entry[0] != "compaction"] == before
        is_whole(self.rig)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT], ids=lambda number: number.name)
async def test_a_death_at_work_ends_what_runs_with_the_reason_and_nothing_else(
    rig: Rig, number: signal.Signals
) -> None:
    summaries = [slow("summary"), {"purpose": "summary", "text": "## Summary\nWords."}]
    turns = [HERE, slow("turn"), *[HERE] * 3]
    client = await rig.start(script=rig.script("never", *turns, *summaries), settings=SETTINGS)
    doomed = Doomed(rig, client, number, (await client.run("ds4.newSession"))["sessionId"])
    await doomed.in_prefill()
    # Two in a row would be the last: a reply comes between.
    await doomed.is_answered()
    await doomed.in_decoding()
    await doomed.is_answered()
    await doomed.in_a_summary()
    await doomed.is_answered()
    await doomed.in_a_rebuild()
    await doomed.is_answered()
    assert client.stray == b""


@pytest.mark.parametrize("fault", ["kill", "abort"])
async def test_a_death_while_loading_is_told_and_the_second_leaves_the_next_load_to_the_user(
    tiny: Rig, fault: str
) -> None:
    once = tiny.root / "fired"
    client = await tiny.start(
        script=tiny.script("Here."), env={"DS4_LSP_FAULT": f"load:{fault}", "DS4_LSP_FAULT_ONCE": str(once)}
    )
    number = signal.SIGKILL if fault == "kill" else signal.SIGABRT
    # The load that the server begins by itself.
    told = await client.wait_for("window/showMessage", lambda params: "The engine was" in params["message"])
    assert told["type"] == 1
    assert number.name in told["message"]
    status = await client.run("ds4.status")
    assert (status["state"], status["model"]) == ("error", None)
    assert number.name in status["error"]
    assert (await client.wait_for("experimental/serverStatus", lambda s: s["health"] == "error"))["quiescent"]
    # One that a prompt waits for.
    once.rename(tiny.root / "fired before")
    with pytest.raises(ResponseError) as refused:
        await prompt(client, "hello?")
    assert refused.value.data["code"] == "engineDied"
    assert number.name in refused.value.message
    assert (await client.run("ds4.status"))["queue"] == []
    is_whole(tiny)
    # Nothing is in its way any more, but the server cannot know.
    with pytest.raises(ResponseError, match="second such death"):
        await prompt(client, "and now?")
    await client.run("ds4.loadModel", timeout=LONG)
    result = await prompt(client, "hello again")
    assert (result["stopReason"], result["text"]) == ("end", "Here.")
    assert await history(client) == [("user", "hello again"), ("assistant", "Here.")]
    is_whole(tiny)
    bars = [one["token"] for one in client.notifications("window/workDoneProgress/create")]
    assert all(client.progress(bar)[-1]["kind"] == "end" for bar in bars)
