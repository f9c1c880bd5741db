"""Random but lawful sessions, and places to keep them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ds4_lsp.session.events import APPEND, replace
from ds4_lsp.session.session import Session
from ds4_lsp.session.store import SessionStore

Action = tuple[str, int, str]

_KINDS = ("turn", "reply", "start", "result", "compact", "abandon", "prune", "note", "job", "queue", "title")
ACTIONS = st.lists(st.tuples(st.sampled_from(_KINDS), st.integers(0, 7), st.text(max_size=12)), max_size=30)


def play(session: Session, actions: Sequence[Action]) -> None:
    """Turn actions into events that a lawful writer could have logged."""
    for kind, number, text in actions:
        _PLAYERS[kind](session, number, text)


def _turn(session: Session, number: int, text: str) -> None:
    if session.state.turn is not None:
        while session.state.calls:
            _result(session, number, text)
        session.append("turn/end", {"turn": session.state.turn.turn, "stopReason": "end"})
        return
    turn = session.next_turn()
    queued = session.queued()
    taken = {"queued": queued[0].seq} if queued and number % 2 else {}
    session.append("turn/start", {"turn": turn, **taken})
    if number:
        session.append("user/message", {"turn": turn, "text": text, "kind": "prompt"}, surface_op=APPEND)


def _reply(session: Session, number: int, text: str) -> None:
    if session.state.turn is None:
        return
    calls = [{"callId": session.next_call_id(), "name": "read", "arguments": {"path": text}} for _ in range(number % 3)]
    data = {
        "turn": session.state.last_turn,
        "round": 1,
        "text": text,
        "tokens": list(range(number)),
        "tokenizer": "t",
        "thinking": False,
        "calls": calls,
        "stop": "tool" if calls else "end",
    }
    session.append("assistant/message", data, surface_op=APPEND)


def _start(session: Session, number: int, text: str) -> None:
    for call in [call for call in session.state.calls.values() if not call.started][:1]:
        session.append("tool/started", {"turn": call.turn, "callId": call.call_id, "name": call.name})


def _result(session: Session, number: int, text: str) -> None:
    for call in list(session.state.calls.values())[:1]:
        data = {"turn": call.turn, "callId": call.call_id, "name": call.name, "ok": True, "text": text * number}
        session.append("tool/result", data, surface_op=APPEND)


def _compact(session: Session, number: int, text: str, *, commit: bool = True) -> None:
    turn = session.state.last_turn
    if session.state.compaction is not None or not len(session.surface):
        return
    end = number % len(session.surface)
    start = number % (end + 1)
    shadowed = session.surface.seqs[start : end + 1]
    first = session.append("compact/start", {"trigger": "manual", "turn": turn, "bottom": 9})
    if not commit and number % 3 == 0:
        return
    second = session.append("compact/summary", {"summary": text, "shadowedSeqs": shadowed})
    if not commit and number % 3 == 1:
        return
    session.append(
        "user/message",
        {"turn": turn, "text": text, "kind": "checkpoint", "parts": {"summary": text}},
        surface_op=replace(start, end),
        sources=[first.seq, second.seq, *shadowed],
    )
    if commit:
        session.append("compact/end", {"turn": turn})


def _prune(session: Session, number: int, text: str) -> None:
    for position, node in enumerate(session.surface.events):
        if node.type == "tool/result":
            data = {**node.data, "text": node.data["text"][:2]}
            session.append("tool/result", data, surface_op=replace(position, position), sources=[node.seq])
            return


def _note(session: Session, number: int, text: str) -> None:
    if number % 2:
        session.append("future/kind", {"note": text}, ignorable=True)
    else:
        session.append("model/loaded", {"name": text, "path": text, "fingerprint": "f"})


def _job(session: Session, number: int, text: str) -> None:
    running = list(session.state.jobs)
    if running and number % 2:
        session.append("job/ended", {"job": running[number % len(running)], "state": "exited", "exitStatus": 0})
    else:
        # A seq is a number that no earlier job has.
        session.append("job/started", {"job": session.next_seq, "pid": 1, "command": text, "callId": ""})


_PLAYERS: dict[str, Callable[[Session, int, str], None]] = {
    "turn": _turn,
    "reply": _reply,
    "start": _start,
    "result": _result,
    "compact": _compact,
    "abandon": lambda session, number, text: _compact(session, number, text, commit=False),
    "prune": _prune,
    "note": _note,
    "job": _job,
    "queue": lambda session, number, text: session.append("prompt/queued", {"text": text, "context": []}) and None,
    "title": lambda session, number, text: session.append("session/title", {"title": text}) and None,
}


@contextmanager
def fresh_store() -> Iterator[SessionStore]:
    with tempfile.TemporaryDirectory() as directory:
        workspace = Path(directory) / "workspace"
        workspace.mkdir()
        yield SessionStore(Path(directory) / "state", [workspace])


@contextmanager
def played(actions: Sequence[Action]) -> Iterator[Path]:
    """The directory of a session in which that happened, whose writer then vanished: nothing was settled."""
    with fresh_store() as store:
        session = store.create()
        play(session, actions)
        session.log.close()
        session._lock.release()
        yield session.directory


@pytest.fixture(scope="session")
def lawful() -> Any:
    """``lawful.actions`` (a strategy), ``lawful.play``, ``lawful.played``, ``lawful.store``."""

    class Lawful:
        actions = ACTIONS

    Lawful.play = staticmethod(play)
    Lawful.played = staticmethod(played)
    Lawful.store = staticmethod(fresh_store)
    return Lawful


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return SessionStore(tmp_path / "state", [workspace])


@pytest.fixture
def session(store: SessionStore) -> Iterator[Session]:
    opened = store.create()
    yield opened
    opened.log.close()
    opened._lock.release()
