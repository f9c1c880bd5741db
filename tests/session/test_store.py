from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.protocol.errors import (
    Ambiguous,
    CorruptSession,
    InvalidRequest,
    NotFound,
    SessionLocked,
    StorageFailed,
)
from ds4_lsp.session.events import APPEND
from ds4_lsp.session.lock import SessionLock
from ds4_lsp.session.session import Session
from ds4_lsp.session.store import SessionStore, default_base, every_store, workspace_key
from ds4_lsp.session.verify import verify


def _say(session: Session, text: str) -> None:
    turn = session.next_turn()
    session.append("turn/start", {"turn": turn})
    session.append("user/message", {"turn": turn, "text": text, "kind": "prompt"}, surface_op=APPEND)
    session.append("turn/end", {"turn": turn, "stopReason": "end", "contextTokens": 10 * turn})


def _closed(store: SessionStore, *texts: str) -> str:
    session = store.create()
    for text in texts:
        _say(session, text)
    session.close()
    return session.id


def test_a_session_is_found_by_any_unique_prefix(store: SessionStore) -> None:
    ids = [_closed(store) for _ in range(20)]
    for identity in ids:
        store.open(identity).close()
        assert store.find(identity[:12]).name == identity
    first = next(a for a in ids if sum(b[0] == a[0] for b in ids) > 1)
    with pytest.raises(Ambiguous) as refused:
        store.open(first[0])
    assert first in refused.value.data["sessionIds"]
    for missing in ("", "zz", "../..", "."):
        with pytest.raises(NotFound):
            store.open(missing)


def test_sessions_of_another_workspace_are_not_seen(store: SessionStore, tmp_path: Path) -> None:
    identity = _closed(store)
    other = SessionStore(store.base, [tmp_path])
    assert other.list() == []
    assert other.latest() is None
    with pytest.raises(NotFound):
        other.open(identity)


def test_a_workspace_is_the_same_in_any_order_and_through_links(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.mkdir()
    b.symlink_to(a)
    assert workspace_key([a, tmp_path]) == workspace_key([tmp_path, b])
    assert workspace_key([a]) != workspace_key([tmp_path])


def test_by_default_sessions_are_in_the_users_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_base() == tmp_path / "ds4-lsp" / "sessions"
    assert SessionStore(None, []).base == default_base()
    assert list(tmp_path.iterdir()) == []


def test_a_list_names_what_the_log_holds_newest_first(store: SessionStore) -> None:
    first = _closed(store, "\n  fix the bug\nin detail", "more")
    second = _closed(store)
    with_title = store.create(title="given")
    _say(with_title, "other")
    with_title.close()
    listed = store.list()
    assert [item.session_id for item in listed] == [with_title.id, second, first]
    assert store.latest() == with_title.id
    by_id = {item.session_id: item for item in listed}
    assert by_id[first].title == "fix the bug"
    assert (by_id[first].turns, by_id[first].tokens) == (2, 20)
    assert by_id[with_title.id].title == "given"
    assert by_id[first].info(current=True).model_dump()["turns"] == 2


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_the_cached_summary_equals_the_one_rebuilt_from_the_log(data: st.DataObject, lawful: Any) -> None:
    with lawful.store() as store:
        session = store.create()
        lawful.play(session, data.draw(lawful.actions))
        session.close()
        cached = store.list()
        (session.directory / "meta.json").unlink()
        assert store.list() == cached


GARBLED: dict[str, list[Any]] = {
    "title": [None, 7, ["a"], {}],
    "workspace": ["/w", [1], None, {}],
    "created_at": ["now", None, float("nan"), float("inf"), 1e300, True],
    "updated_at": ["now", None, float("nan"), -float("inf"), [1.0]],
    "turns": [-1, 1.5, "1", None, True, 10**30],
    "tokens": [-1, "many", None, [1]],
    "compactions": [-1, "0", None],
    "size": [None, "x", 0.0],
    "session_id": [None, "x", 5],
    "version": [0, 2, "1", None],
    "surplus": [1],
}
"""Values that no cache has under that name."""


def _garbled(cache: dict[str, Any]) -> Iterator[bytes]:
    yield from (b"", b"{}", b"[]", b"null", b"7", b'"x"', b"\xff", b"\0" * 100, b"[" * 100_000, b'{"a":' * 100_000)
    whole = json.dumps(cache).encode()
    yield from (whole[:-1], whole + b"x", whole + b" " * (2 << 20), b"[" + whole + b"]")
    for name in cache:
        yield json.dumps({key: value for key, value in cache.items() if key != name}).encode()
    for name, values in GARBLED.items():
        for value in values:
            yield json.dumps({**cache, name: value}).encode()


def test_a_missing_stale_or_garbled_cache_is_rebuilt_from_the_log(store: SessionStore) -> None:
    identity = _closed(store, "a")
    expected = store.list()
    path = store.directory / identity / "meta.json"
    for content in _garbled(json.loads(path.read_bytes())):
        path.write_bytes(content)
        assert store.list() == expected, content[:200]
        assert store.latest() == identity
    path.unlink()
    for make in (path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(path)):
        make()
        assert store.list() == expected
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_cache_of_other_types_keeps_nobody_from_opening_the_session_which_writes_it_anew(store: SessionStore) -> None:
    identity = _closed(store, "a")
    path = store.directory / identity / "meta.json"
    path.write_bytes(json.dumps({**json.loads(path.read_bytes()), "updated_at": "x"}).encode())
    session = store.open(identity)
    session.append("session/title", {"title": "later"})
    assert store.list()[0].title == "later"
    session.close()
    assert json.loads((store.directory / identity / "meta.json").read_text())["title"] == "later"


def test_a_damaged_session_is_listed_with_its_problem_and_is_not_the_latest(store: SessionStore) -> None:
    good = _closed(store, "a")
    bad = _closed(store, "b", "c")
    log = store.directory / bad / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    listed = {item.session_id: item for item in store.list()}
    assert "line 3 is damaged" in str(listed[bad].problem)
    # What could be read of it is shown, under the date that the file system has.
    assert (listed[bad].turns, listed[bad].updated_at) == (1, log.stat().st_mtime)
    assert [item.session_id for item in store.list()] == [bad, good]
    assert listed[good].problem is None
    assert store.latest() == good
    with pytest.raises(CorruptSession) as refused:
        store.open(bad)
    assert refused.value.data["line"] == 3
    fork = store.fork(bad, 1)
    assert fork.header.parent == (bad, 1)
    fork.close()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_the_logs_place_keeps_nobody_waiting(store: SessionStore, make: Any) -> None:
    identity = _closed(store, "a")
    odd = store.directory / "0123456789abcdef"
    odd.mkdir()
    make(odd / "events.jsonl")
    problems = {item.session_id: item.problem for item in store.list()}
    assert problems[identity] is None
    assert "no regular file" in str(problems[odd.name])
    for use in (store.open, store.fork):
        with pytest.raises(CorruptSession, match="no regular file"):
            use(odd.name)
    assert "no regular file" in verify(odd).problems[0]
    assert store.delete(odd.name) == odd.name
    assert [item.session_id for item in store.list()] == [identity]


def test_everything_on_disk_is_private(store: SessionStore) -> None:
    old = os.umask(0)
    try:
        session = store.create()
        _say(session, "a")
        session.blobs.put("text")
        assert session.kv_dir.is_dir()
        assert session.jobs_dir.is_dir()
        session.close()
    finally:
        os.umask(old)
    for path in [store.base, *store.base.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_one_session_is_open_once(store: SessionStore) -> None:
    session = store.create()
    with pytest.raises(SessionLocked) as refused:
        store.open(session.id)
    assert refused.value.data["pid"] == os.getpid()
    session.close()
    session.close()
    store.open(session.id).close()


def test_a_deleted_session_is_gone_as_a_whole(store: SessionStore) -> None:
    identity = _closed(store, "a")
    keep = _closed(store, "b")
    assert store.delete(identity[:10]) == identity
    assert [item.session_id for item in store.list()] == [keep]
    assert identity not in {path.name for path in store.directory.iterdir()}
    with pytest.raises(NotFound):
        store.delete(identity)


def test_a_session_that_could_not_be_created_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the way")
    with pytest.raises(StorageFailed, match=r"ds4\.newSession"):
        SessionStore(tmp_path / "state", [tmp_path]).create()
    assert (tmp_path / "state").read_text() == "a file in the way"


def test_a_session_whose_directory_vanished_says_so_and_closes(store: SessionStore) -> None:
    session = store.create()
    _say(session, "a")
    shutil.rmtree(session.directory)
    with pytest.raises(StorageFailed, match="gone"):
        session.append("turn/start", {"turn": 2})
    assert session.state.turn is None
    with pytest.raises(StorageFailed):
        session.close()
    assert store.list() == []


def test_a_session_whose_directory_is_elsewhere_is_not_begun_anew_and_goes_on_when_it_is_back(
    store: SessionStore, tmp_path: Path
) -> None:
    session = store.create()
    _say(session, "a")
    session.directory.rename(tmp_path / "away")
    with pytest.raises(StorageFailed, match="gone"):
        _ = session.kv_dir
    with pytest.raises(StorageFailed, match="gone"):
        _ = session.jobs_dir
    with pytest.raises(StorageFailed, match="gone"):
        session.blobs.put("text")
    session.save_meta()
    assert not session.directory.exists()
    # Nor is another directory in its place taken for it.
    session.directory.mkdir()
    with pytest.raises(StorageFailed, match="gone"):
        _ = session.kv_dir
    session.save_meta()
    session.directory.rmdir()
    (tmp_path / "away").rename(session.directory)
    assert session.kv_dir.is_dir()
    _say(session, "b")
    session.close()
    assert store.list()[0].turns == 2


def test_a_session_that_was_closed_makes_no_directories(store: SessionStore) -> None:
    session = store.create()
    session.close()
    for make in (lambda: session.kv_dir, lambda: session.jobs_dir):
        with pytest.raises(StorageFailed, match="closed"):
            make()
    assert sorted(path.name for path in session.directory.iterdir()) == [
        "events.jsonl",
        "lock",
        "lock.pid",
        "meta.json",
    ]


def test_a_directory_that_is_named_otherwise_than_its_session_is_refused_unchanged_and_can_be_forked(
    store: SessionStore,
) -> None:
    identity = _closed(store, "a")
    real = store.open(identity)
    copy = store.directory / "00000000deadbeef"
    shutil.copytree(real.directory, copy)
    (copy / "lock").unlink()
    (copy / "events.jsonl").write_bytes((copy / "events.jsonl").read_bytes() + b"torn")
    before = (copy / "events.jsonl").read_bytes()
    with pytest.raises(CorruptSession, match="deadbeef") as refused:
        store.open("0000")
    assert identity in refused.value.message
    assert (copy / "events.jsonl").read_bytes() == before
    problems = {item.session_id: item.problem for item in store.list()}
    assert problems[identity] is None
    assert identity in str(problems[copy.name])
    assert store.latest() == identity
    fork = store.fork("0000")
    assert [node.data["text"] for node in fork.surface] == ["a"]
    fork.close()
    assert store.delete("0000") == copy.name
    _say(real, "b")
    real.close()


def test_a_lock_makes_no_directory_of_what_was_deleted_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        SessionLock(tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


def test_opening_what_does_not_exist_creates_nothing(store: SessionStore, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        Session.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_the_cache_is_written_once_a_turn(store: SessionStore) -> None:
    session = store.create()
    meta = session.directory / "meta.json"
    session.append("turn/start", {"turn": 1})
    session.append("user/message", {"turn": 1, "text": "x", "kind": "prompt"}, surface_op=APPEND)
    assert not meta.exists()
    session.append("turn/end", {"turn": 1, "stopReason": "end"})
    assert json.loads(meta.read_text())["turns"] == 1
    session.close()


def test_a_fork_begins_as_the_original_and_goes_its_own_way(store: SessionStore) -> None:
    session = store.create()
    _say(session, "a")
    before, after, seen = (session.blobs.put(text) for text in ("old", "new", "seen"))
    place = {"uri": "file:///a", "path": "a", "fileTag": "00000000", "ranges": [[1, 1]], "blob": seen}
    pointed = {"turn": 1, "kind": "notice", "text": "", "context": [{"uri": "file:///a", "text": "", "shown": [place]}]}
    session.append("user/message", pointed, surface_op={"op": "append"})
    session.append("edit/applied", {"turn": 1, "callId": "c1", "beforeBlob": before, "afterBlob": after})
    session.append("edit/applied", {"turn": 1, "callId": "c1", "beforeBlob": None, "afterBlob": after})
    cut = session.append("prompt/queued", {"text": "later", "context": []}).seq
    _say(session, "b")
    fork = store.fork(session.id, cut)
    assert list(fork.events())[1 : cut + 1] == list(session.events())[1 : cut + 1]
    assert fork.header.parent == (session.id, cut)
    assert fork.header.session_id != session.id
    assert fork.title == "a"
    assert fork.queued() == []
    assert len(session.queued()) == 1
    _say(fork, "c")
    assert [node.data["text"] for node in fork.surface] == ["a", "", "c"]
    assert [node.data["text"] for node in session.surface] == ["a", "", "b"]
    session.close()
    store.delete(session.id)
    assert [fork.blobs.get(name) for name in (before, after, seen)] == ["old", "new", "seen"]
    fork.close()
    store.open(fork.id).close()


@settings(deadline=None, max_examples=20)
@given(data=st.data(), part=st.floats(0, 1))
def test_a_fork_never_parts_a_call_from_its_result_nor_cuts_a_compaction(
    data: st.DataObject, part: float, lawful: Any
) -> None:
    with lawful.store() as store:
        session = store.create()
        lawful.play(session, data.draw(lawful.actions))
        seq = round(part * (session.next_seq - 1))
        try:
            fork = store.fork(session.id, seq)
        except InvalidRequest as refused:
            fork = store.fork(session.id, refused.data["nearest"])
        copied = list(fork.events())[1 : fork.header.parent[1] + 1]
        assert copied == list(session.events())[1 : len(copied) + 1]
        assert not any(event.type in ("tool/result", "compact/end") for event in fork.recovered)
        fork.close()
        whole = store.fork(session.id)
        whole.close()
        session.log.close()
        session._lock.release()


@pytest.mark.parametrize("taken", [False, True])
def test_a_fork_that_is_there_has_dropped_the_queue_already(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    original = store.create()
    queued = original.append("prompt/queued", {"text": "later", "context": []})
    if taken:
        # By a turn that has not sent it yet.
        original.append("turn/start", {"turn": 1, "queued": queued.seq})
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Session, "open", _killed)
        store.fork(original.id)
    [name] = {item.session_id for item in store.list()} - {original.id}
    fork = store.open(name)
    assert fork.queued() == []
    assert fork.recovered == ()
    fork.close()
    report = verify(fork.directory)
    assert (report.problems, report.repairs) == ([], [])
    assert len(original.queued()) == (not taken)
    original.close()


def _killed(*_arguments: object) -> Session:
    raise KeyboardInterrupt


def test_a_deletion_needs_no_room_for_another_name(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    identity, kept = _closed(store, "a"), _closed(store, "b")

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "rename", full)
    assert store.delete(identity) == identity
    assert sorted(path.name for path in store.directory.iterdir()) == sorted([kept, "workspace.json"])


def test_a_fork_beyond_the_end_is_refused(store: SessionStore) -> None:
    identity = _closed(store, "a")
    with pytest.raises(InvalidRequest, match="ends with event 3"):
        store.fork(identity, 4)
    assert len(store.list()) == 1
    assert not [path for path in store.directory.iterdir() if path.name.startswith(".")]


def test_leftovers_of_a_crash_are_never_listed_and_cleaned_after_an_hour(store: SessionStore) -> None:
    _closed(store, "a")
    young, old = store.directory / ".new-1", store.directory / ".deleted-2"
    young.mkdir()
    old.mkdir()
    os.utime(old, (1, 1))
    assert len(store.list()) == 1
    assert store.clean() == 1
    assert young.exists()
    assert not old.exists()


def test_all_workspaces_are_found_with_their_folders(store: SessionStore, tmp_path: Path) -> None:
    _closed(store, "a")
    other = SessionStore(store.base, [tmp_path])
    _closed(other, "b")
    (store.base / "sysprompt").mkdir()
    found = {item.workspace: [summary.title for summary in item.list()] for item in every_store(store.base)}
    assert found == {store.workspace: ["a"], other.workspace: ["b"]}
    assert list(every_store(tmp_path / "nowhere")) == []
