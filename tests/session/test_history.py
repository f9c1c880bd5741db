from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.protocol.errors import StorageFailed
from ds4_lsp.session import history
from ds4_lsp.session.events import APPEND, replace
from ds4_lsp.session.session import Session


def _clean(text: str, thinking: bool) -> str:
    return text.split("</think>", 1)[-1] if thinking else text


def _turn(session: Session, text: str) -> None:
    turn = session.next_turn()
    session.append("turn/start", {"turn": turn})
    session.append("user/message", {"turn": turn, "text": text, "kind": "prompt"}, surface_op=APPEND)
    call = {"callId": session.next_call_id(), "name": "read", "arguments": {"path": "a.py"}}
    reply = {"turn": turn, "round": 1, "tokens": [1], "tokenizer": "t", "stop": "tool", "calls": [call]}
    session.append("assistant/message", {**reply, "thinking": True, "text": "secret</think>looking"}, surface_op=APPEND)
    result = {"turn": turn, "callId": call["callId"], "name": "read", "ok": True, "text": "```\nfile\n```"}
    session.append("tool/result", result, surface_op=APPEND)
    session.append("turn/end", {"turn": turn, "stopReason": "end"})


def _compact(session: Session, end: int) -> tuple[int, int]:
    shadowed = session.surface.seqs[: end + 1]
    start = session.append("compact/start", {"trigger": "manual", "turn": 1, "bottom": 1})
    summary = session.append("compact/summary", {"summary": "SUM", "shadowedSeqs": shadowed})
    message = session.append(
        "user/message",
        {"turn": 1, "text": "frame SUM", "kind": "checkpoint", "parts": {"task": "TASK", "summary": "SUM"}},
        surface_op=replace(0, end),
        sources=[start.seq, summary.seq, *shadowed],
    )
    session.append("compact/end", {"turn": 1})
    return summary.seq, message.seq


def test_the_last_turns_are_shown_as_the_user_saw_them(session: Session) -> None:
    for text in ("one", "two", "three"):
        _turn(session, text)
    shown = history.entries(session.events(), clean=_clean, turns=2)
    assert [(entry.role, entry.text) for entry in shown] == [
        ("user", "two"),
        ("assistant", "looking"),
        ("tool", "```\nfile\n```"),
        ("user", "three"),
        ("assistant", "looking"),
        ("tool", "```\nfile\n```"),
    ]
    assert shown[1].model_dump()["calls"][0]["name"] == "read"
    assert history.entries(session.events(), clean=_clean, turns=0) == []
    assert len(history.entries(session.events(), clean=_clean)) == 9


def test_compaction_and_pruning_take_nothing_from_what_the_user_saw(session: Session) -> None:
    _turn(session, "one")
    before = history.entries(session.events(), clean=_clean)
    node = session.surface[2]
    session.append("tool/result", {**node.data, "text": "cut"}, surface_op=replace(2, 2), sources=[node.seq])
    _compact(session, 2)
    after = history.entries(session.events(), clean=_clean)
    assert after[:-1] == before
    assert (after[-1].role, after[-1].text) == ("compaction", "SUM")


def test_a_turns_error_and_notices_are_shown(session: Session) -> None:
    session.append("turn/start", {"turn": 1})
    session.append("user/message", {"turn": 1, "text": "job lost", "kind": "notice"}, surface_op=APPEND)
    session.append("turn/end", {"turn": 1, "stopReason": "error", "error": "engine died"})
    shown = history.entries(session.events(), clean=_clean)
    assert [(entry.role, entry.text) for entry in shown] == [("notice", "job lost"), ("notice", "engine died")]


@settings(deadline=None, max_examples=25)
@given(data=st.data(), turns=st.integers(0, 4))
def test_the_last_turns_are_the_end_of_all_of_them(data: st.DataObject, turns: int, lawful: Any) -> None:
    with lawful.played(data.draw(lawful.actions)) as directory:
        session = Session.open(directory)
        everything = history.entries(session.events(), clean=_clean)
        last = history.entries(session.events(), clean=_clean, turns=turns)
        numbers = list(dict.fromkeys(history.turn_of(entry) for entry in everything))
        wanted = set(numbers[-turns:]) if turns else set()
        assert last == [entry for entry in everything if history.turn_of(entry) in wanted]
        assert history.export_markdown(session.events(), clean=_clean).endswith("\n")
        session.close()


def test_a_markdown_export_cannot_be_broken_by_what_it_holds(session: Session) -> None:
    _turn(session, "hello")
    text = history.export_markdown(session.events(), clean=_clean)
    assert "## Turn 1\n" in text
    assert "secret" not in text
    assert "````\n```\nfile\n```\n````" in text
    assert history.fenced("") == "```\n```"


def test_a_jsonl_export_holds_every_event(session: Session) -> None:
    _turn(session, "hello")
    lines = history.export_jsonl(session.events()).splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(session.next_seq))


def test_a_checkpoint_is_shown_beside_what_it_replaced(session: Session) -> None:
    _turn(session, "the first task")
    _turn(session, "the second")
    summary, message = _compact(session, 2)
    for seq in (summary, message):
        text = history.checkpoint_markdown(session.events(), seq, clean=_clean)
        assert text is not None
        assert "## Summary\n\nSUM" in text
        assert "the first task" in text
        assert "the second" not in text
    assert history.checkpoint_markdown(session.events(), 1, clean=_clean) is None
    assert history.checkpoint_markdown(session.events(), 999, clean=_clean) is None


def test_a_summary_that_was_not_committed_says_so(session: Session) -> None:
    _turn(session, "x")
    session.append("compact/start", {"trigger": "manual", "turn": 1, "bottom": 1})
    summary = session.append("compact/summary", {"summary": "SUM", "shadowedSeqs": []})
    session.append("compact/end", {"turn": 1, "error": "cancelled"})
    text = history.checkpoint_markdown(session.events(), summary.seq, clean=_clean)
    assert text is not None
    assert "not used" in text


def test_an_export_is_written_privately_or_refused(session: Session, tmp_path: Path) -> None:
    path = session.directory / "export.md"
    history.write_export(path, "text")
    assert path.read_text() == "text"
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(StorageFailed):
        history.write_export(tmp_path / "nowhere" / "x.md", ["a", "b"])
