"""Prompts that act as commands, prompts that nobody waits for, and jobs: over the wire, on a real engine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lsp_client import Client, ResponseError
from rig import LONG, Rig, call, prompt

ALLOW = {"permissions": {"bash": "allow"}}


async def told(client: Client, level: int, part: str) -> str:
    """The text of the first message of that level that has ``part`` in it."""
    params = await client.wait_for("window/showMessage", lambda one: one["type"] == level and part in one["message"])
    return str(params["message"])


async def code_of(client: Client, command: str, arguments: dict[str, Any]) -> str:
    with pytest.raises(ResponseError) as caught:
        await client.run(command, arguments, timeout=LONG)
    return str(caught.value.data["code"])


async def test_slash_prompts_act_as_the_commands_do(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One.", "Two."))
    first = await prompt(client, "first")
    await prompt(client, "second")
    helped = await prompt(client, "/help")
    for name in ("compact", "new", "list", "switch", "history", "save", "help"):
        assert f"/{name}" in helped["text"]
    shown = (await prompt(client, "/history 1"))["text"]
    assert shown == "user: second\n\nassistant: Two."
    assert (await prompt(client, "/history"))["text"].startswith("user: first\n\nassistant: One.")
    saved = await prompt(client, "/save")
    assert saved["text"] == f"Saved {first['sessionId']} with a KV snapshot."
    info = (await client.run("ds4.listSessions"))["sessions"][0]
    assert info["snapshot"] is True
    assert "nothing to compact" in (await prompt(client, "/compact keep the ports"))["text"]
    new = await prompt(client, "/new Another one")
    assert new["sessionId"] != first["sessionId"]
    listed = (await prompt(client, "/list"))["text"].splitlines()
    assert len(listed) == 2
    assert listed[0].startswith(f"* {new['sessionId'][:8]}  Another one")
    back = await prompt(client, f"/switch {first['sessionId']}")
    assert back["sessionId"] == first["sessionId"]
    assert "assistant: Two." in back["text"]
    # None of them is a part of a conversation, or a turn of one.
    roles = [one["role"] for one in (await client.run("ds4.showHistory", {"turns": 99}))["history"]]
    assert roles == ["user", "assistant"] * 2
    assert {one["turn"] for one in client.events("turn.start")} == {1, 2}
    assert [one["stopReason"] for one in (helped, saved, new, back)] == ["end"] * 4


async def test_a_slash_prompt_that_nobody_waits_for_is_told_by_a_message(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One."))
    await prompt(client, "first")
    answer = await client.run("ds4.prompt", {"text": "/history", "wait": False})
    assert answer["queued"] is False
    assert await told(client, 3, "user: first") == "user: first\n\nassistant: One."
    await client.run("ds4.prompt", {"text": "/switch nowhere", "wait": False})
    assert "nowhere" in await told(client, 1, "nowhere")


async def test_a_prompt_that_nobody_waits_for_and_that_fails_is_told_and_ended(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One."), env={"DS4_MODEL": str(tiny.root / "gone.gguf")})
    answer = await client.run("ds4.prompt", {"text": "first", "wait": False})
    assert "gone.gguf" in await told(client, 1, "gone.gguf")
    [end] = await client.wait(lambda: client.events("turn.end"), LONG)
    assert (end["turn"], end["stopReason"]) == (answer["turn"], "error")
    assert "gone.gguf" in end["error"]
    assert (await client.run("ds4.status"))["queue"] == []
    # The session is none the worse for it.
    (tiny.root / "gone.gguf").symlink_to(tiny.model)
    assert (await prompt(client, "again"))["text"] == "One."


async def test_a_session_is_found_by_a_prefix_of_its_own_alone(tiny: Rig) -> None:
    client = await tiny.start()
    names = [(await client.run("ds4.newSession"))["sessionId"] for _ in range(40)]
    first = next(name for name in names if sum(other[0] == name[0] for other in names) > 1)
    assert await code_of(client, "ds4.switchSession", {"sessionId": first[0]}) == "ambiguous"
    assert await code_of(client, "ds4.deleteSession", {"sessionId": first[0]}) == "ambiguous"
    assert await code_of(client, "ds4.switchSession", {"sessionId": "zz"}) == "notFound"
    switched = await client.run("ds4.switchSession", {"sessionId": first[:10]})
    assert switched["sessionId"] == first
    assert len((await client.run("ds4.listSessions"))["sessions"]) == 40


async def test_a_running_command_is_listed_and_stopped_while_the_turn_waits_for_it(tiny: Rig) -> None:
    script = tiny.script(call("bash", command="echo up; sleep 600 & sleep 600", refresh_sec=600), "It is gone.")
    client = await tiny.start(script=script, settings=ALLOW)
    _, turn = client.send_command("ds4.prompt", {"text": "serve"})
    await client.wait(lambda: client.events("job"), LONG)
    [job] = (await client.run("ds4.listJobs"))["jobs"]
    assert (job["job"], job["state"], job["exitStatus"]) == (1, "running", None)
    assert job["command"].startswith("echo up")
    assert job["elapsed"] >= 0
    assert await code_of(client, "ds4.stopJob", {"job": 2}) == "notFound"
    [stopped] = (await client.run("ds4.stopJob", {"job": 1}))["jobs"]
    assert stopped["state"] == "killed"
    result = await asyncio.wait_for(turn, LONG)
    assert result["text"] == "It is gone."
    assert "up" in client.events("tool.result")[0]["text"]
    # Once more is no error, and changes nothing.
    assert (await client.run("ds4.stopJob", {"job": 1}))["jobs"][0]["state"] == "killed"
    assert (await client.run("ds4.status"))["jobs"][0]["state"] == "killed"


async def test_a_prompt_queued_while_the_model_loads_is_sent_when_it_is_there(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One.", "Two."))
    _, first = client.send_command("ds4.prompt", {"text": "first"})
    _, second = client.send_command("ds4.prompt", {"text": "second"})
    assert await client.run("ds4.interrupt", {"sendQueued": True}) in ({"interrupted": True}, {"interrupted": False})
    results = [await asyncio.wait_for(answer, LONG) for answer in (first, second)]
    # The first one was interrupted if it had begun; nothing is lost in either case.
    assert results[0]["stopReason"] in ("end", "cancelled")
    assert results[1]["stopReason"] == "end"
    assert (await client.run("ds4.status"))["queue"] == []


async def test_every_command_keeps_a_progress_token_that_it_was_given(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One.", "Two."))
    for number, (command, arguments) in enumerate(
        [
            ("ds4.prompt", {"text": "first"}),
            ("ds4.status", {}),
            ("ds4.saveSession", {}),
            ("ds4.compact", {}),
            ("ds4.loadModel", {}),
            ("ds4.showHistory", {}),
        ]
    ):
        await client.run(command, arguments, token=f"token {number}", timeout=LONG)
        values = client.progress(f"token {number}")
        # What takes no time may show nothing; what is shown begins, and ends before the answer.
        assert values == [] or (values[0]["kind"], values[-1]["kind"]) == ("begin", "end"), command
    assert client.progress("token 0")
    assert client.progress("token 4")
