from __future__ import annotations

import argparse
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ds4_lsp.cli import sessions
from ds4_lsp.cli.sessions_units import age, size
from ds4_lsp.session.events import APPEND, encode
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.storage import replace_file
from ds4_lsp.session.store import SessionStore

OLD = 1_000_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    (tmp_path / "project").mkdir()
    return SessionStore(tmp_path / "state", [tmp_path / "project"])


def _say(store: SessionStore, text: str, *, reply: str = "answer") -> str:
    session = store.create()
    session.append("turn/start", {"turn": 1})
    session.append("user/message", {"turn": 1, "text": text, "kind": "prompt"}, surface_op=APPEND)
    said = {"turn": 1, "round": 1, "text": reply, "tokens": [], "tokenizer": "t", "thinking": False, "stop": "end"}
    call = {"callId": session.next_call_id(), "name": "read", "arguments": {"path": "a.py"}}
    session.append("assistant/message", {**said, "calls": [call]}, surface_op=APPEND)
    result = {"turn": 1, "callId": call["callId"], "name": "read", "ok": True, "text": "content"}
    session.append("tool/result", result, surface_op=APPEND)
    session.append("turn/end", {"turn": 1, "stopReason": "end"})
    session.close()
    return session.id


def _age(store: SessionStore, identity: str) -> None:
    """Make log and cache say that the session was last used long ago."""
    directory = store.directory / identity
    path = directory / "events.jsonl"
    aged = b"".join(encode(replace(event, time=OLD)) for event in read_file(directory))
    path.write_bytes(aged)
    _cache(store, identity, updated_at=OLD, size=len(aged))


def _cache(store: SessionStore, identity: str, **members: object) -> None:
    path = store.directory / identity / "meta.json"
    replace_file(path, json.dumps({**json.loads(path.read_text()), **members}).encode())


def _run(store: SessionStore, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    sessions.add_parser(parser.add_subparsers())
    return sessions.run(parser.parse_args(["sessions", "--directory", str(store.base), *arguments]))


def test_list_names_the_sessions_of_every_workspace(
    store: SessionStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.base.mkdir()
    assert _run(store, "list") == 0
    assert capsys.readouterr().out == "No sessions.\n"
    first = _say(store, "fix \x1b[31mit")
    second = _say(SessionStore(store.base, [tmp_path]), "other")
    assert _run(store, "list") == 0
    listed = capsys.readouterr().out
    assert first in listed
    assert second in listed
    assert "\x1b" not in listed
    assert f"{tmp_path / 'project'}\n" in listed
    assert _run(store, "--workspace", str(tmp_path), "list") == 0
    listed = capsys.readouterr().out
    assert first not in listed
    assert second in listed


def test_show_tells_what_was_said(store: SessionStore, capsys: pytest.CaptureFixture[str]) -> None:
    identity = _say(store, "a question\ud800", reply="said\x1b[2J")
    assert _run(store, "show", identity[:6]) == 0
    shown = capsys.readouterr().out
    for text in ("a question", "said", "read", "content", "\\ud800"):
        assert text in shown
    assert "\x1b" not in shown


def test_export_writes_to_stdout_or_a_file(
    store: SessionStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = _say(store, "a question")
    assert _run(store, "export", identity, "--format", "jsonl") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(6))
    target = tmp_path / "out.md"
    assert _run(store, "export", identity, "--output", str(target)) == 0
    assert "a question" in target.read_text()
    assert capsys.readouterr().out == ""
    assert _run(store, "export", identity, "--output", str(tmp_path / "no" / "out.md")) == 1


def test_a_session_that_is_not_there_or_not_unique_is_told(
    store: SessionStore, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = {_say(store, "x")[0] for _ in range(17)}
    assert _run(store, "show", "zz") == 1
    assert "ds4-lsp sessions list" in capsys.readouterr().err
    outcomes = {_run(store, "show", first) for first in ids}
    assert 1 in outcomes
    assert "Give more of the id" in capsys.readouterr().err


def test_verify_says_what_it_would_repair_and_fails_for_a_broken_session(
    store: SessionStore, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = _say(store, "x")
    log = store.directory / identity / "events.jsonl"
    good = log.read_bytes()
    assert _run(store, "verify") == 0
    assert f"{identity}: ok, 6 events" in capsys.readouterr().out
    log.write_bytes(good + b'{"seq":6')
    assert _run(store, "verify", identity) == 0
    assert "using it would cut 8 bytes of a torn last line" in capsys.readouterr().out
    assert log.read_bytes() == good + b'{"seq":6'
    log.write_bytes(good.replace(b"content", b"kontent"))
    assert _run(store, "verify", identity) == 1
    assert "line 5 is damaged" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "kept"), [("y\n", False), ("n\n", True), ("\n", True), ("", True)])
def test_prune_deletes_only_after_a_yes(
    store: SessionStore,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    kept: bool,
) -> None:
    old, new = _say(store, "old"), _say(store, "new")
    _age(store, old)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert _run(store, "prune", "--older-than", "30") == 0
    assert ("Nothing was deleted." in capsys.readouterr().out) == kept
    left = {item.session_id for item in store.list()}
    assert left == ({old, new} if kept else {new})


def test_prune_goes_by_the_logs_dates_whatever_the_cache_says(store: SessionStore) -> None:
    new, old, unreadable = _say(store, "new"), _say(store, "old"), _say(store, "unreadable")
    _age(store, old)
    _age(store, unreadable)
    _cache(store, new, updated_at=OLD)
    _cache(store, old, updated_at="long ago")
    (store.directory / unreadable / "meta.json").write_bytes(b"[" * 10_000)
    assert _run(store, "prune", "--older-than", "30", "--yes") == 0
    assert [item.session_id for item in store.list()] == [new]


def test_prune_never_calls_a_damaged_session_old(store: SessionStore) -> None:
    identity = _say(store, "x")
    _age(store, identity)
    path = store.directory / identity / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"content", b"kontent"))
    os.utime(path, (OLD, OLD))
    (store.directory / identity / "meta.json").unlink()
    assert _run(store, "prune", "--older-than", "1", "--yes") == 0
    assert len(store.list()) == 1
    assert _run(store, "prune", "--larger-than", "0.0001", "--yes") == 0
    assert store.list() == []


def test_prune_by_size_counts_all_that_is_beside_the_log(store: SessionStore) -> None:
    small, large = _say(store, "small"), _say(store, "large")
    kv = store.directory / large / "kv"
    kv.mkdir(mode=0o700)
    with (kv / "x.kv").open("wb") as file:
        os.truncate(file.fileno(), 3 << 20)
    assert _run(store, "prune", "--larger-than", "2", "--older-than", "1", "--yes") == 0
    assert len(store.list()) == 2
    assert _run(store, "prune", "--larger-than", "2", "--yes") == 0
    assert [item.session_id for item in store.list()] == [small]


def test_prune_keeps_a_session_that_is_open(store: SessionStore, capsys: pytest.CaptureFixture[str]) -> None:
    identity = _say(store, "x")
    _age(store, identity)
    session = store.open(identity)
    assert _run(store, "prune", "--older-than", "1", "--yes") == 1
    assert f"process {os.getpid()}" in capsys.readouterr().err
    session.close()
    assert len(store.list()) == 1


def test_prune_wants_to_know_what(store: SessionStore, capsys: pytest.CaptureFixture[str]) -> None:
    store.base.mkdir()
    assert _run(store, "prune") == 2
    assert "--older-than" in capsys.readouterr().err
    assert _run(store, "prune", "--older-than", "1") == 0
    for bad in ("0", "-1", "nan", "x", "", "7x", "1e400", "9" * 400, "d", "1 d 2"):
        with pytest.raises(SystemExit):
            _run(store, "prune", f"--older-than={bad}")
        assert "a number of days, or with a unit: 12h" in capsys.readouterr().err
    for bad in ("0", "1XB", "MB", "5d", "inf"):
        with pytest.raises(SystemExit):
            _run(store, "prune", "--larger-than", bad)
        assert "a number of MB, or with a unit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 7776000), ("7d", 604800), ("12h", 43200), ("1W", 604800), (" 1.5 d ", 129600)]
)
def test_an_age_counts_days_unless_it_names_its_unit(text: str, seconds: float) -> None:
    assert age(text) == seconds


@pytest.mark.parametrize(
    ("text", "mebibytes"), [("2", 2), ("500MB", 500), ("1GB", 1024), ("0.5g", 512), ("1 TiB", 1 << 20), ("512kb", 0.5)]
)
def test_a_size_counts_mebibytes_unless_it_names_its_unit(text: str, mebibytes: float) -> None:
    assert size(text) == mebibytes * (1 << 20)


def test_a_title_takes_one_line_and_turns_no_text_around(
    store: SessionStore, capsys: pytest.CaptureFixture[str]
) -> None:
    session = store.create(title="a\nb\tc\x1b[31mred\u202e\u2066\u200fx\u2028y\u0085z")
    session.close()
    assert _run(store, "list") == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 3
    assert lines[1].endswith("  a b c�[31mred���x y z")


def test_verify_says_by_which_process_a_session_is_open(
    store: SessionStore, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = _say(store, "x")
    session = store.open(identity)
    session.append("turn/start", {"turn": 2})
    assert _run(store, "verify") == 0
    shown = capsys.readouterr().out
    assert f"it is open in process {os.getpid()}" in shown
    assert "turn/end" not in shown
    session.close()
    assert _run(store, "verify") == 0
    shown = capsys.readouterr().out
    assert "it is open" not in shown
    assert "turn/end" in shown
