"""``ds4-lsp sessions`` with something in the way: what can be had is had, the rest is named, and nothing is lost."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.cli import sessions, sessions_found
from ds4_lsp.session.events import APPEND
from ds4_lsp.session.store import SessionStore, workspace_key

BOUND = (sys.executable, str(Path(__file__).parents[1] / "bound_by_modes.py"))
PROGRAM = (sys.executable, "-m", "ds4_lsp", "sessions")


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    (tmp_path / "project").mkdir()
    return SessionStore(tmp_path / "state", [tmp_path / "project"])


def _say(store: SessionStore, *texts: str) -> str:
    session = store.create()
    for turn, text in enumerate(texts, 1):
        session.append("turn/start", {"turn": turn})
        session.append("user/message", {"turn": turn, "text": text, "kind": "prompt"}, surface_op=APPEND)
        session.append("turn/end", {"turn": turn, "stopReason": "end"})
    session.close()
    return session.id


def _run(store: SessionStore, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    sessions.add_parser(parser.add_subparsers())
    return sessions.run(parser.parse_args(["sessions", "--directory", str(store.base), *arguments]))


def _damage(store: SessionStore, identity: str, text: str) -> None:
    path = store.directory / identity / "events.jsonl"
    content = path.read_bytes()
    assert text.encode() in content
    path.write_bytes(content.replace(text.encode(), text.upper().encode()))


@pytest.mark.parametrize("turns", [(), ("--turns", "2")])
def test_show_prints_what_precedes_a_damage_then_the_damage_and_fails(
    store: SessionStore, capsys: pytest.CaptureFixture[str], turns: tuple[str, ...]
) -> None:
    identity = _say(store, "first question", "second question", "third question")
    _damage(store, identity, "third question")
    (store.directory / identity / "meta.json").unlink()
    assert _run(store, "show", identity, *turns) == 1
    shown = capsys.readouterr()
    assert "first question" in shown.out
    assert "second question" in shown.out
    assert "third" not in shown.out
    assert "line 9 is damaged" in shown.err
    assert "BROKEN" in shown.out.splitlines()[0]


def test_an_export_to_a_file_is_whole_and_private_or_is_not_there(store: SessionStore, tmp_path: Path) -> None:
    identity = _say(store, "a question\ud800", "another")
    target = tmp_path / "out.md"
    assert _run(store, "export", identity, "--output", str(target)) == 0
    assert "a question\\ud800" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    before = target.read_bytes()
    _damage(store, identity, "another")
    assert _run(store, "export", identity, "--output", str(target)) == 1
    assert target.read_bytes() == before
    assert _run(store, "export", identity, "--output", str(tmp_path / "new.md")) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.md", "project", "state"]


def test_an_export_goes_through_links_and_into_pipes_and_takes_the_place_of_neither(
    store: SessionStore, tmp_path: Path
) -> None:
    identity = _say(store, "a question")
    link, real, pipe = tmp_path / "link", tmp_path / "real", tmp_path / "pipe"
    link.symlink_to(real)
    assert _run(store, "export", identity, "--output", str(link)) == 0
    assert link.is_symlink()
    assert "a question" in real.read_text()
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        assert _run(store, "export", identity, "--output", str(pipe)) == 0
        assert "a question" in reader.communicate()[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize("verb", ["list", "show", "export", "verify", "prune"])
def test_a_directory_that_was_named_and_is_not_there_is_an_error(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"show": ["0"], "export": ["0"], "prune": ["--older-than", "1"]}.get(verb, [])
    (tmp_path / "file").write_text("")
    for place, why in (("nowhere", "does not exist"), ("file", "is no directory")):
        assert _run(SessionStore(tmp_path / place, [tmp_path]), verb, *arguments) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        assert f"{tmp_path / place} {why}" in shown.err


def test_the_usual_place_may_be_missing(tmp_path: Path) -> None:
    ran = _outside(tmp_path, "list")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "No sessions.\n", "")


def _outside(state: Path, *arguments: str, front: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with sessions under ``state``."""
    env = os.environ | {"XDG_STATE_HOME": str(state)}
    return subprocess.run([*front, *PROGRAM, *arguments], env=env, capture_output=True, text=True, check=False)


def test_a_session_that_vanishes_while_it_is_looked_at_is_left_out(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, kept = _say(store, "gone"), _say(store, "kept")
    size = sessions_found._size

    def late(directory: Path) -> int:
        # Another process deletes it between the listing and this.
        if directory.name == gone:
            shutil.rmtree(directory)
        return size(directory)

    monkeypatch.setattr(sessions_found, "_size", late)
    assert _run(store, "list") == 0
    assert kept in capsys.readouterr().out
    assert _run(store, "list") == 0
    assert gone not in capsys.readouterr().out
    assert size(store.directory / gone) == 0


def test_a_workspace_or_session_that_cannot_be_read_is_named_and_the_others_are_listed(tmp_path: Path) -> None:
    base = tmp_path / "ds4-lsp" / "sessions"
    stores = [SessionStore(base, [tmp_path / name]) for name in ("a", "b", "c")]
    ids = [_say(one, "hello") for one in stores]
    closed_group, closed_session = stores[0].directory, stores[1].directory / ids[1]
    for path in (closed_group, closed_session):
        path.chmod(0)
    try:
        for arguments in (("list",), ("verify",)):
            ran = _outside(tmp_path, *arguments, front=BOUND)
            assert ran.returncode == 1
            assert str(closed_group) in ran.stderr
            assert "Traceback" not in ran.stderr
            assert ids[0] not in ran.stdout
            assert ids[2] in ran.stdout
            [line] = [line for line in ran.stdout.splitlines() if line.strip().startswith(ids[1])]
            assert "BROKEN" in line
            assert f"chmod u+rwx {closed_session}" in ran.stdout
            assert f"chmod u+rwx {closed_group}" in ran.stderr
        ran = _outside(tmp_path, "show", ids[2], front=BOUND)
        assert "hello" in ran.stdout
        ran = _outside(tmp_path, "show", ids[1], front=BOUND)
        assert ran.returncode == 1
        assert "Permission denied" in ran.stderr
        assert f"chmod u+rwx {closed_session}" in ran.stderr
    finally:
        for path in (closed_group, closed_session):
            path.chmod(0o700)


@pytest.mark.parametrize("content", [b"", b"7", b'{"workspace":7}', b'{"workspace":["a\\u0000b"]}', b"[" * 100_000])
def test_a_group_that_does_not_name_its_workspace_is_listed_without(
    store: SessionStore, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = _say(store, "hello")
    (store.directory / "workspace.json").write_bytes(content)
    assert _run(store, "list") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("(no workspace)\n")
    assert identity in shown


def test_nobody_reading_is_quiet(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "ds4-lsp" / "sessions", [tmp_path])
    identity = _say(store, *["x" * 10_000] * 40)
    for verb in ("show", "export"):
        env = os.environ | {"XDG_STATE_HOME": str(tmp_path)}
        command: list[Any] = [*PROGRAM, verb, identity]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
            assert ran.stdout is not None
            assert ran.stderr is not None
            ran.stdout.readline()
            ran.stdout.close()
            assert ran.stderr.read() == b""
        assert ran.returncode == 1


def test_what_is_left_of_a_session_without_its_log_is_named_and_pruned_and_kept_while_it_is_open(
    store: SessionStore, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, left, held = _say(store, "kept"), _say(store, "gone"), _say(store, "open")
    server = store.open(held)
    for identity in (left, held):
        directory = store.directory / identity
        (directory / "kv").mkdir()
        (directory / "kv" / "a.kv").write_bytes(b"what was said")
        (directory / "events.jsonl").unlink()
    assert _run(store, "verify") == 1
    shown = capsys.readouterr().out
    assert f"{kept}: ok" in shown
    for identity in (left, held):
        assert f"{identity}: BROKEN, no log" in shown
    assert "ds4-lsp sessions prune" in shown
    assert _run(store, "prune", "--yes") == 1
    shown = capsys.readouterr()
    assert f"{left}  no log" in shown.out
    assert f"process {os.getpid()}" in shown.err
    assert sorted(path.name for path in store.directory.iterdir()) == sorted(["workspace.json", kept, held])
    server._lock.release()
    assert _run(store, "prune", "--older-than", "9", "--yes") == 0
    assert "Deleted 1 session." in capsys.readouterr().out
    assert _run(store, "verify") == 0
    assert sorted(path.name for path in store.directory.iterdir()) == sorted(["workspace.json", kept])


def test_a_session_is_named_by_where_it_lies(store: SessionStore, capsys: pytest.CaptureFixture[str]) -> None:
    identity = _say(store, "hello")
    moved = store.directory / ("f" * 16)
    (store.directory / identity).rename(moved)
    assert _run(store, "verify", "ffff") == 1
    assert "its directory is named" in capsys.readouterr().out
    assert _run(store, "prune", "--larger-than", "0.0001", "--yes") == 0
    assert not moved.exists()
    assert store.directory.name == workspace_key([Path(store.workspace[0])])
