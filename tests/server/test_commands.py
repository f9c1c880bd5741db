from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsp_client import GUARDED, ResponseError
from pygls.exceptions import JsonRpcException

from ds4_lsp.protocol import commands as c
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest
from ds4_lsp.server.protocol import Refusal
from ds4_lsp.server.results import command_of, parse_arguments, refusal, to_wire

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from(list(c.COMMANDS)), st.lists(json_values, max_size=2))
@settings(deadline=None)
def test_any_arguments_are_parsed_or_refused_as_invalid(name: str, arguments: list[Any]) -> None:
    command = c.COMMANDS[name]
    try:
        parsed = parse_arguments(command, arguments)
    except JsonRpcException as error:
        assert error.code == -32602
        assert name in error.message
    else:
        assert isinstance(parsed, command.arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("ds4.prompt", {}, "text"),
        ("ds4.prompt", {"text": 3}, "text"),
        ("ds4.prompt", {"text": "x", "tetx": 1}, "tetx"),
        ("ds4.prompt", {"text": "x", "context": [{"uri": "file:///a", "range": {"start": {"line": -1}}}]}, "line"),
        ("ds4.showHistory", {"turns": -1}, "turns"),
        ("ds4.applyEdit", {"uri": "u", "fileTag": "t", "newText": "x"}, "exactly one target"),
    ],
)
def test_a_bad_argument_is_named(name: str, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(JsonRpcException, match=field):
        parse_arguments(command_of(name), [arguments])


def test_absent_arguments_are_an_empty_object() -> None:
    assert parse_arguments(command_of("ds4.status"), []) == c.NoArguments()
    with pytest.raises(JsonRpcException, match="exactly one JSON object"):
        parse_arguments(command_of("ds4.status"), [{}, {}])


@pytest.mark.parametrize("kind", Ds4Error.__subclasses__())
def test_every_refusal_carries_its_code_and_only_bad_arguments_are_invalid_params(kind: type[Ds4Error]) -> None:
    error = refusal(kind("Do that.", size=3, path=object()))
    number = -32602 if kind is InvalidRequest else -32803
    assert (error.code, error.message) == (number, "Do that.")
    assert error.data["code"] == kind.code
    assert error.data["size"] == 3


def test_optional_fields_are_left_out_and_nullable_ones_are_null() -> None:
    queued = to_wire(c.PromptResult(session_id="s", turn=1, queued=True))
    assert queued == {"sessionId": "s", "turn": 1, "queued": True, "text": "", "toolCalls": []}
    read = c.ReadFileResult(
        uri="u", file_tag="t", start_line=1, end_line=1, total_lines=1, text="x", version=None, source="disk"
    )
    assert to_wire(read)["version"] is None
    entry = c.HistoryEntry.model_validate({"seq": 1, "role": "user", "text": "x", "callId": "c1"})
    assert to_wire(c.HistoryResult(history=[entry])) == {
        "history": [{"seq": 1, "role": "user", "text": "x", "callId": "c1"}]
    }


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, ["startLine", "endLine", "oldText", "range"]),
        ({"oldText": "x", "range": "all"}, ["startLine", "endLine", "oldText", "range"]),
        ({"startLine": 1}, ["startLine", "endLine"]),
        ({"startLine": 0, "endLine": 1}, ["startLine"]),
    ],
)
def test_an_error_of_fields_together_names_each_of_them(given: dict[str, Any], fields: list[str]) -> None:
    arguments = {"uri": "file:///a", "fileTag": "0", "newText": "", **given}
    with pytest.raises(Refusal) as caught:
        parse_arguments(c.COMMANDS["ds4.applyEdit"], [arguments])
    assert caught.value.data == {"fields": fields}
    assert all(field in caught.value.message for field in fields)


async def test_commands_answer_with_results_and_errors(connect: Any) -> None:
    client = await connect()
    status = await client.run("ds4.status")
    assert status["model"] is None
    assert status["session"] is None
    assert await client.run("ds4.status", {}) == status
    assert await client.run("ds4.compact", {}) == {"compacted": False, "reason": "nothing to compact"}
    with pytest.raises(ResponseError, match=r"-32602.*text") as caught:
        await client.run("ds4.prompt", {})
    assert caught.value.data["fields"] == ["text"]
    with pytest.raises(ResponseError, match=r"-32602.*ds4\.unheardOf"):
        await client.run("ds4.unheardOf")
    with pytest.raises(ResponseError, match="-32602"):
        await client.run("ds4.prompt", "hello")
    with pytest.raises(ResponseError) as caught:
        await client.run("ds4.prompt", {"text": "refuse busy"})
    assert (caught.value.code, caught.value.message) == (-32803, "Do this next.")
    assert caught.value.data == {"code": "busy", "detail": 1}
    with pytest.raises(ResponseError, match=r"-32603.*a defect"):
        await client.run("ds4.prompt", {"text": "crash"})
    assert (await client.run("ds4.prompt", {"text": "say ok"}))["text"] == "ok"


@pytest.mark.parametrize("how", ["request", "token"])
async def test_a_cancelled_prompt_still_answers_with_its_result(connect: Any, how: str) -> None:
    client = await connect(GUARDED)
    number, answer = client.send_command("ds4.prompt", {"text": "wait"}, token="t")
    await client.wait_for("ds4/event", lambda event: event.get("delta") == "waiting")
    if how == "request":
        client.cancel(number)
    else:
        client.notify("window/workDoneProgress/cancel", {"token": "t"})
    result = await asyncio.wait_for(answer, 20)
    assert result["stopReason"] == "cancelled"
    assert [value["kind"] for value in client.progress("t")][-1] == "end"
    client.cancel(number)
    client.notify("window/workDoneProgress/cancel", {"token": "t"})
    assert (await client.run("ds4.prompt", {"text": "say ok"}))["stopReason"] == "end"


async def test_a_cancel_sent_right_behind_the_request_cancels_it(connect: Any) -> None:
    client = await connect()
    number, answer = client.send_command("ds4.prompt", {"text": "wait"})
    client.cancel(number)
    assert (await asyncio.wait_for(answer, 20))["stopReason"] == "cancelled"


async def test_documents_of_the_scheme_are_served_where_announced(connect: Any) -> None:
    client = await connect({"workspace": {"textDocumentContent": {}}})
    assert client.server["capabilities"]["workspace"]["textDocumentContent"] == {"schemes": ["ds4"]}
    answer = await client.request("workspace/textDocumentContent", {"uri": "ds4:/session/s1"})
    assert answer == {"text": "transcript of ds4:/session/s1"}
    for uri in ("ds4:/session/missing", "file:///etc/passwd"):
        with pytest.raises(ResponseError, match="-32803") as caught:
            await client.request("workspace/textDocumentContent", {"uri": uri})
        assert caught.value.data["code"] == "notFound"
