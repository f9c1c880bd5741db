"""Every fault at every step of a compaction on the real engine, the real log, the real agent.

The table in docs/compaction.md is what these runs came to.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from compacting import compact, kv_is_the_transcripts, log_is_whole
from compaction_steps import (
    AMID,
    ASK,
    COMMIT,
    CONTEXT,
    END,
    FAULTS,
    REBUILD,
    SETTINGS,
    STEPS,
    SUMMARY,
    Faults,
    next_prompt,
    prepare,
    watched,
)

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import ForkSessionArguments

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "compaction.md"

NOTHING = "nothing written"
RECORDED = "unchanged, error recorded"
OPEN = "unchanged, settled later"
OPEN_REPLACED = "compacted, settled later"
DONE = "compacted"
IMPOSSIBLE = "cannot happen"
NO_WRITE = "nothing is written"

RESULTS: dict[tuple[str, int], str] = {}
"""What each cell came to, filled as the tests run."""


def skipped(fault: str, step: int) -> str | None:
    """What stands in a cell that cannot be tried: nothing else runs between the commit's steps (tests/compaction shows
    it), and a step that writes nothing has no write that could fail."""
    if fault == "surface changes" and SUMMARY <= step < REBUILD:
        return IMPOSSIBLE
    if fault == "one write fails" and step in (ASK, AMID, REBUILD, REBUILD + 1):
        return NO_WRITE
    return None


def allowed(fault: str, step: int) -> set[str]:
    """The specification: wholly or not at all, on whichever side of the commit the fault falls."""
    if step <= COMMIT:
        before = {NOTHING} if step == 0 and fault in ("one write fails", "disk full", "SIGKILL") else {RECORDED, OPEN}
        # Once the summary is there, nothing but a failing write or the end of the process stops the commit.
        harmless = fault in ("cancel", "engine dies", "surface changes") and step >= SUMMARY
        return {DONE} if harmless else before
    return {OPEN_REPLACED} if step == END and fault in ("one write fails", "disk full", "SIGKILL") else {DONE}


def outcome(stage: Any, before: list[Any]) -> str:
    """What the log and the surface say that the attempt came to."""
    events = stage.events()
    ours = [event for event in events if event.type.startswith("compact/")]
    nodes = stage.runtime.session.surface.events
    replaced = nodes[0].data.get("kind") == "checkpoint"
    if not replaced:
        assert nodes[: len(before)] == before
    if not ours:
        return NOTHING
    assert ours[0].type == "compact/start"
    if ours[-1].type != "compact/end":
        return OPEN_REPLACED if replaced else OPEN
    assert replaced == ("error" not in ours[-1].data)
    assert [event.type for event in ours].count("compact/end") == 1
    return DONE if replaced else RECORDED


async def copy(stage: Any) -> None:
    """A fork of the prepared session becomes the current one, with its snapshot: nothing is evaluated for it."""
    await stage.agent.command("ds4.forkSession", ForkSessionArguments(session_id=stage.original.id), Cancel())
    [snapshot] = stage.original.session.kv_dir.glob("*.kv")
    (stage.runtime.session.kv_dir / snapshot.name).hardlink_to(snapshot)


async def prepared(large_stages: Any) -> Any:
    stage = await large_stages(CONTEXT, "faults", **SETTINGS, sessions={"snapshots": True})
    if not hasattr(stage, "original"):
        await prepare(stage)
        assert await stage.agent.snapshots.save(stage.runtime)
        stage.original = stage.runtime
    return stage


CELLS = [
    pytest.param(fault, step, id=f"{fault}-{step + 1}-{name}")
    for fault in FAULTS
    for step, name in enumerate(STEPS)
    if fault != "SIGKILL" and skipped(fault, step) is None
]


@pytest.mark.parametrize(("fault", "step"), CELLS)
async def test_a_fault_leaves_all_or_nothing_and_a_session_that_works(large_stages: Any, fault: str, step: int) -> None:
    stage = await prepared(large_stages)
    await copy(stage)
    before = stage.runtime.session.surface.events
    if stage.engine.info is None:
        await stage.agent.services.model.ensure(Cancel())
    faults = Faults(stage, fault, step)
    with watched(stage, faults):
        result = await next_prompt(stage)
        got = outcome(stage, before)
    assert faults.met
    RESULTS[fault, step] = got
    assert got in allowed(fault, step)
    # The turn ends as it should: what only concerns the compaction does not concern the prompt.
    assert (result.stop_reason == "end") == (fault in ("cancel", "surface changes")), result
    await aftermath(stage, before, got)


async def aftermath(stage: Any, before: list[Any], was: str) -> None:
    """No event is lost, the next turn works, and so does the next compaction."""
    result = await next_prompt(stage)
    assert (result.stop_reason, result.text) == ("end", "Yes.")
    log_is_whole(stage)
    await kv_is_the_transcripts(stage)
    if was in (NOTHING, RECORDED, OPEN):
        again = await compact(stage)
        assert again.compacted or stage.runtime.session.state.compactions == 1, again.reason
    assert stage.runtime.session.surface[0].data["kind"] == "checkpoint"
    assert "remember the port 8123" in stage.runtime.session.surface[0].data["parts"]["task"]
    kept = {event.seq for event in stage.events()}
    assert {event.seq for event in before} <= kept
    log_is_whole(stage)


@pytest.mark.parametrize("step", range(len(STEPS)), ids=[f"{step + 1}-{name}" for step, name in enumerate(STEPS)])
async def test_a_kill_leaves_all_or_nothing_and_a_session_that_works(large_stages: Any, step: int) -> None:
    stage = await prepared(large_stages)
    await copy(stage)
    session, before = stage.runtime.id, stage.runtime.session.surface.events
    await stage.agent.sessions._close(stage.runtime)
    program = (str(HERE / "compaction_killed.py"), str(stage.root), str(stage.model), session, str(step))
    victim = await asyncio.create_subprocess_exec(sys.executable, *program, stderr=asyncio.subprocess.PIPE)
    _, said = await victim.communicate()
    assert victim.returncode == -signal.SIGKILL, said.decode()[-2000:]
    left = (stage.agent.sessions.store.find(session) / "events.jsonl").read_bytes().splitlines()
    stage.agent.sessions.switch(session)
    recovered = [event for event in stage.runtime.session.recovered if event.type == "compact/end"]
    got = outcome(stage, before)
    if recovered:
        assert (recovered[0].data.get("recovered", False), recovered[0].data.get("error")) in (
            (True, None),
            (False, "orphaned"),
        )
        got = OPEN_REPLACED if recovered[0].data.get("recovered") else OPEN
    RESULTS["SIGKILL", step] = got
    assert got in allowed("SIGKILL", step)
    assert len(stage.events()) >= len(left), "no event is lost"
    await aftermath(stage, before, got)


def table(results: dict[tuple[str, int], str]) -> str:
    rows = ["| fault, just before | " + " | ".join(FAULTS) + " |", "|---" * (len(FAULTS) + 1) + "|"]
    for step, name in enumerate(STEPS):
        cells = [skipped(fault, step) or results[fault, step] for fault in FAULTS]
        rows.append(f"| {step + 1}. {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


async def test_the_documented_table_is_what_these_runs_came_to() -> None:
    """Needs the other tests of this file; by itself it compares what the document says with the specification."""
    written = DOCUMENT.read_text("utf-8")
    if len(RESULTS) == len(CELLS) + len(STEPS):
        assert table(RESULTS) in written, f"put this into {DOCUMENT.name}:\n{table(RESULTS)}"
    numbers = tuple(f"| {number}. " for number in range(1, len(STEPS) + 1))
    rows = [line.split(" | ") for line in written.splitlines() if line.startswith(numbers)]
    assert [row[0].removeprefix("| ").split(". ")[1] for row in rows] == list(STEPS)
    for step, row in enumerate(rows):
        for fault, cell in zip(FAULTS, [text.removesuffix(" |") for text in row[1:]], strict=True):
            assert cell == skipped(fault, step) or cell in allowed(fault, step), (fault, step)
