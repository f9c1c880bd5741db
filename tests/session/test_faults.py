"""Sessions whose writer is a process of its own: killed, out of room, or still there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ds4_lsp.protocol.errors import SessionLocked
from ds4_lsp.session.events import APPEND
from ds4_lsp.session.store import SessionStore

WRITER = Path(__file__).with_name("writer.py")


def _writer(store: SessionStore, *arguments: str) -> subprocess.Popen[str]:
    verb, *rest = arguments
    places = [str(store.base), store.workspace[0]]
    order = [rest[0], *places] if verb == "kill" else [*places, *rest]
    command = [sys.executable, str(WRITER), verb, *order]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_sigkill_at_any_append_loses_nothing_acknowledged_and_pairs_every_call(store: SessionStore, when: str) -> None:
    with _writer(store, "kill", when) as writer:
        output, _ = writer.communicate(timeout=120)
    assert writer.returncode == 0
    deaths = [json.loads(line) for line in output.splitlines()]
    assert len(deaths) == 17
    for number, death in enumerate(deaths, 1):
        session = store.open(death["session"])
        events = list(session.events())
        written = len(events) - len(session.recovered)
        assert death["acknowledged"] == list(range(1, number))
        assert written == 1 + len(death["acknowledged"]) + (when == "after")
        calls = [call["callId"] for item in events if item.type == "assistant/message" for call in item.data["calls"]]
        results = [item.data["callId"] for item in events if item.type == "tool/result"]
        assert Counter(results) == Counter(calls)
        replaced = any(item.surface_op and item.surface_op["op"] == "replace" for item in events)
        assert (session.surface[0].data.get("kind") == "checkpoint" if len(session.surface) else False) == replaced
        prompts = [item.data["text"] for item in events if item.data.get("kind") == "prompt"]
        assert len(prompts) + len(session.queued()) == (1 if written > 1 else 0)
        # The next turn works.
        turn = session.next_turn()
        session.append("turn/start", {"turn": turn})
        session.append("user/message", {"turn": turn, "text": "on", "kind": "prompt"}, surface_op=APPEND)
        session.append("turn/end", {"turn": turn, "stopReason": "end"})
        session.close()
        assert store.open(death["session"]).close() is None


def test_a_full_disk_is_said_and_the_session_goes_on_once_there_is_room(store: SessionStore) -> None:
    with _writer(store, "full") as writer:
        output, _ = writer.communicate(timeout=60)
    report = json.loads(output)
    assert len(report["refused"]) == 3
    assert all("Free some space" in message for message in report["refused"])
    assert report["after"] == report["before"]
    assert (report["seq"], report["n"]) == (2, 2)
    session = store.open(report["session"])
    assert [event.data["text"][:1] for event in session.queued()] == ["s", "y"]
    assert not (session.directory / "events.jsonl.torn").exists()
    session.close()


def test_what_happened_without_room_to_say_so_is_written_before_anything_else_once_there_is(
    store: SessionStore,
) -> None:
    with _writer(store, "late") as writer:
        output, _ = writer.communicate(timeout=60)
    report = json.loads(output)
    assert report["edits"] == [None, None, None]
    assert report["owed"] == ["a", "b"]
    assert report["refused"] is True
    assert report["title"] == 3
    session = store.open(report["session"])
    assert [event.data.get("path") or event.type for event in session.events()] == [
        "session/header",
        "a",
        "b",
        "session/title",
        "c",
    ]
    assert session.owed == []
    session.close()


def test_a_second_process_is_told_who_holds_the_session_until_that_one_is_gone(store: SessionStore) -> None:
    session = store.create()
    identity = session.id
    session.append("user/message", {"turn": 1, "text": "a", "kind": "prompt"}, surface_op=APPEND)
    session.close()
    with _writer(store, "hold", identity) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "held\n"
        with pytest.raises(SessionLocked, match=f"process {writer.pid}") as refused:
            store.open(identity)
        assert refused.value.data["pid"] == writer.pid
        with pytest.raises(SessionLocked):
            store.delete(identity)
        fork = store.fork(identity)
        assert [event.data["text"] for event in fork.surface] == ["a"]
        fork.close()
        writer.kill()
        writer.wait()
    store.open(identity).close()
