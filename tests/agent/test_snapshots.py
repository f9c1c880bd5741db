"""A KV snapshot is written beside the turns, not between them."""

from __future__ import annotations

import asyncio
import ctypes
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from compacting import until

from ds4_lsp.engine import snapshot
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import DeleteSessionArguments, NewSessionArguments, SessionArguments
from ds4_lsp.protocol.errors import NotFound

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the end of every write of a stage's engine wait: the event that lets it go on, and the paths written."""

    def slow(stage: Any) -> tuple[asyncio.Event, list[Path]]:
        gate, paths, save = asyncio.Event(), [], stage.engine.save

        async def gated(path: Path, on_released: Callable[[], None] | None = None) -> Sequence[int]:
            paths.append(path)
            tokens = await save(path, on_released)
            await gate.wait()
            return list(tokens)

        monkeypatch.setattr(stage.engine, "save", gated)
        return gate, paths

    return slow


async def test_prompts_do_not_wait_for_the_disk_and_nothing_is_left_unwritten(stage: Any, disk: Any) -> None:
    stage.set(sessions={"snapshots": True})
    stage.script("One.", "Two.", "Three.")
    gate, paths = disk(stage)
    await asyncio.wait_for(stage.prompt("first"), 60)
    first = stage.runtime
    await stage.agent.command("ds4.newSession", NewSessionArguments(), Cancel())
    # The prompt takes the engine after the copy, and long before the write's end.
    assert (await asyncio.wait_for(stage.prompt("second"), 60)).text == "Two."
    assert [path.parent for path in paths if path.parent == first.session.kv_dir] == [first.session.kv_dir]

    command = stage.agent.command("ds4.saveSession", SessionArguments(), Cancel())
    saving = asyncio.ensure_future(command)
    assert (await asyncio.wait_for(stage.prompt("third"), 60)).text == "Three."
    # Who asks for a snapshot is answered when it is there.
    assert not saving.done()
    gate.set()
    assert (await asyncio.wait_for(saving, 60)).snapshot
    await stage.agent.snapshots.settle()
    assert all(path.exists() for path in paths)


async def test_a_write_that_ends_late_does_not_bring_a_deleted_session_back(stage: Any, disk: Any) -> None:
    stage.set(sessions={"snapshots": True})
    stage.script("One.")
    gate, paths = disk(stage)
    await stage.prompt("first")
    first = stage.runtime
    await stage.agent.command("ds4.newSession", NewSessionArguments(), Cancel())
    await until(lambda: any(path.parent == first.session.kv_dir for path in paths))
    command = stage.agent.command("ds4.deleteSession", DeleteSessionArguments(session_id=first.id), Cancel())
    deleting = asyncio.ensure_future(command)
    gate.set()
    assert (await asyncio.wait_for(deleting, 60)).deleted
    await stage.agent.snapshots.settle()
    assert not first.session.directory.exists()


async def test_a_save_that_waits_does_not_bring_a_deleted_session_back(stage: Any) -> None:
    stage.set(sessions={"snapshots": True})
    stage.script("One.", "Two.")
    command = stage.agent.command
    for waits in ("in the background", "asked for"):
        await stage.prompt("first")
        first = stage.runtime
        async with stage.agent.runner._free(Cancel()):
            saving = asyncio.ensure_future(command("ds4.saveSession", SessionArguments(), Cancel()))
            await asyncio.sleep(0)
            if waits == "in the background":
                await command("ds4.newSession", NewSessionArguments(), Cancel())
            assert (await command("ds4.deleteSession", DeleteSessionArguments(session_id=first.id), Cancel())).deleted
        with pytest.raises(NotFound, match="deleted or closed meanwhile"):
            await asyncio.wait_for(saving, 60)
        async with stage.agent.runner._free(Cancel()):
            await stage.agent.snapshots.settle()
        assert not first.session.directory.exists()


async def test_a_save_that_begins_while_its_session_is_deleted_does_not_bring_it_back(stage: Any) -> None:
    stage.set(sessions={"snapshots": True})
    stage.script("One.", "Two.")
    command = stage.agent.command
    for saver in (("ds4.newSession", NewSessionArguments()), ("ds4.saveSession", SessionArguments())):
        await stage.prompt("first")
        first = stage.runtime
        deleting = command("ds4.deleteSession", DeleteSessionArguments(session_id=first.id), Cancel())
        _, deleted = await asyncio.gather(command(*saver, Cancel()), deleting, return_exceptions=True)
        assert deleted.deleted
        async with stage.agent.runner._free(Cancel()):
            await stage.agent.snapshots.settle()
        assert not first.session.directory.exists()


async def test_the_engine_writes_a_snapshot_beside_a_log_and_makes_no_place_for_it_elsewhere(tmp_path: Path) -> None:
    held = snapshot.Snapshot("m", array("i", [1, 2]), (ctypes.c_uint8 * 3)(7, 8, 9), 3)
    snapshot.write(tmp_path / "kv" / "a.kv", held)
    assert snapshot.inspect(tmp_path / "kv" / "a.kv") == ("m", held.tokens)
    with pytest.raises(FileNotFoundError):
        snapshot.write(tmp_path / "deleted" / "kv" / "a.kv", held)
    assert [path.name for path in tmp_path.iterdir()] == ["kv"]
