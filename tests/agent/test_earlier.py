"""What a reopened log says of jobs, undone edits, and what the model was not told yet; and what reading it costs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.agent.earlier import Earlier
from ds4_lsp.protocol.errors import CorruptSession
from ds4_lsp.session.events import APPEND, MESSAGE_TYPES, Event
from ds4_lsp.session.store import SessionStore

STARTED = ("job/started", {"job": 1, "pid": 5, "command": "serve", "callId": "c1"})
LOST = ("job/ended", {"job": 1, "state": "lost", "exitStatus": None})
ELSEWHERE = ("job/ended", {"job": 1, "state": "elsewhere", "exitStatus": None, "session": "abc"})
EXITED = ("job/ended", {"job": 1, "state": "exited", "exitStatus": 0})
UNDONE = ("edit/applied", {"turn": 2, "path": "/w/a.py", "undoes": 1})
TOLD = ("user/message", {"turn": 2, "kind": "notice", "text": "…"})
PROMPT = ("user/message", {"turn": 2, "kind": "prompt", "text": "…"})


def after(*events: tuple[str, dict[str, Any]]) -> Earlier:
    earlier = Earlier()
    for seq, (type, data) in enumerate(events):
        earlier.apply(Event(seq, type, 1.0, data, APPEND if type in MESSAGE_TYPES else None))
    return earlier


def test_the_model_hears_of_lost_jobs_and_undone_edits_until_it_was_told() -> None:
    lost = "The server was restarted: these jobs are lost. job 1: serve"
    undone = "The user undid your edits of turn 1 in a.py. Read again before you edit."
    assert after(STARTED, LOST).untold.notices() == [lost]
    assert after(STARTED, UNDONE, LOST, UNDONE).untold.notices() == [undone, lost]
    assert after(STARTED, LOST, UNDONE, TOLD).untold.notices() == []
    assert after(STARTED, LOST, TOLD, UNDONE).untold.notices() == [undone]
    # A prompt whose turn could not even begin told nothing.
    assert after(STARTED, LOST, PROMPT).untold.notices() == [lost]
    assert after(STARTED, EXITED).untold.notices() == []


def test_of_a_job_that_another_session_has_the_model_hears_where_it_is() -> None:
    earlier = after(STARTED, ELSEWHERE)
    [notice] = earlier.untold.notices()
    assert "copy of abc" in notice
    assert "lost" not in notice
    assert [(job.job, job.state) for job in earlier.jobs] == [(1, "elsewhere")]


def _times(*events: tuple[float, str, dict[str, Any]]) -> dict[int, float]:
    earlier = Earlier()
    for seq, (time, type, data) in enumerate(events):
        earlier.apply(Event(seq, type, time, data, None))
    return {job.job: job.elapsed for job in earlier.jobs}


def test_how_long_a_job_ran_is_known_after_a_restart() -> None:
    begun = ("job/started", {"job": 1, "pid": 5, "command": "serve", "callId": "c1"})
    another = ("job/started", {"job": 2, "pid": 6, "command": "watch", "callId": "c2"})
    lost = [("job/ended", {"job": job, "state": "lost", "exitStatus": None}) for job in (1, 2)]
    assert _times((10.0, *begun), (12.5, *EXITED)) == {1: 2.5}
    # The clock was set back.
    assert _times((10.0, *begun), (8.0, *EXITED)) == {1: 0.0}
    # At 99 the session was opened again.
    closed = ("compact/end", {"turn": 1, "error": "orphaned"})
    told = (14.0, "turn/end", {"turn": 1})
    last = [(99.0, *closed), (99.0, *lost[0]), (99.5, *lost[1]), (99.5, "turn/end", {"turn": 1})]
    assert _times((10.0, *begun), (11.0, *another), told, *last) == {1: 4.0, 2: 3.0}


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("tool/result", {"shown": [{"uri": "file:///a"}]}),
        ("tool/result", {"shown": [{"uri": "a", "fileTag": "1", "ranges": [[1]]}]}),
        ("tool/result", {"shown": [{"uri": ["a"], "fileTag": "1", "ranges": []}]}),
        ("tool/result", {"shown": 7}),
        ("user/message", {"context": ["a"]}),
        ("job/started", {"job": "one", "command": "x"}),
        ("job/started", {"job": {}, "command": "x"}),
        ("edit/applied", {"undoes": 1}),
    ],
)
def test_an_event_of_another_shape_is_a_corrupt_session_and_no_crash(type: str, data: dict[str, Any]) -> None:
    with pytest.raises(CorruptSession) as refused:
        after(STARTED, (type, data))
    assert refused.value.data["seq"] == 1


def _session(base: Path, turns: int) -> tuple[SessionStore, int]:
    """A session of that many turns with tools, closed in order; and how many events it has."""
    store = SessionStore(base, [base])
    session = store.create()
    for turn in range(1, turns + 1):
        session.append("turn/start", {"turn": turn})
        session.append("user/message", {"turn": turn, "text": "go on", "kind": "prompt"}, surface_op=APPEND)
        call = {"callId": session.next_call_id(), "name": "read", "arguments": {}}
        reply = {"turn": turn, "text": "x", "tokens": [1, 2], "tokenizer": "t", "thinking": False, "stop": "tool"}
        session.append("assistant/message", {**reply, "calls": [call]}, surface_op=APPEND)
        shown = {"uri": f"file:///{turn % 7}", "path": "a", "fileTag": "1", "ranges": [[1, 9]]}
        result = {"turn": turn, "callId": call["callId"], "name": "read", "ok": True, "text": "…", "shown": [shown]}
        session.append("tool/result", result, surface_op=APPEND)
        session.append("turn/end", {"turn": turn, "stopReason": "end"})
    session.close()
    return store, session.next_seq


def _calls_of_a_resume(store: SessionStore) -> Counter[str]:
    """Python calls, by name, of finding the last session and opening it with all that is wanted of its log."""
    counted: Counter[str] = Counter()

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            counted[frame.f_code.co_name] += 1

    sys.setprofile(profile)
    try:
        latest = store.latest()
        assert latest is not None
        session = store.open(latest, Earlier().apply)
    finally:
        sys.setprofile(None)
    session.close()
    return counted


def test_a_resume_reads_the_log_once_and_a_second_time_where_its_cache_is_stale(tmp_path: Path) -> None:
    store, events = _session(tmp_path, 20)
    assert _calls_of_a_resume(store)["decode_checked"] == events
    next(store.directory.glob("*/meta.json")).unlink()
    assert _calls_of_a_resume(store)["decode_checked"] == 2 * events


def test_a_resume_costs_calls_in_proportion_to_events(tmp_path: Path) -> None:
    def calls(turns: int) -> int:
        (tmp_path / str(turns)).mkdir()
        return _calls_of_a_resume(_session(tmp_path / str(turns), turns)[0]).total()

    assert calls(400) < 4.2 * calls(100)
