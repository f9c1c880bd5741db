from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.session.events import APPEND
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.recovery import recovery
from ds4_lsp.session.session import Session
from ds4_lsp.session.state import LogState
from ds4_lsp.session.verify import verify


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_a_lawful_log_has_no_problem_and_the_repairs_are_those_that_opening_makes(
    data: st.DataObject, lawful: Any
) -> None:
    with lawful.played(data.draw(lawful.actions)) as directory:
        before = _files(directory)
        report = verify(directory)
        assert _files(directory) == before
        assert report.problems == []
        state = LogState()
        for event in read_file(directory):
            state.apply(event)
        appended = [line for line in report.repairs if line.startswith("append")]
        assert len(appended) == len(recovery(state))
        session = Session.open(directory)
        assert len(session.recovered) == len(appended)
        session.close()
        assert verify(directory).repairs == []


def test_every_broken_rule_is_named(session: Session) -> None:
    log = session.log
    result = {"turn": 1, "callId": "c9", "name": "read", "ok": True, "text": "x"}
    log.append("tool/result", result, surface_op=APPEND)
    log.append("turn/end", {"turn": 1})
    log.append("turn/start", {"turn": 1, "queued": 1})
    log.append("turn/start", {"turn": 2})
    log.append("compact/end", {"turn": 2})
    log.append("compact/start", {"turn": 2})
    log.append("compact/start", {"turn": 2})
    log.append("job/ended", {"job": 4, "state": "exited"})
    call = {"callId": "c1", "name": "read", "arguments": {}}
    for _ in range(2):
        log.append("assistant/message", {"turn": 2, "text": "", "tokens": [], "calls": [call]}, surface_op=APPEND)
    log.append("edit/applied", {"turn": 2, "beforeBlob": "0" * 64, "afterBlob": None})
    session.directory.chmod(0o755)
    problems = verify(session.directory).problems
    assert [problem.split(":")[0] for problem in problems[:8]] == [f"event {n}" for n in (1, 2, 3, 4, 5, 7, 8, 10)]
    assert "event 11" in problems[8]
    assert "chmod" in problems[9]
    assert len(problems) == 10


def test_damage_a_torn_end_and_a_wrong_place_are_reported(session: Session) -> None:
    path = session.log.path
    session.append("turn/start", {"turn": 1})
    good = path.read_bytes()
    path.write_bytes(good + b'{"seq"')
    assert any("torn" in repair for repair in verify(session.directory).repairs)
    path.write_bytes(good[:-1])
    assert any("line feed" in repair for repair in verify(session.directory).repairs)
    path.write_bytes(good.replace(b"turn/start", b"turn/stare"))
    assert "line 2 is damaged" in verify(session.directory).problems[0]
    path.write_bytes(good)
    moved = session.directory.rename(session.directory.with_name("f" * 16))
    assert "its directory is named" in verify(moved).problems[0]
    assert not verify(session.directory).ok
