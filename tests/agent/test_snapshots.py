"""A KV snapshot is written beside the turns, not between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from compacting import until

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import DeleteSessionArguments, NewSessionArguments, SessionArguments

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
