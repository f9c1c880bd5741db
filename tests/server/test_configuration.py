"""The settings as the client changes, removes and mistypes them; an agent that cannot start with them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lsp_client import PLAIN, ResponseError

from ds4_lsp.server.settings import Sources

PULLED = PLAIN | {"workspace": {"configuration": True}}


def shown(client: Any) -> list[str]:
    return [message["message"] for message in client.notifications("window/showMessage")]


async def settings_of(client: Any) -> Any:
    return json.loads((await client.run("ds4.prompt", {"text": "settings"}))["text"])


async def changed(client: Any) -> None:
    """Wait until the agent was told of one more change."""
    before = shown(client).count("settings updated")
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    await client.wait(lambda: shown(client).count("settings updated") > before)


async def test_a_section_that_was_removed_is_no_longer_in_force(start: Any) -> None:
    answers: list[Any] = [{"permissions": {"bash": "allow"}}]
    client = await start()
    client.handlers["workspace/configuration"] = lambda _params: answers
    await client.initialize(PULLED, initializationOptions={"thinking": "off"})
    found = await settings_of(client)
    assert (found["permissions"]["bash"], found["thinking"]) == ("allow", "off")
    answers[0] = None
    await changed(client)
    found = await settings_of(client)
    assert (found["permissions"]["bash"], found["thinking"]) == ("ask", "off")


async def test_a_removed_section_is_heard_by_a_client_that_only_pushes(connect: Any) -> None:
    client = await connect()
    for removed in ({"ds4": None}, {}):
        client.notify("workspace/didChangeConfiguration", {"settings": {"ds4": {"permissions": {"bash": "allow"}}}})
        assert (await settings_of(client))["permissions"]["bash"] == "allow"
        client.notify("workspace/didChangeConfiguration", {"settings": removed})
        assert (await settings_of(client))["permissions"]["bash"] == "ask"


async def test_a_client_that_has_no_configuration_keeps_its_options(start: Any) -> None:
    client = await start()
    client.handlers["workspace/configuration"] = lambda _params: [None]
    await client.initialize(PULLED, initializationOptions={"thinking": "off"})
    assert (await settings_of(client))["thinking"] == "off"
    assert shown(client) == []


async def test_a_configuration_that_is_no_object_is_told_of_and_changes_nothing(start: Any) -> None:
    answers: list[Any] = ["bogus"]
    client = await start()
    client.handlers["workspace/configuration"] = lambda _params: answers
    await client.initialize(PULLED, initializationOptions={"thinking": "off"})
    assert (await settings_of(client))["thinking"] == "off"
    [message] = shown(client)
    assert "ds4" in message
    assert '"bogus"' in message


def test_a_null_section_costs_the_options_nothing_and_is_told_of() -> None:
    sources = Sources(options={"model": {"path": "/m.gguf"}, "thinking": "off"}, configuration={"model": None})
    found, [problem] = sources.settings()
    assert (found.model.path, found.thinking) == ("/m.gguf", "off")
    assert "ds4.model = null" in str(problem)
    assert sources.settings()[1] == []


def test_a_null_section_in_the_options_is_told_of_too() -> None:
    found, [problem] = Sources(options={"sampling": None, "thinking": "off"}).settings()
    assert (found.sampling.temperature, found.thinking) == (None, "off")
    assert "ds4.sampling = null" in str(problem)


async def test_a_directory_that_cannot_be_used_is_told_of_with_its_key_and_the_default(connect: Any) -> None:
    client = await connect(initializationOptions={"sessions": {"directory": "~nosuchuser/x"}})
    assert (await settings_of(client))["sessions"]["directory"] is None
    [message] = shown(client)
    assert "ds4.sessions.directory" in message
    assert "~nosuchuser/x" in message
    assert "the default null" in message


async def test_an_agent_that_could_not_start_starts_when_the_settings_are_corrected(connect: Any) -> None:
    client = await connect(initializationOptions={"systemPrompt": "fail to start"})
    await client.wait(lambda: shown(client))
    client.notify("workspace/didChangeConfiguration", {"settings": {"ds4": {"systemPrompt": ""}}})
    await client.wait_for("window/showMessage", lambda message: message["message"] == "agent started")
    assert (await settings_of(client))["systemPrompt"] == ""
    assert shown(client) == ["ds4-lsp could not start its agent: it was told to fail", "agent started"]
    assert await client.shutdown() == 0


async def test_a_command_tries_the_start_again_and_the_same_failure_is_told_once(connect: Any) -> None:
    client = await connect(initializationOptions={"systemPrompt": "fail to start twice"})
    await client.wait(lambda: shown(client))
    with pytest.raises(ResponseError, match=r"-32603.*could not start its agent: it was told to fail"):
        await client.run("ds4.status")
    assert (await client.run("ds4.status"))["state"] == "idle"
    assert shown(client) == ["ds4-lsp could not start its agent: it was told to fail", "agent started"]


async def test_shutdown_stops_what_no_request_waits_for(connect: Any) -> None:
    client = await connect(PLAIN | {"experimental": {"ds4": {"events": True}}})
    await client.run("ds4.prompt", {"text": "wait", "wait": False})
    await client.run("ds4.prompt", {"text": "say too late", "wait": False})
    await client.wait_for("ds4/event", lambda event: event.get("delta") == "waiting")
    await client.request("shutdown", None)
    ended = await client.wait_for("ds4/event", lambda event: event["kind"] == "turn.end")
    assert ended["stopReason"] == "cancelled"
    assert "the agent was told to stop" in shown(client)
    client.notify("exit", None)
    await client.process.wait()
    assert [event["text"] for event in client.events("turn.start")] == ["wait"]
