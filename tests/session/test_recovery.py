from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.protocol.errors import CorruptSession, InvalidRequest
from ds4_lsp.session.events import APPEND, Event, replace
from ds4_lsp.session.recovery import FORKED, INTERRUPTED, NOT_STARTED, OUTCOME_UNKNOWN, recovery
from ds4_lsp.session.session import Session
from ds4_lsp.session.state import LogState
from ds4_lsp.session.store import SessionStore
from ds4_lsp.session.verify import verify


def _abandon(session: Session) -> None:
    """What a SIGKILL leaves: the file and nothing else."""
    session.log.close()
    session._lock.release()


def _reopened(session: Session) -> Session:
    _abandon(session)
    return Session.open(session.directory)


def _call(session: Session) -> str:
    call_id = session.next_call_id()
    calls = [{"callId": call_id, "name": "bash", "arguments": {}}]
    data = {"turn": 1, "round": 1, "text": "", "tokens": [], "tokenizer": "t", "thinking": False, "calls": calls}
    session.append("assistant/message", {**data, "stop": "tool"}, surface_op=APPEND)
    return call_id


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_after_reopening_nothing_is_open_and_each_call_has_exactly_one_result(data: st.DataObject, lawful: Any) -> None:
    with lawful.played(data.draw(lawful.actions)) as directory:
        session = Session.open(directory)
        state = session.state
        assert (state.turn, state.compaction, state.calls, state.jobs) == (None, None, {}, {})
        calls: list[str] = []
        results: Counter[str] = Counter()
        for event in session.events():
            if event.type == "assistant/message":
                calls += [call["callId"] for call in event.data["calls"]]
            elif event.type == "tool/result" and event.surface_op == APPEND:
                results[event.data["callId"]] += 1
        assert results == Counter(calls)
        assert len(set(calls)) == len(calls)
        session.close()


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_a_crash_during_recovery_leaves_only_the_rest_to_do(data: st.DataObject, lawful: Any) -> None:
    with lawful.played(data.draw(lawful.actions)) as directory:
        state = LogState()
        session = Session.open(directory)
        for event in session.events():
            if event in session.recovered:
                break
            state.apply(event)
        session.close()
        planned = recovery(state)
        seq = 10_000
        while planned:
            first = planned[0]
            state.apply(Event(seq, first.type, 1.0, first.data, first.surface_op))
            seq += 1
            assert [draft.data for draft in recovery(state)] == [draft.data for draft in planned[1:]]
            planned = planned[1:]


def test_a_call_that_had_not_started_is_to_be_retried_and_one_that_had_to_be_verified(session: Session) -> None:
    session.append("turn/start", {"turn": 1})
    waiting, running = _call(session), _call(session)
    session.append("tool/started", {"turn": 1, "callId": running, "name": "bash"})
    again = _reopened(session)
    texts = {event.data["callId"]: event.data["text"] for event in again.recovered if event.type == "tool/result"}
    assert texts == {waiting: NOT_STARTED, running: OUTCOME_UNKNOWN}
    assert again.recovered[-1].data["interrupted"] is True
    again.close()


def test_an_orphaned_compaction_changes_no_surface(session: Session) -> None:
    session.append("user/message", {"turn": 1, "text": "a", "kind": "prompt"}, surface_op=APPEND)
    session.append("compact/start", {"trigger": "soft", "turn": 1, "bottom": 5})
    again = _reopened(session)
    assert [(event.type, event.data) for event in again.recovered] == [
        ("compact/end", {"turn": 1, "error": "orphaned"})
    ]
    assert again.surface.seqs == [1]
    assert again.summary().compactions == 0
    again.close()


def test_a_compaction_whose_replacement_is_there_is_recovered(session: Session) -> None:
    session.append("user/message", {"turn": 1, "text": "a", "kind": "prompt"}, surface_op=APPEND)
    start = session.append("compact/start", {"trigger": "soft", "turn": 1, "bottom": 5})
    session.append(
        "user/message",
        {"turn": 1, "text": "c", "kind": "checkpoint"},
        surface_op=replace(0, 0),
        sources=[start.seq, 1],
    )
    again = _reopened(session)
    assert [event.data for event in again.recovered] == [{"turn": 1, "recovered": True}]
    assert again.surface.seqs == [3]
    assert again.summary().compactions == 1
    again.close()


def test_a_prune_during_a_compaction_does_not_commit_it(session: Session) -> None:
    call_id = _call(session)
    data = {"turn": 1, "callId": call_id, "name": "bash", "ok": True, "text": "long"}
    result = session.append("tool/result", data, surface_op=APPEND)
    session.append("compact/start", {"trigger": "soft", "turn": 1, "bottom": 5})
    session.append("tool/result", {**data, "text": "l"}, surface_op=replace(1, 1), sources=[result.seq])
    again = _reopened(session)
    assert again.recovered[0].data["error"] == "orphaned"
    again.close()


def test_running_jobs_are_lost(session: Session) -> None:
    for job in (1, 2):
        session.append("job/started", {"job": job, "pid": 5, "command": "sleep", "callId": "c1"})
    session.append("job/ended", {"job": 1, "state": "exited", "exitStatus": 0})
    again = _reopened(session)
    assert [event.data for event in again.recovered] == [{"job": 2, "state": "lost", "exitStatus": None}]
    again.close()


def test_what_a_fork_copied_under_way_goes_on_in_the_original_and_is_not_lost(store: SessionStore) -> None:
    original = store.create()
    original.append("turn/start", {"turn": 1})
    original.append("job/started", {"job": 1, "pid": 5, "command": "serve", "callId": "c1"})
    fork = store.fork(original.id)
    elsewhere = {"job": 1, "state": "elsewhere", "exitStatus": None, "session": original.id}
    assert [event.data for event in fork.events()][3:] == [
        elsewhere,
        {"turn": 1, "stopReason": "error", "error": FORKED, "interrupted": True},
    ]
    fork.append("turn/start", {"turn": 2})
    fork.append("job/started", {"job": 2, "pid": 6, "command": "watch", "callId": "c2"})
    again = _reopened(fork)
    lost = {"job": 2, "state": "lost", "exitStatus": None}
    assert [event.data for event in again.recovered[:1]] == [lost]
    assert again.recovered[-1].data["error"] == INTERRUPTED
    again.close()
    assert list(original.state.jobs) == [1], "the original knows nothing of it"
    assert original.state.turn is not None
    original.close()


def test_the_queue_survives_in_order_until_taken_or_dropped(session: Session) -> None:
    first, second, third = (session.append("prompt/queued", {"text": text, "context": []}) for text in ("a", "b", "c"))
    session.append("turn/start", {"turn": 1, "queued": first.seq})
    session.append("user/message", {"turn": 1, "text": "a", "kind": "prompt"}, surface_op=APPEND)
    session.append("prompt/dropped", {"queued": second.seq})
    again = _reopened(session)
    assert [event.seq for event in again.queued()] == [third.seq]
    again.close()


def test_a_prompt_taken_from_the_queue_and_never_sent_is_queued_again(session: Session) -> None:
    queued = session.append("prompt/queued", {"text": "do it", "context": [{"uri": "file:///a"}]})
    session.append("turn/start", {"turn": 1, "queued": queued.seq})
    again = _reopened(session)
    assert [event.data for event in again.queued()] == [
        {"text": "do it", "context": [{"uri": "file:///a"}], "requeued": queued.seq}
    ]
    once_more = _reopened(again)
    assert len(once_more.queued()) == 1
    once_more.close()


def test_a_second_result_for_a_call_is_refused_and_not_logged(session: Session) -> None:
    call_id = _call(session)
    data = {"turn": 1, "callId": call_id, "name": "bash", "ok": True, "text": "x"}
    session.append("tool/result", data, surface_op=APPEND)
    before = session.next_seq
    with pytest.raises(InvalidRequest, match="exactly one result"):
        session.append("tool/result", data, surface_op=APPEND)
    assert session.next_seq == before


@pytest.mark.parametrize("calls", [7, [7], ["c1"]])
def test_data_of_another_shape_than_its_type_has_is_corrupt_and_changes_nothing(session: Session, calls: Any) -> None:
    data = {"turn": 1, "text": "", "tokens": [], "calls": calls}
    event = session.log.append("assistant/message", data, surface_op=APPEND)
    content = session.log.path.read_bytes()
    _abandon(session)
    with pytest.raises(CorruptSession) as refused:
        Session.open(session.directory)
    assert refused.value.data["seq"] == event.seq
    assert session.log.path.read_bytes() == content
    assert "garbled" in verify(session.directory).problems[0]


def test_turns_and_call_ids_go_on_after_a_restart(store: SessionStore) -> None:
    session = store.create()
    assert session.next_turn() == session.next_turn() == 1
    session.append("turn/start", {"turn": 1})
    assert [_call(session), _call(session)] == ["c1", "c2"]
    assert session.next_turn() == 2
    again = _reopened(session)
    assert again.next_call_id() == "c3"
    assert again.next_turn() == 2
    again.close()
