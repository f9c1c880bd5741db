"""The first answer, given while the server is still being loaded."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from lsp_client import Client

from ds4_lsp.server.capabilities import initialize_result
from ds4_lsp.server.client import read
from ds4_lsp.server.greeting import Greeting

PARAMS: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}


def request(**fields: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS} | fields


@pytest.mark.parametrize("identity", [0, 7, "a"])
def test_initialize_is_answered_and_the_answer_is_claimed_once(identity: Any) -> None:
    greeting = Greeting()
    data = greeting(request(id=identity))
    assert data is not None
    answer = json.loads(data.partition(b"\r\n\r\n")[2])
    assert answer == {"jsonrpc": "2.0", "id": identity, "result": initialize_result(read(PARAMS))}
    assert not greeting.has_answered("another")
    assert greeting.has_answered(identity)
    assert not greeting.has_answered(identity)


@pytest.mark.parametrize(
    "message",
    [
        request(id=None),
        request(id=True),
        request(id=1.5),
        request(params=None),
        request(params=[]),
        request(jsonrpc="1.0"),
        request(method="shutdown"),
        [],
        None,
        "initialize",
    ],
)
def test_anything_else_is_left_to_the_server(message: Any) -> None:
    greeting = Greeting()
    assert greeting(message) is None
    assert not greeting.has_answered(1)


async def test_one_initialize_has_one_answer_however_soon_more_follows(connect: Any) -> None:
    client: Client = await connect()
    assert (await client.run("ds4.status"))["state"] == "idle"
    answers = [message for message in client.received if "result" in message and "capabilities" in message["result"]]
    assert len(answers) == 1


async def test_signals_right_after_the_answer_do_what_they_do_later(connect: Any) -> None:
    client: Client = await connect()
    client.process.send_signal(signal.SIGINT)
    client.process.send_signal(signal.SIGTERM)
    assert await client.process.wait() == 1
