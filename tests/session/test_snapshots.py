from __future__ import annotations

import ctypes
import os
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.engine import snapshot
from ds4_lsp.session.snapshots import Snapshots, name_for


def _write(path: Path, size: int = 10, age: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    now = path.stat().st_mtime
    os.utime(path, (now - age, now - age))
    return path


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6), st.booleans())
def test_a_snapshot_fits_exactly_when_the_transcript_begins_with_its_tokens(
    tmp_path_factory: object, held: list[int], wanted: list[int], same_model: bool
) -> None:
    directory = tmp_path_factory.mktemp("kv")
    snapshots = Snapshots(directory)
    _write(directory / name_for("model", held))
    found = snapshots.find(directory, "model" if same_model else "other", wanted)
    assert (found is not None) == (same_model and wanted[: len(held)] == held)
    assert found is None or found.tokens == len(held)


def test_the_snapshot_that_covers_most_is_taken(tmp_path: Path) -> None:
    tokens = list(range(100))
    for count in (10, 90, 50):
        _write(tmp_path / name_for("m", tokens[:count]))
    _write(tmp_path / name_for("m", [*tokens, 1]))
    found = Snapshots(tmp_path).find(tmp_path, "m", tokens)
    assert found is not None
    assert found.tokens == 90
    assert Snapshots(tmp_path).find(tmp_path / "nowhere", "m", tokens) is None


def test_a_session_keeps_its_newest_only_and_system_prompts_are_kept_side_by_side(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    kv = tmp_path / "group" / "session" / "kv"
    old = _write(snapshots.session(kv, "m", [1, 2]))
    other = _write(snapshots.session(tmp_path / "group" / "other" / "kv", "m", [1]))
    new = _write(snapshots.session(kv, "m", [1]))
    assert snapshots.written(new) == [old]
    prompts = [_write(snapshots.sysprompt(model, [1])) for model in ("m", "n")]
    assert snapshots.written(prompts[1]) == []
    assert {item.path for item in snapshots.listing()} == {new, other, *prompts}
    snapshots.discard(new)
    assert not new.exists()


def test_beyond_the_limit_the_least_recently_used_go_and_never_the_one_just_written(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, limit=25)
    oldest = _write(snapshots.session(tmp_path / "g" / "a" / "kv", "m", [1]), age=300)
    older = _write(snapshots.session(tmp_path / "g" / "b" / "kv", "m", [1]), age=200)
    prompt = _write(snapshots.sysprompt("m", [1]), age=100)
    snapshots.used(oldest)
    new = _write(snapshots.session(tmp_path / "g" / "c" / "kv", "m", [1]))
    assert snapshots.written(new) == [older, prompt]
    assert oldest.exists()
    huge = _write(snapshots.session(tmp_path / "g" / "d" / "kv", "m", [1]), size=99)
    snapshots.written(huge)
    assert [item.path for item in snapshots.listing()] == [huge]


def test_leftovers_of_a_write_go_after_an_hour(tmp_path: Path) -> None:
    young = _write(tmp_path / "g" / "a" / "kv" / "x.tmp", age=10)
    old = _write(tmp_path / "g" / "a" / "kv" / "y.tmp", age=4000)
    Snapshots(tmp_path).enforce()
    assert young.exists()
    assert not old.exists()


def test_the_engine_writes_a_snapshot_beside_a_log_and_makes_no_place_for_it_elsewhere(tmp_path: Path) -> None:
    held = snapshot.Snapshot("m", array("i", [1, 2]), (ctypes.c_uint8 * 3)(7, 8, 9), 3)
    snapshot.write(tmp_path / "kv" / "a.kv", held)
    assert snapshot.inspect(tmp_path / "kv" / "a.kv") == ("m", held.tokens)
    with pytest.raises(FileNotFoundError):
        snapshot.write(tmp_path / "deleted" / "kv" / "a.kv", held)
    assert [path.name for path in tmp_path.iterdir()] == ["kv"]
