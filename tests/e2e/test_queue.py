"""What waits in the queue is the user's: to see, to change, to take back; also after Stop, and after a restart."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from lsp_client import Client, ResponseError
from rig import LONG, Rig, prompt

TALK = {"purpose": "turn", "text": "so it goes on and on " * 60, "delay_ms": 20}


async def talking(client: Client, *texts: str) -> dict[str, int]:
    """A turn that talks, and ``texts`` queued behind it: their numbers."""
    before = len(client.events("text"))
    await client.run("ds4.prompt", {"text": "talk", "wait": False})
    await client.wait(lambda: len(client.events("text")) > before, LONG)
    for text in texts:
        await client.run("ds4.prompt", {"text": text, "wait": False})
    return {one["text"]: one["seq"] for one in (await client.run("ds4.status"))["queue"]}


async def told(client: Client) -> list[dict[str, Any]]:
    """The items of the last ``queue`` event, once they are those of the status."""
    queue = (await client.run("ds4.status"))["queue"]
    items = [{name: one[name] for name in ("seq", "text", "held")} for one in queue]
    await client.wait(lambda: client.events("queue")[-1]["items"] == items)
    return items


async def ended(client: Client, count: int) -> None:
    await client.wait(lambda: len(client.events("turn.end")) >= count, LONG)


async def asked(client: Client) -> list[str]:
    history = (await client.run("ds4.showHistory", {"turns": 99}))["history"]
    return [one["text"] for one in history if one["role"] == "user"]


async def test_a_queued_prompt_is_taken_back_and_another_one_changed(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(TALK, "Two."))
    seqs = await talking(client, "delete the branch", "two")
    assert [one["text"] for one in await told(client)] == ["delete the branch", "two"]
    assert await client.run("ds4.dequeue", {"seq": seqs["delete the branch"]}) == {"removed": True}
    assert await client.run("ds4.dequeue", {"seq": seqs["delete the branch"]}) == {"removed": False}
    assert await client.run("ds4.editQueued", {"seq": seqs["two"], "text": "second"}) == {"seq": seqs["two"]}
    assert await told(client) == [{"seq": seqs["two"], "text": "second", "held": False}]
    await client.run("ds4.interrupt", {"sendQueued": True})
    await ended(client, 2)
    assert await asked(client) == ["talk", "second"]
    assert await told(client) == []
    for command, extra in (("ds4.editQueued", {"text": "late"}), ("ds4.releaseQueued", {})):
        with pytest.raises(ResponseError) as refused:
            await client.run(command, {"seq": seqs["two"], **extra})
        assert refused.value.data["code"] == "notFound"


async def test_what_stop_held_runs_only_when_it_is_released_by_name(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(TALK, "Other.", "One."))
    seqs = await talking(client, "one", "delete the branch")
    assert await client.run("ds4.interrupt") == {"interrupted": True}
    await ended(client, 1)
    assert [one["held"] for one in await told(client)] == [True, True]
    assert await client.run("ds4.interrupt") == {"interrupted": False}
    assert (await prompt(client, "other"))["text"] == "Other."
    assert [one["text"] for one in await told(client)] == ["one", "delete the branch"]
    assert await client.run("ds4.releaseQueued", {"seq": seqs["one"]}) == {"released": True}
    await ended(client, 3)
    assert await asked(client) == ["talk", "other", "one"]
    assert [one["text"] for one in await told(client)] == ["delete the branch"]
    # A session with something queued is not idle: it is taken back before the session can be deleted.
    assert await client.run("ds4.dequeue", {"seq": seqs["delete the branch"]}) == {"removed": True}


async def test_a_change_and_a_withdrawal_survive_the_server(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(TALK))
    seqs = await talking(client, "one", "two", "three")
    await client.run("ds4.editQueued", {"seq": seqs["one"], "text": "first"})
    await client.run("ds4.dequeue", {"seq": seqs["two"]})
    client.process.send_signal(signal.SIGKILL)
    await client.process.wait()
    again = await tiny.start(script=tiny.script("First."))
    items = await told(again)
    assert items == [
        {"seq": seqs["one"], "text": "first", "held": True},
        {"seq": seqs["three"], "text": "three", "held": True},
    ]
    await again.run("ds4.releaseQueued", {"seq": seqs["one"]})
    await ended(again, 1)
    assert (await asked(again))[-1] == "first"
    assert [one["text"] for one in await told(again)] == ["three"]


async def test_a_queued_prompt_is_not_changed_into_nothing_or_into_a_command(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(TALK))
    seqs = await talking(client, "one")
    for text in (" ", "/compact", "/nothing"):
        with pytest.raises(ResponseError) as refused:
            await client.run("ds4.editQueued", {"seq": seqs["one"], "text": text})
        assert refused.value.data["code"] == "invalid"
    assert [one["text"] for one in await told(client)] == ["one"]


async def test_the_queue_answers_to_slash_words(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(TALK, "Two."))
    seqs = await talking(client, "one", "two")
    shown = (await prompt(client, "/queue"))["text"]
    assert shown == f"#{seqs['one']}  one\n#{seqs['two']}  two"
    assert (await prompt(client, f"/unqueue #{seqs['one']}"))["text"] == f"#{seqs['one']} is taken back."
    assert (await prompt(client, f"/requeue {seqs['two']} second"))["text"] == f"#{seqs['two']} is changed."
    assert (await prompt(client, "/stop"))["text"] == "Stopped."
    await ended(client, 1)
    assert (await prompt(client, "/queue"))["text"] == f"#{seqs['two']} (held)  second"
    assert (await prompt(client, f"/send {seqs['two']}"))["text"] == f"#{seqs['two']} runs in its turn."
    await ended(client, 2)
    assert await asked(client) == ["talk", "second"]


async def test_words_that_are_no_command_cost_no_turn(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("A prompt."))
    for text, word in (("/undoo", "/undo"), ("/list of files", "/list"), ("/kill", "/kill JOB"), ("/zzz", "/help")):
        with pytest.raises(ResponseError) as refused:
            await prompt(client, text)
        assert refused.value.data["code"] == "invalid"
        assert word in refused.value.message
    assert client.events("turn.start") == []
    assert (await prompt(client, " /undoo is what I typed"))["text"] == "A prompt."


async def test_every_slash_word_is_carried_out(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One."))
    session = (await prompt(client, "first"))["sessionId"]
    assert "state     idle" in (await prompt(client, "/status"))["text"]
    assert (await prompt(client, "/jobs"))["text"] == "No jobs."
    with pytest.raises(ResponseError, match="nothing to undo"):
        await prompt(client, "/undo")
    assert (await prompt(client, "/export jsonl"))["text"].endswith("export.jsonl")
    fork = (await prompt(client, "/fork"))["sessionId"]
    assert fork != session
    await prompt(client, f"/switch {session[:8]}")
    assert fork in (await prompt(client, f"/delete {fork}"))["text"]
    assert "memory is free" in (await prompt(client, "/unload"))["text"]
    assert (await asyncio.wait_for(prompt(client, "/load"), LONG))["text"].startswith("Loaded ")
