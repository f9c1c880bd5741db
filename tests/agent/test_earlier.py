"""What a reopened log says of jobs, of edits that were undone, and of what the model was not told yet."""

from __future__ import annotations

from typing import Any

import pytest

from ds4_lsp.agent.earlier import Earlier
from ds4_lsp.protocol.errors import CorruptSession
from ds4_lsp.session.events import APPEND, Event

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
        earlier.apply(Event(seq, type, 1.0, data, APPEND if type == "user/message" else None))
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
