from __future__ import annotations

import asyncio
from typing import Any

from lsp_client import GUARDED, PLAIN


async def test_only_a_clear_yes_is_one(connect: Any) -> None:
    client = await connect()
    answers = [
        ({"title": "Allow once"}, "once"),
        ({"title": "Allow for this session"}, "session"),
        ({"title": "Deny"}, "deny"),
        (None, "deny"),
        ({"title": "Something else"}, "deny"),
        ("nonsense", "deny"),
    ]
    for chosen, answer in answers:
        client.handlers["window/showMessageRequest"] = lambda _params, chosen=chosen: chosen
        assert (await client.run("ds4.prompt", {"text": "ask git push --force"}))["text"] == answer
    for asked in client.notifications("window/showMessageRequest"):
        assert "git push --force" in asked["message"]
        assert [action["title"] for action in asked["actions"]] == ["Allow once", "Allow for this session", "Deny"]


async def test_a_client_that_cannot_ask_is_unavailable(connect: Any) -> None:
    client = await connect()
    assert (await client.run("ds4.prompt", {"text": "ask"}))["text"] == "unavailable"
    silent = await connect(PLAIN | {"window": {}})
    assert (await silent.run("ds4.prompt", {"text": "ask"}))["text"] == "unavailable"
    assert silent.notifications("window/showMessageRequest") == []


async def test_a_cancel_withdraws_the_question(connect: Any) -> None:
    client = await connect(GUARDED)
    client.handlers["window/showMessageRequest"] = lambda _params: asyncio.Event().wait()
    number, answer = client.send_command("ds4.prompt", {"text": "ask"})
    await client.wait_for("window/showMessageRequest")
    client.cancel(number)
    assert (await asyncio.wait_for(answer, 20))["text"] == "deny"
    asked = next(m for m in client.received if m.get("method") == "window/showMessageRequest")
    assert client.notifications("$/cancelRequest") == [{"id": asked["id"]}]
