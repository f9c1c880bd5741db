from __future__ import annotations

import ctypes
import json
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.engine import snapshot
from ds4_lsp.session.events import APPEND, Event, encode, replace
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.recovery import recovery
from ds4_lsp.session.session import Session
from ds4_lsp.session.snapshots import Held, name_for
from ds4_lsp.session.state import LogState
from ds4_lsp.session.verify import verify

Members = dict[str, Any]
Damage = Callable[[list[Members]], None]

EDITED = {"uri": "file:///a", "path": "/a", "beforeTag": "1", "afterTag": "2", "saved": True, "created": False}


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.fixture
def full(session: Session) -> Session:
    """A session in which everything happened that can happen, all of it in order."""
    blob = session.blobs.put
    shown = {"uri": "file:///a", "path": "a", "fileTag": "1", "ranges": [[1, 2]], "blob": blob("seen")}
    queued = session.append("prompt/queued", {"text": "do it", "context": [{"uri": "file:///a"}]})
    session.append("turn/start", {"turn": 1, "queued": queued.seq})
    session.append("request/header", {"system": "You are", "tools": ["bash", "edit"], "model": "m"})
    session.append("model/loaded", {"name": "m", "path": "/m.gguf", "fingerprint": "f"})
    context = [{"uri": "file:///a", "text": "", "shown": [shown]}]
    prompt = {"turn": 1, "text": "do it", "kind": "prompt", "context": context}
    nodes = [session.append("user/message", prompt, surface_op=APPEND).seq]
    calls = [{"callId": session.next_call_id(), "name": name, "arguments": {}} for name in ("bash", "edit")]
    reply = {"turn": 1, "text": "", "tokens": [1, 2], "tokenizer": "t", "thinking": False}
    nodes.append(session.append("assistant/message", {**reply, "calls": calls, "stop": "tool"}, surface_op=APPEND).seq)
    session.append("tool/started", {"turn": 1, "callId": "c1", "name": "bash"})
    session.append("permission/asked", {"turn": 1, "kind": "bash", "detail": "ls", "callId": "c1"})
    session.append("permission/decided", {"turn": 1, "kind": "bash", "answer": "once", "callId": "c1"})
    session.append("job/started", {"turn": 1, "job": 1, "pid": 7, "command": "ls", "callId": "c1"})
    result = {"turn": 1, "callId": "c1", "name": "bash", "ok": True, "text": "long", "shown": [shown]}
    original = session.append("tool/result", result, surface_op=APPEND).seq
    session.append("tool/started", {"turn": 1, "callId": "c2", "name": "edit"})
    session.append("permission/decided", {"turn": 1, "kind": "write", "answer": "allow", "callId": "c2"})
    blobs = {"beforeBlob": blob("old"), "afterBlob": blob("new")}
    session.append("edit/applied", {"turn": 1, "callId": "c2", **EDITED, **blobs})
    ended = {"turn": 1, "callId": "c2", "name": "edit", "ok": True, "text": "done"}
    last = session.append("tool/result", ended, surface_op=APPEND).seq
    session.append("job/ended", {"turn": 1, "job": 1, "callId": "c1", "state": "exited", "exitStatus": 0})
    short = session.append("tool/result", {**result, "text": "l"}, surface_op=replace(2, 2), sources=[original]).seq
    nodes += [short, last]
    start = session.append("compact/start", {"trigger": "soft", "turn": 1, "bottom": 90}).seq
    summary = session.append(
        "compact/summary",
        {"turn": 1, "summary": "s", "shadowedSeqs": nodes, "shadowedRange": {"start": 0, "end": 3}},
    ).seq
    checkpoint = {"turn": 1, "text": "s", "kind": "checkpoint", "parts": {"summary": "s"}}
    session.append("user/message", checkpoint, surface_op=replace(0, 3), sources=[start, summary, *nodes])
    session.append("compact/end", {"turn": 1, "contextTokens": 30}, sources=[start])
    session.append("assistant/message", {**reply, "calls": [], "stop": "end"}, surface_op=APPEND)
    session.append("turn/end", {"turn": 1, "stopReason": "end", "contextTokens": 40})
    dropped = session.append("prompt/queued", {"text": "more", "context": []})
    session.append("prompt/dropped", {"queued": dropped.seq, "reason": "cancelled"})
    session.append("session/title", {"title": "x"})
    session.append("session/retokenised", {"tokenizer": "u", "replies": 2}, ignorable=True)
    session.append("future/kind", {}, ignorable=True)
    session.close()
    return session


def damaged(session: Session, damage: Damage) -> list[str]:
    """The problems that are found when the log had been written otherwise."""
    events = [json.loads(line) for line in session.log.path.read_bytes().splitlines()]
    damage(events)
    lines = [
        Event(
            seq,
            members["type"],
            members["time"],
            members["data"],
            members.get("surfaceOp"),
            tuple(members.get("sourceEventSeqs", ())),
            members.get("ignorable", False),
        )
        for seq, members in enumerate(events)
    ]
    session.log.path.write_bytes(b"".join(map(encode, lines)))
    return verify(session.directory).problems


def _nth(events: list[Members], kind: str, number: int) -> Members:
    return [members for members in events if members["type"] == kind][number]


def change(kind: str, number: int = 0, /, **data: Any) -> Damage:
    return lambda events: _nth(events, kind, number)["data"].update(data)


def lacks(kind: str, name: str) -> Damage:
    return lambda events: _nth(events, kind, 0)["data"].pop(name) and None


def cites(kind: str, number: int, sources: Callable[[list[int]], list[int]]) -> Damage:
    def act(events: list[Members]) -> None:
        members = _nth(events, kind, number)
        members["sourceEventSeqs"] = sources(members["sourceEventSeqs"])

    return act


def gone(kind: str, number: int = 0) -> Damage:
    """Something that changes nothing stands in its place, so that every other event keeps its seq."""

    def act(events: list[Members]) -> None:
        members = _nth(events, kind, number)
        time = members["time"]
        members.clear()
        members.update({"type": "future/kind", "time": time, "data": {}, "ignorable": True})

    return act


def more(kind: str, data: Members, **members: Any) -> Damage:
    return lambda events: events.append({"type": kind, "time": 1.0, "data": data, **members})


def again(kind: str, number: int = 0) -> Damage:
    """The event a second time, at the end."""
    return lambda events: events.append(dict(_nth(events, kind, number)))


def both(*damages: Damage) -> Damage:
    def act(events: list[Members]) -> None:
        for damage in damages:
            damage(events)

    return act


NEXT = more("turn/start", {"turn": 2})
ORPHANED = both(
    more("compact/start", {"turn": 1, "trigger": "soft", "bottom": 1}), more("compact/end", {"turn": 1, "error": "x"})
)
CHECKPOINT = {"turn": 1, "text": "s", "kind": "checkpoint"}
NOTICE = {"turn": 1, "text": "n", "kind": "notice"}
REPLY = {"turn": 2, "text": "", "tokens": [], "tokenizer": "t", "thinking": False, "stop": "tool"}
CALL = {"callId": "c3", "name": "read", "arguments": {}}
ASKING = more("assistant/message", {**REPLY, "calls": [CALL]}, surfaceOp=APPEND)
RUNS = more("tool/started", {"turn": 2, "callId": "c3", "name": "read"})


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        # turns
        (gone("turn/start"), "turn 1 ends and had not started"),
        (gone("turn/start"), "user/message of turn 1 is outside that turn"),
        (change("turn/start", turn=2), "turn 2 starts, and the one before it was 0"),
        (change("turn/end", turn=7), "turn 7 ends while turn 1 is open"),
        (both(NEXT, more("turn/start", {"turn": 3})), "turn 3 starts before turn 2 has ended"),
        (again("turn/start"), "turn 1 starts, and the one before it was 1"),
        (again("turn/end"), "turn 1 ends and had not started"),
        (change("tool/started", turn=5), "tool/started is of turn 5, which has not started"),
        (change("assistant/message", 1, turn=0), "assistant/message of turn 0 is outside that turn"),
        (more("user/message", NOTICE, surfaceOp=APPEND), "user/message of turn 1 is outside that turn"),
        # the queue
        (change("turn/start", queued=0), "turn 1 takes prompt 0, which is not queued"),
        (gone("prompt/queued", 1), "is dropped, and is not queued"),
        (again("prompt/dropped"), "is dropped, and is not queued"),
        (more("prompt/queued", {"text": "x", "context": [], "requeued": 1}), "prompt 1 is queued again"),
        # calls and results
        (both(NEXT, ASKING, more("turn/end", {"turn": 2, "stopReason": "end"})), "turn 2 ends before call 'c3' has"),
        (both(NEXT, ASKING, RUNS, RUNS), "call 'c3' starts twice"),
        (again("tool/result"), "result for call 'c1', which is not waiting for one"),
        (change("tool/result", callId="c9"), "result for call 'c9', which is not waiting for one"),
        (change("tool/result", name="read"), "call 'c1' is of bash, its result of read"),
        (change("tool/started", callId="c9"), "call 'c9' starts, and is not waiting for a result"),
        (change("tool/started", 1, callId="c1"), "call 'c1' starts, and is not waiting for a result"),
        (change("tool/started", name="read"), "call 'c1' is of bash, and read starts"),
        (change("assistant/message", 1, calls=[{**CALL, "callId": "c2"}]), "call id 'c2' was used before"),
        (both(NEXT, more("assistant/message", {**REPLY, "calls": [CALL, CALL]}, surfaceOp=APPEND)), "'c3' was used"),
        (change("tool/result", 2, callId="c2"), "shortened result takes the place of something other"),
        (change("tool/result", 2, ok=False), "shortened result takes the place of something other"),
        # permissions
        (gone("permission/asked"), "bash is answered for call 'c1' and was not asked"),
        (change("permission/decided", 1, answer="once"), "write is answered for call 'c2' and was not asked"),
        (change("permission/decided", answer="perhaps"), "permission/decided has a garbled answer"),
        (change("permission/decided", callId="c2"), "permission/decided is of call 'c2', which is not running"),
        (gone("tool/started"), "permission/asked is of call 'c1', which is not running"),
        (
            both(*[more("permission/asked", {"kind": "bash", "detail": "", "callId": ""})] * 2),
            "bash is asked for call '' again before it was decided",
        ),
        # edits
        (change("edit/applied", beforeBlob="0" * 64), f"text {'0' * 64} is not stored"),
        (change("edit/applied", afterBlob="0" * 64), f"text {'0' * 64} is not stored"),
        (change("edit/applied", afterBlob="../../x"), "'../../x' is not the name of a stored text"),
        (change("edit/applied", beforeBlob=None), "an edit does not say what was there before it"),
        (change("edit/applied", undoes=3), "an edit undoes turn 3, which has not started"),
        (change("edit/applied", callId="c9"), "edit/applied is of call 'c9', which nobody made"),
        # jobs
        (gone("job/started"), "job 1 ends and had not started"),
        (again("job/started"), "job 1 starts twice"),
        (again("job/ended"), "job 1 ends and has ended before"),
        (change("job/started", callId="c9"), "job/started is of call 'c9', which nobody made"),
        # compaction
        (gone("compact/start"), "a summary belongs to no compaction"),
        (gone("compact/start"), "compaction ends and had not started"),
        (gone("compact/summary"), "a checkpoint belongs to no compaction with a summary"),
        (cites("user/message", 1, lambda old: old[1:]), "its checkpoint cites"),
        (cites("user/message", 1, lambda old: [*old, 0]), "its checkpoint cites"),
        (cites("user/message", 1, lambda old: old[:-1]), "and does not cite [15]"),
        (cites("tool/result", 2, lambda _old: []), "and does not cite [11]"),
        (cites("compact/end", 0, lambda _old: [3]), "cites [3]"),
        (change("compact/summary", shadowedSeqs=[5]), "its summary is of events [5], and it replaces"),
        (change("compact/summary", shadowedRange={"start": 1, "end": 3}), "its summary is of events 1 to 3"),
        (change("compact/end", error="cancelled"), "ends with an error, and its checkpoint is there"),
        (again("compact/end"), "compaction ends and had not started"),
        (both(ORPHANED, change("compact/end", 1, error=None)), "ends as done, and its checkpoint is missing"),
        (
            both(*[more("compact/start", {"turn": 1, "trigger": "soft", "bottom": 1})] * 2),
            "compaction starts before that of event",
        ),
        (more("user/message", CHECKPOINT, surfaceOp=APPEND), "a checkpoint, and no other user message"),
        (change("user/message", 1, kind="notice"), "a checkpoint, and no other user message"),
        # shapes
        (lacks("assistant/message", "tokens"), "assistant/message has a garbled tokens"),
        (lacks("turn/end", "stopReason"), "turn/end has a garbled stopReason"),
        (change("user/message", text=["x"]), "user/message has a garbled text"),
        (change("tool/result", shown=[{"uri": "x"}]), "tool/result has a garbled shown.0.path"),
        (change("model/loaded", fingerprint=None), "model/loaded has a garbled fingerprint"),
        (change("request/header", tools="all"), "request/header has a garbled tools"),
        (change("job/ended", state="asleep"), "job/ended has a garbled state"),
        (change("session/title", title=1), "session/title has a garbled title"),
        (change("session/header", sessionId=7), "lacks or garbles 'sessionId'"),
        (change("session/header", createdAt="now"), "lacks or garbles 'createdAt'"),
        (change("session/header", title=["x"]), "lacks or garbles 'title'"),
        (change("session/header", parent={"sessionId": "x"}), "lacks or garbles 'parent'"),
        (change("session/header", sessionId="f" * 16), "its directory is named"),
    ],
)
def test_a_broken_rule_is_named(full: Session, damage: Damage, problem: str) -> None:
    assert verify(full.directory).problems == []
    assert any(problem in found for found in damaged(full, damage)), verify(full.directory).problems


def test_a_session_in_which_everything_happened_has_neither_problem_nor_repair(full: Session) -> None:
    report = verify(full.directory)
    assert (report.problems, report.repairs) == ([], [])
    assert report.events == 29


def test_a_text_that_is_cited_and_damaged_or_missing_is_named_with_the_event_that_needs_it(full: Session) -> None:
    for path in full.blobs.directory.iterdir():
        whole = path.read_bytes()
        cited = next(event.seq for event in read_file(full.directory) if path.name in json.dumps(event.data))
        for content, why in ((b"other", "is damaged"), (None, "is not stored")):
            path.unlink()
            if content is not None:
                path.write_bytes(content)
                path.chmod(0o600)
            [problem] = verify(full.directory).problems
            assert problem.startswith(f"event {cited}: ")
            assert why in problem
        path.write_bytes(whole)
        path.chmod(0o600)
    assert verify(full.directory).ok


def test_whatever_others_may_read_is_named(full: Session) -> None:
    name = next(full.blobs.directory.iterdir())
    for path in (full.directory, full.log.path, full.directory / "meta.json", name):
        before = path.stat().st_mode
        path.chmod(before | 0o040)
        [problem] = verify(full.directory).problems
        assert problem.endswith(f"chmod go= {path}")
        path.chmod(before)
    assert verify(full.directory).ok


def _snapshot(directory: Path, name: str, tokens: list[int], fingerprint: str = "f") -> Path:
    path = directory / "kv" / name
    state = (ctypes.c_uint8 * 64)(*range(64))
    snapshot.write(path, snapshot.Snapshot(fingerprint, array("i", tokens), state, 64))
    return path


def _inspect(path: Path) -> Held | str:
    found = snapshot.inspect(path)
    return found if isinstance(found, str) else Held(*found)


def test_a_snapshot_that_does_not_hold_what_its_name_says_would_be_evaluated_anew(full: Session) -> None:
    good = name_for("f", [1, 2, 3])
    for name, tokens, fingerprint, why in (
        (good, [1, 2, 3], "f", None),
        (good, [1, 2], "f", "its name says 3 tokens, and it holds 2"),
        (good, [1, 2, 4], "f", "it holds other tokens than its name says"),
        (good, [1, 2, 3], "g", "it is of another model than its name says"),
    ):
        path = _snapshot(full.directory, name, tokens, fingerprint)
        report = verify(full.directory, _inspect)
        assert report.problems == []
        expected = [] if why is None else [f"evaluate anew what the KV snapshot {name} should hold: {why}"]
        assert report.repairs == expected
        path.unlink()
    path = _snapshot(full.directory, good, [1, 2, 3])
    whole = path.read_bytes()
    flipped = bytes([*whole[:-1], whole[-1] ^ 1])
    for content, why in ((whole[:-1], "truncated"), (flipped, "checksum"), (b"", "no snapshot"), (whole[:20], "read")):
        path.write_bytes(content)
        [repair] = verify(full.directory, _inspect).repairs
        assert why in repair


@pytest.mark.parametrize("name", ["title", "turns", "tokens", "compactions", "created_at", "updated_at", "workspace"])
def test_a_cache_that_says_other_than_the_log_would_be_written_anew(full: Session, name: str) -> None:
    path = full.directory / "meta.json"
    members = json.loads(path.read_text())
    wrong = ["/else"] if name == "workspace" else "x" * 2 if name == "title" else members[name] + 1
    path.write_text(json.dumps({**members, name: wrong}))
    report = verify(full.directory)
    assert report.problems == []
    assert report.repairs == ["write meta.json anew, as the log has it"]


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
        after = verify(directory)
        assert (after.problems, after.repairs) == ([], [])


def test_damage_a_torn_end_and_a_wrong_place_are_reported(session: Session) -> None:
    path = session.log.path
    session.append("turn/start", {"turn": 1})
    # While it is open, an end that looks torn may be being written.
    session._lock.release()
    good = path.read_bytes()
    path.write_bytes(good + b'{"seq"')
    assert any("torn" in repair for repair in verify(session.directory).repairs)
    for ending in (b"", b"\x00", b"\x0b"):
        path.write_bytes(good[:-1] + ending)
        report = verify(session.directory)
        assert report.problems == []
        assert any("line feed" in repair for repair in report.repairs)
        assert not any("torn" in repair for repair in report.repairs)
    path.write_bytes(good.replace(b"turn/start", b"turn/stare"))
    assert "line 2 is damaged" in verify(session.directory).problems[0]
    path.write_bytes(good)
    moved = session.directory.rename(session.directory.with_name("f" * 16))
    assert "its directory is named" in verify(moved).problems[0]
    assert not verify(session.directory).ok
