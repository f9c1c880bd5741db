from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsp_client import GUARDED, PLAIN

from ds4_lsp.protocol.events import DELTA_KINDS, EVENT_FIELDS, Event
from ds4_lsp.server.events import BREATH, INTERVAL, OUTSIDE_TURNS, EventBuffer, pause


@st.composite
def events(draw: Any) -> Event:
    kind = draw(st.sampled_from(["text", "thinking", "tool.delta", "state", "tool.call", "job"]))
    data: dict[str, Any] = {}
    if kind in DELTA_KINDS:
        data["delta"] = draw(st.text(min_size=1, max_size=3))
    if kind.startswith("tool"):
        data["callId"] = draw(st.sampled_from(["c1", "c2"]))
        data["parameter"] = draw(st.sampled_from(["a", "b"]))
    return Event(session_id=draw(st.sampled_from(["s", "t"])), turn=1, kind=kind, data=data)


def spelled_out(sent: list[Event]) -> list[tuple[Any, ...]]:
    """Deltas character by character, so that joined and single ones compare equal."""
    result = []
    for event in sent:
        rest = {key: value for key, value in event.data.items() if key != "delta"}
        for character in event.data.get("delta", [None]):
            result.append((event.session_id, event.turn, event.kind, rest, character))
    return result


@given(st.lists(st.lists(events(), max_size=10), max_size=5))
@settings(deadline=None)
def test_coalescing_loses_reorders_and_invents_nothing(batches: list[list[Event]]) -> None:
    armed: list[int] = []
    buffer = EventBuffer(lambda: armed.append(1))
    sent: list[Event] = []
    for batch in batches:
        armed.clear()
        for event in batch:
            buffer.add(event)
        assert len(armed) == (1 if batch else 0)
        taken = buffer.take()
        for one, two in pairwise(taken):
            assert one.kind not in DELTA_KINDS or spelled_out([one])[0][:4] != spelled_out([two])[0][:4]
        sent += taken
    assert spelled_out(sent) == spelled_out([event for batch in batches for event in batch])


def test_what_comes_after_a_silence_hardly_waits_and_the_rest_keeps_the_interval() -> None:
    assert pause(sent=0.0, now=100.0) == BREATH
    assert pause(sent=100.0, now=100.0) == pytest.approx(INTERVAL)
    assert pause(sent=100.0, now=100.01) == pytest.approx(INTERVAL - 0.01)
    assert pause(sent=100.0, now=100.0 + INTERVAL) == BREATH


def test_nothing_of_a_turn_follows_its_end() -> None:
    buffer = EventBuffer(lambda: None)
    buffer.add(Event(session_id="s", turn=1, kind="turn.end"))
    for kind in EVENT_FIELDS:
        buffer.add(Event(session_id="s", turn=1, kind=kind, data={"delta": "x"}))
    buffer.add(Event(session_id="s", turn=2, kind="text", data={"delta": "y"}))
    buffer.add(Event(session_id="t", turn=1, kind="text", data={"delta": "z"}))
    sent = buffer.take()
    assert [(event.turn, event.kind) for event in sent[:1]] == [(1, "turn.end")]
    assert {event.kind for event in sent if event.turn == 0} == OUTSIDE_TURNS
    assert [(event.session_id, event.data["delta"]) for event in sent[-2:]] == [("s", "y"), ("t", "z")]
    assert all(event.turn == 0 for event in sent[1:-2])


def test_many_small_deltas_cost_no_more_than_their_length() -> None:
    buffer = EventBuffer(lambda: None)
    for _ in range(200_000):
        buffer.add(Event(session_id="s", turn=1, kind="text", data={"delta": "ab"}))
    [event] = buffer.take()
    assert event.data["delta"] == "ab" * 200_000


async def test_a_turn_is_told_in_order_and_in_few_messages(connect: Any) -> None:
    client = await connect(GUARDED)
    result = await client.run("ds4.prompt", {"text": "flood 2000"})
    told = client.events()
    turn = [event for event in told if event["turn"] == result["turn"]]
    assert turn[0]["kind"] == "turn.start"
    assert turn[-1] == {"sessionId": "s1", "turn": 1, "kind": "turn.end", "stopReason": "end"}
    deltas = [event["delta"] for event in turn if event["kind"] == "text"]
    assert "".join(deltas) == "".join(f"{number} " for number in range(2000))
    assert len(deltas) < 200
    # Everything of the turn precedes its reply.
    last = [message.get("id") or message["method"] for message in client.received]
    assert "ds4/event" not in last[last.index(1 + 1) :]


async def test_late_events_are_not_told_as_the_turns(connect: Any) -> None:
    client = await connect(GUARDED)
    await client.run("ds4.prompt", {"text": "late"})
    await client.wait(lambda: client.events("notice"))
    kinds = [event["kind"] for event in client.events()]
    of = {"sessionId": "s1", "turn": 0}
    assert client.events()[kinds.index("turn.end") + 1 :] == [
        of | {"kind": "state", "state": "idle"},
        of | {"kind": "notice", "text": "that was late"},
    ]


async def test_a_client_without_events_gets_none_and_is_shown_the_answer_of_a_prompt_it_does_not_wait_for(
    connect: Any,
) -> None:
    client = await connect(PLAIN)
    assert await client.run("ds4.prompt", {"text": "say hello", "wait": False}) == {
        "sessionId": "s1",
        "turn": 1,
        "queued": False,
        "text": "",
        "toolCalls": [],
    }
    assert (await client.wait_for("window/showMessage"))["message"] == "hello"
    await client.run("ds4.prompt", {"text": "say again"})
    assert client.events() == []
    assert len(client.notifications("window/showMessage")) == 1
    assert client.notifications("experimental/serverStatus") == []


async def test_the_servers_status_is_told_once_per_change(connect: Any) -> None:
    client = await connect(GUARDED)
    await client.run("ds4.prompt", {"text": "late"})
    await client.wait(lambda: client.events("notice"))
    assert client.notifications("experimental/serverStatus") == [{"health": "ok", "quiescent": True}]
    await client.run("ds4.prompt", {"text": "stuck"})
    await client.wait(lambda: len(client.notifications("experimental/serverStatus")) == 2)
