"""A KV snapshot is written beside the turns, not between them."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from compacting import WORDS, until

from ds4_lsp.engine import llama, snapshot
from ds4_lsp.engine.plan import plan
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import (
    DeleteSessionArguments,
    NewSessionArguments,
    SessionArguments,
    SwitchSessionArguments,
)
from ds4_lsp.protocol.errors import NotFound
from ds4_lsp.session.snapshots import name_for

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


async def test_a_switch_writes_what_the_kv_holds_of_the_session_that_is_left(stage: Any) -> None:
    stage.set(sessions={"snapshots": True})
    stage.script("One.", "Two.")
    command = stage.agent.command
    other = (await command("ds4.newSession", NewSessionArguments(), Cancel())).session_id
    await command("ds4.newSession", NewSessionArguments(), Cancel())
    for text in ("first", "second"):
        await stage.prompt(text)
        left, held = stage.runtime, list(stage.engine.kv)
        await command("ds4.switchSession", SwitchSessionArguments(session_id=other), Cancel())
        async with stage.agent.runner._free(Cancel()):
            await stage.agent.snapshots.settle()
        # The newest alone is kept.
        [path] = left.session.kv_dir.iterdir()
        assert path.name == name_for(stage.engine.info.fingerprint, held)
        assert snapshot.inspect(path) == (stage.engine.info.fingerprint, array("i", held))
        await command("ds4.switchSession", SwitchSessionArguments(session_id=left.id), Cancel())


async def test_a_snapshot_by_another_build_or_with_another_kv_type_is_a_miss_under_any_name(
    stage: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stage.set(sessions={"snapshots": True})
    stage.script("One.", "Two.", "Three.", "Four.", "Five.", "Six.")
    model = stage.agent.services.model
    settings = stage.agent.services.settings().model.model_dump(by_alias=True)

    def planned(**changed: Any) -> str:
        default, full = model.context_is_default(), stage.engine._swa_full
        return str(plan(settings | changed, context_is_default=default, full_window=full).fingerprint)

    with monkeypatch.context() as patched:
        patched.setattr(llama, "build", lambda: "another build")
        by_build = planned()
    for other in (by_build, planned(kvCacheType="f32")):
        stage.new_session()
        await stage.prompt("remember: " + WORDS * 20)
        session, ours = stage.runtime, stage.engine.info.fingerprint
        assert planned() == ours != other
        assert (await stage.agent.command("ds4.saveSession", SessionArguments(), Cancel())).snapshot
        [path] = session.session.kv_dir.iterdir()
        held = list(stage.engine.kv)
        stage.new_session()
        await stage.prompt("something else")
        content = path.read_bytes()
        path.unlink()
        for name in (name_for(other, held), name_for(ours, held)):
            # What the other one would have written of the same tokens.
            (path.parent / name).write_bytes(content.replace(ours.encode(), other.encode(), 1))
            caplog.clear()
            await stage.agent.snapshots.prepare(session, Cancel())
            assert len(stage.engine.kv) < len(held)
            said = "cannot be used" if name == path.name else "no KV snapshot of the session fits"
            assert said in caplog.text
        assert not path.exists()


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
