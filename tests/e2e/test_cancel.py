"""Cancelling and queueing as a client sees them: every way to stop stops the engine, and what waits keeps its order."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from lsp_client import Client
from rig import LONG, Rig, call, prompt

LENGTHY = "word " * 5000
TALK = {"purpose": "turn", "text": "one two three four five six seven eight nine ten " * 60, "delay_ms": 40}
"""It never ends by itself: it is always cancelled."""
SETTINGS = {
    "model": {"contextSize": 8192, "batchSize": 64},
    "permissions": {"bash": "allow"},
    "compaction": {"auto": False},
}


async def stop(client: Client, way: str, number: int, token: str | None) -> None:
    """Cancel the running prompt that was sent as request ``number``, with ``token`` or with a bar of the server's."""
    match way:
        case "request":
            client.cancel(number)
        case "interrupt":
            assert await client.run("ds4.interrupt") == {"interrupted": True}
        case _:
            created = client.notifications("window/workDoneProgress/create")
            bar = token or next(one["token"] for one in reversed(created) if "turn" in one["token"])
            client.notify("window/workDoneProgress/cancel", {"token": bar})


def said(client: Client, result: dict[str, Any]) -> str:
    """What the user saw of that turn."""
    return "".join(
        event["delta"]
        for event in client.events("text")
        if (event["sessionId"], event["turn"]) == (result["sessionId"], result["turn"])
    )


def running(client: Client, session: str, state: str) -> Any:
    """A condition: the newest turn of that session is in that state, and has come some way in it."""

    def condition() -> bool:
        events = [event for event in client.events() if event["sessionId"] == session]
        if state == "generating":
            return bool(events) and events[-1]["kind"] == "text"
        reports = [params["value"].get("message", "") for params in client.notifications("$/progress")]
        return bool(reports) and reports[-1].startswith("reading ") and not reports[-1].startswith("reading 0/")

    return condition


async def test_every_way_to_cancel_stops_prefill_and_decoding_and_tells_what_was_seen(rig: Rig) -> None:
    client = await rig.start(script=rig.script(*[TALK] * 9), settings=SETTINGS)
    for way in ("request", "interrupt", "own bar", "server's bar"):
        for phase in ("prefill", "generating"):
            session = (await client.run("ds4.newSession"))["sessionId"]
            token = None if way == "server's bar" else f"{way} {phase}"
            text = LENGTHY if phase == "prefill" else "talk"
            number, answer = client.send_command("ds4.prompt", {"text": text}, token=token)
            await client.wait(running(client, session, phase), LONG)
            await stop(client, way, number, token)
            result = await asyncio.wait_for(answer, LONG)
            assert result["stopReason"] == "cancelled", (way, phase)
            assert result["text"] == said(client, result).strip()
            usage = result["usage"]
            last = (await client.run("ds4.showHistory"))["history"][-1]
            if phase == "prefill":
                assert 0 < usage["promptTokens"] < 5000
                assert (result["text"], usage["completionTokens"]) == ("", 0)
                assert (last["role"], last["text"].strip()) == ("user", text.strip())
            else:
                assert 0 < usage["completionTokens"] < 600
                assert (last["role"], last["text"].strip()) == ("assistant", result["text"])
                assert last["stop"] == "cancelled"
            kinds = [event["kind"] for event in client.events() if event["sessionId"] == session]
            assert [kind for kind in kinds if kind != "state"][-1] == "turn.end"
            if token is not None:
                assert client.progress(token)[-1]["kind"] == "end"
    after = await client.run("ds4.status")
    assert (after["state"], after["queue"]) == ("idle", [])
    number, answer = client.send_command("ds4.prompt", {"text": "go on"})
    await client.wait(lambda: [event for event in client.events("text") if event["turn"] == 2], LONG)
    client.cancel(number)
    # Everything but the new prompt was in the KV, the words of the cancelled reply included.
    assert (await asyncio.wait_for(answer, LONG))["usage"]["promptTokens"] < 20
    assert client.stray == b""


async def test_queued_prompts_run_in_order_and_hold_back_calls_that_were_not_dispatched(tiny: Rig) -> None:
    wait = call("bash", command="while [ ! -e go ]; do sleep 0.05; done; echo went")
    two = wait.replace(
        "</｜DSML｜tool_calls>", call("bash", command="touch ran").removeprefix("<｜DSML｜tool_calls>\n")
    )
    client = await tiny.start(script=tiny.script(two, "Second.", "Third."), settings=SETTINGS)
    _, first = client.send_command("ds4.prompt", {"text": "first"})
    await client.wait(lambda: client.events("job"), LONG)
    _, second = client.send_command("ds4.prompt", {"text": "second"})
    unwanted_number, unwanted = client.send_command("ds4.prompt", {"text": "unwanted"})
    _, third = client.send_command("ds4.prompt", {"text": "third"})
    await client.wait(lambda: len(client.events("queued")) == 3)
    assert [one["text"] for one in (await client.run("ds4.status"))["queue"]] == ["second", "unwanted", "third"]
    client.cancel(unwanted_number)
    dropped = await asyncio.wait_for(unwanted, LONG)
    assert (dropped["stopReason"], dropped["text"], dropped["toolCalls"]) == ("cancelled", "", [])
    assert [one["text"] for one in (await client.run("ds4.status"))["queue"]] == ["second", "third"]
    assert not first.done()
    tiny.file("go", "")
    result = await asyncio.wait_for(first, LONG)
    assert result["stopReason"] == "end"
    assert [one["ok"] for one in result["toolCalls"]] == [True, False]
    ran, held_back = client.events("tool.result")
    assert "went" in ran["text"]
    assert held_back["text"] == "not executed: a queued prompt is pending"
    assert not (tiny.workspace / "ran").exists()
    results = [await asyncio.wait_for(answer, LONG) for answer in (second, third)]
    assert [(one["turn"], one["text"]) for one in results] == [(2, "Second."), (3, "Third.")]
    asked = [
        one["text"] for one in (await client.run("ds4.showHistory", {"turns": 9}))["history"] if one["role"] == "user"
    ]
    assert asked == ["first", "second", "third"]


async def test_interrupted_the_queue_waits_until_it_is_released_or_is_sent_at_once(tiny: Rig) -> None:
    script = tiny.script(TALK, "One.", TALK, "Three.", "Two.", TALK, "Four.")
    client = await tiny.start(script=script, settings=SETTINGS)

    async def talk_and_queue(text: str) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
        before = len(client.events("text"))
        _, talking = client.send_command("ds4.prompt", {"text": "talk"})
        await client.wait(lambda: len(client.events("text")) > before, LONG)
        _, queued = client.send_command("ds4.prompt", {"text": text})
        await client.wait(lambda: [event for event in client.events("queued") if event["text"] == text])
        return talking, queued

    async def waiting() -> list[str]:
        return [one["text"] for one in (await client.run("ds4.status"))["queue"]]

    talking, queued = await talk_and_queue("one")
    assert await client.run("ds4.interrupt") == {"interrupted": True}
    assert (await asyncio.wait_for(talking, LONG))["stopReason"] == "cancelled"
    # Commands of other kinds do not set it off.
    await client.run("ds4.showHistory")
    await client.run("ds4.saveSession", timeout=LONG)
    assert await waiting() == ["one"]
    assert (await client.run("ds4.status"))["state"] == "idle"
    assert await client.run("ds4.interrupt", {"sendQueued": True}) == {"interrupted": False}
    assert (await asyncio.wait_for(queued, LONG))["text"] == "One."

    talking, queued = await talk_and_queue("two")
    await client.run("ds4.interrupt")
    assert (await asyncio.wait_for(talking, LONG))["stopReason"] == "cancelled"
    assert await waiting() == ["two"]
    # What the user took back by Stop is not set off by another prompt.
    assert (await prompt(client, "three"))["text"] == "Three."
    [held] = (await client.run("ds4.status"))["queue"]
    assert (held["text"], held["held"]) == ("two", True)
    assert await client.run("ds4.releaseQueued", {"seq": held["seq"]}) == {"released": True}
    assert (await asyncio.wait_for(queued, LONG))["text"] == "Two."

    talking, queued = await talk_and_queue("four")
    assert await client.run("ds4.interrupt", {"sendQueued": True}) == {"interrupted": True}
    assert (await asyncio.wait_for(talking, LONG))["stopReason"] == "cancelled"
    assert (await asyncio.wait_for(queued, LONG))["text"] == "Four."
    assert await waiting() == []


async def test_queued_prompts_survive_the_server_and_wait_for_the_user(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(TALK), settings=SETTINGS)
    told = [await client.run("ds4.prompt", {"text": text, "wait": False}) for text in ("talk", "one", "two")]
    assert [(one["turn"], one["queued"]) for one in told] == [(1, False), (2, True), (3, True)]
    await client.wait(lambda: client.events("text"), LONG)
    client.process.send_signal(signal.SIGKILL)
    await client.process.wait()

    second = await tiny.start(script=tiny.script("One.", "Two.", "Now."), settings=SETTINGS)
    status = await second.run("ds4.status")
    assert [one["text"] for one in status["queue"]] == ["one", "two"]
    assert status["session"]["sessionId"] == told[0]["sessionId"]
    history = (await second.run("ds4.showHistory"))["history"]
    assert (history[0]["role"], history[0]["text"]) == ("user", "talk")
    assert second.events("turn.start") == []
    await second.run("ds4.interrupt", {"sendQueued": True})
    now = await prompt(second, "now")
    assert (now["turn"], now["text"]) == (4, "Now.")
    ended = [event["turn"] for event in second.events("turn.end")]
    assert ended == [2, 3, 4]
    history = (await second.run("ds4.showHistory", {"turns": 3}))["history"]
    assert [one["text"] for one in history if one["role"] in ("user", "assistant")] == [
        *("one", "One."),
        *("two", "Two."),
        *("now", "Now."),
    ]


async def test_interrupt_stops_a_prompt_that_waits_for_the_model(tiny: Rig) -> None:
    client = await tiny.start(
        script=tiny.script({"purpose": "turn", "text": "a b c d", "delay_ms": 200}, "Later."),
        settings={"model": {"preload": False}},
    )
    _, answer = client.send_command("ds4.prompt", {"text": "first"})
    assert await client.run("ds4.interrupt", {}) == {"interrupted": True}
    assert (await asyncio.wait_for(answer, LONG))["stopReason"] == "cancelled"
    assert (await prompt(client, "second"))["stopReason"] == "end"


async def test_interrupt_stops_a_compaction_that_waits_for_the_model_or_for_another_one(tiny: Rig) -> None:
    summary = {"purpose": "summary", "text": "and so on " * 200, "delay_ms": 200}
    client = await tiny.start(script=tiny.script("Noted.", summary), settings={"model": {"preload": False}})
    cancelled = {"compacted": False, "reason": "cancelled"}
    await client.run("ds4.newSession")
    _, answer = client.send_command("ds4.compact", {})
    assert await client.run("ds4.interrupt", {}) == {"interrupted": True}
    assert (await asyncio.wait_for(answer, LONG)).items() >= cancelled.items()
    first = (await prompt(client, "keep these words: " + "alpha beta gamma " * 200))["sessionId"]
    _, answer = client.send_command("ds4.compact", {})
    await client.wait(lambda: client.events("compaction.delta"), LONG)
    other = (await client.run("ds4.newSession"))["sessionId"]
    _, waits = client.send_command("ds4.compact", {"sessionId": other})
    assert await client.run("ds4.interrupt", {"sessionId": other}) == {"interrupted": True}
    assert (await asyncio.wait_for(waits, LONG)).items() >= cancelled.items()
    assert await client.run("ds4.interrupt", {"sessionId": first}) == {"interrupted": True}
    assert (await asyncio.wait_for(answer, LONG)).items() >= cancelled.items()
