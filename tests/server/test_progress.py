from __future__ import annotations

import asyncio
from typing import Any

import pytest
from lsp_client import GUARDED, PLAIN, ResponseError

ENDED = {"kind": "end", "message": "end"}


def check(values: list[dict[str, Any]]) -> None:
    """What every bar keeps to: one begin, one end, percentages that rise."""
    assert values[0]["kind"] == "begin"
    assert values[0]["title"]
    assert values[0]["cancellable"] is True
    assert [value["kind"] for value in values[1:-1]] == ["report"] * (len(values) - 2)
    assert values[-1]["kind"] == "end"
    percentages = [value["percentage"] for value in values[:-1]]
    assert percentages == sorted(percentages)
    assert all(0 <= percentage <= 100 for percentage in percentages)


async def test_a_requests_token_shows_its_turn_and_no_other_bar_appears(connect: Any) -> None:
    client = await connect()
    await client.run("ds4.prompt", {"text": "flood 2000"}, token=7)
    check(client.progress(7))
    assert client.notifications("window/workDoneProgress/create") == []
    reply = next(index for index, message in enumerate(client.received) if message.get("id") == 2)
    assert not [message for message in client.received[reply:] if message.get("method") == "$/progress"]
    # Throttled: ten a second, not one a token.
    assert len(client.progress(7)) < 100


async def test_a_turn_without_a_token_gets_a_bar_of_the_servers(connect: Any) -> None:
    client = await connect()
    await client.run("ds4.prompt", {"text": "say a"})
    [token] = [params["token"] for params in client.notifications("window/workDoneProgress/create")]
    await client.wait(lambda: [value for value in client.progress(token) if value["kind"] == "end"])
    check(client.progress(token))


async def test_a_bar_ends_when_everything_that_it_was_about_is_told(connect: Any) -> None:
    client = await connect(GUARDED)
    for _ in range(5):
        client.received.clear()
        await client.run("ds4.prompt", {"text": "flood 200"})
        await client.wait(lambda: [one for one in client.received if one.get("params", {}).get("value") == ENDED])
        told = [(one.get("method"), one.get("params", {})) for one in client.received]
        end = next(at for at, (_, params) in enumerate(told) if params.get("value") == ENDED)
        events = [at for at, (method, params) in enumerate(told) if method == "ds4/event" and params["turn"]]
        assert events
        assert max(events) < end


async def test_a_bar_ends_on_every_path(connect: Any) -> None:
    client = await connect()
    for token, text in ((1, "refuse busy"), (2, "crash")):
        with pytest.raises(ResponseError):
            await client.run("ds4.prompt", {"text": text}, token=token)
        check(client.progress(token))


async def test_each_of_two_queued_prompts_has_its_own_bar(connect: Any) -> None:
    client = await connect(GUARDED)
    number, first = client.send_command("ds4.prompt", {"text": "wait"}, token="a")
    await client.wait_for("ds4/event", lambda event: event.get("delta") == "waiting")
    _, second = client.send_command("ds4.prompt", {"text": "flood 4000"}, token="b")
    client.cancel(number)
    await asyncio.wait_for(first, 20)
    assert (await asyncio.wait_for(second, 20))["text"] == "flooded"
    check(client.progress("a"))
    check(client.progress("b"))
    assert any(value.get("message", "").isdigit() for value in client.progress("b"))
    assert not any(value.get("message", "").isdigit() for value in client.progress("a"))


async def test_work_that_no_request_waits_for_has_a_bar_that_can_be_cancelled(connect: Any) -> None:
    client = await connect()
    await client.run("ds4.prompt", {"text": "load"}, token="t")
    [token] = [params["token"] for params in client.notifications("window/workDoneProgress/create")]
    await client.wait(lambda: client.progress(token))
    client.notify("window/workDoneProgress/cancel", {"token": token})
    await client.wait_for("window/showMessage", lambda message: message["message"] == "cancelled load")
    await client.wait(lambda: client.progress(token)[-1]["kind"] == "end")
    check(client.progress(token))


async def test_a_load_asked_for_with_a_token_is_shown_there(connect: Any) -> None:
    client = await connect()
    assert await client.run("ds4.loadModel", {}, token="t") == {"model": None}
    check(client.progress("t"))
    assert client.progress("t")[1]["percentage"] == 25
    assert client.notifications("window/workDoneProgress/create") == []


async def test_a_client_that_refuses_or_never_answers_a_token_gets_no_progress(connect: Any) -> None:
    client = await connect()
    del client.handlers["window/workDoneProgress/create"]
    assert (await client.run("ds4.prompt", {"text": "say a"}))["text"] == "a"
    client.handlers["window/workDoneProgress/create"] = lambda _params: asyncio.Event().wait()
    assert (await client.run("ds4.prompt", {"text": "say b"}))["text"] == "b"
    assert client.notifications("$/progress") == []


async def test_a_client_without_progress_is_asked_for_no_token(connect: Any) -> None:
    client = await connect(PLAIN | {"window": {}})
    await client.run("ds4.prompt", {"text": "say a"})
    assert client.notifications("window/workDoneProgress/create") == []
