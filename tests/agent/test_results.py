"""Every call that a client hears of gets exactly one result, in the turn it began in; the log's pairs stay whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from rig import call

from ds4_lsp.ports import Cancel, Segment
from ds4_lsp.protocol.errors import EngineDied, StorageFailed
from ds4_lsp.session.events import Event

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOOK = call("list", path=".")
OPEN = "<｜DSML｜tool_calls>\n"
UNCLOSED = LOOK[: LOOK.index("</｜DSML｜parameter>")]
JUNK = LOOK.replace('<｜DSML｜parameter name="path"', "junk")


def told(stage: Any, turn: int) -> list[tuple[str, bool, str]]:
    """(name, ok, text) of every result of that turn, after checking that each call had one, and none came late."""
    heard = [(kind, data) for number, kind, data in stage.listener.heard if number == turn]
    started = {data["callId"] for kind, data in heard if kind in ("tool.start", "tool.call")}
    results = [data for kind, data in heard if kind == "tool.result"]
    assert Counter(data["callId"] for data in results) == Counter(started)
    ends = [index for index, (kind, _) in enumerate(heard) if kind == "turn.end"]
    assert all(kind == "state" for kind, _ in heard[ends[0] + 1 :])
    return [(data["name"], data["ok"], data["text"]) for data in results]


def pairs_are_whole(stage: Any) -> None:
    calls = [one["callId"] for event in stage.events("assistant/message") for one in event.data["calls"]]
    assert calls == [event.data["callId"] for event in stage.events("tool/result")]


@pytest.mark.parametrize(
    "written", [UNCLOSED, JUNK, LOOK.replace("</｜DSML｜tool_calls>", "") + UNCLOSED.removeprefix(OPEN)]
)
async def test_a_call_that_could_not_be_read_ends_for_the_client_with_the_reason(stage: Any, written: str) -> None:
    stage.script(written, "Never mind.")
    result = await stage.prompt("look")
    assert result.stop_reason == "end"
    [text] = [text for _, ok, text in told(stage, result.turn) if not ok]
    assert "｜DSML｜" in text
    pairs_are_whole(stage)


@pytest.mark.parametrize("part", [0.3, 0.6, 1.0])
async def test_a_call_of_an_interrupted_reply_ends_for_the_client(stage: Any, part: float) -> None:
    both = LOOK.replace("</｜DSML｜tool_calls>", "") + LOOK.removeprefix(OPEN) + " "
    tokens = len(await stage.engine.tokenize([Segment(both, special=True)]))
    stage.script(both, delay=0.002)
    cancel = Cancel()
    stage.engine.at = ("decode", int(part * tokens) - 1, cancel.set)
    result = await stage.prompt("look", cancel)
    assert result.stop_reason == "cancelled"
    results = told(stage, result.turn)
    assert results
    assert {(ok, text) for _, ok, text in results} == {(False, "not executed: the user interrupted the turn")}
    pairs_are_whole(stage)


async def test_a_call_whose_reply_broke_off_ends_for_the_client(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hear = stage.listener.event

    def die_in_the_call(session_id: str, turn: int, kind: str, **data: Any) -> None:
        hear(session_id, turn, kind, **data)
        if kind == "tool.delta":
            raise EngineDied("The engine process ended.")

    monkeypatch.setattr(stage.listener, "event", die_in_the_call)
    stage.script(UNCLOSED)
    result = await stage.prompt("look")
    assert result.stop_reason == "error"
    [(_, ok, text)] = told(stage, result.turn)
    assert not ok
    assert text.startswith("not executed")
    pairs_are_whole(stage)


async def test_calls_that_the_log_could_not_take_end_for_the_client(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stage.runtime.session
    append = session.append

    def full(type: str, *arguments: Any, **more: Any) -> Event:
        if type == "tool/started":
            raise StorageFailed("disk full")
        return append(type, *arguments, **more)

    monkeypatch.setattr(session, "append", full)
    stage.script(LOOK)
    result = await stage.prompt("look")
    assert (result.stop_reason, result.error) == ("error", "disk full")
    assert [(ok, text) for _, ok, text in told(stage, result.turn)] == [(False, "not started: retry")]
    pairs_are_whole(stage)
