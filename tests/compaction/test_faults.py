"""Every fault at every step of the transaction, on a real log and a played engine.

The same on the real engine, and the table in docs/compaction.md: tests/agent/test_compaction_faults.py."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.compaction import Compacted, Failed, Nothing, compact
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import Ds4Error, EngineDied, StorageFailed
from ds4_lsp.session.session import Session
from ds4_lsp.session.surface import Surface

HERE = Path(__file__).parent

STEPS = (
    "append compact/start",
    "flush",
    "summarise",
    "append compact/summary",
    "flush",
    "append user/message",
    "append compact/end",
    "flush",
    "rebuild",
)
SUMMARISE, COMMIT, END = 2, 5, 6
FAULTS = ("cancel", "engine dies", "one write fails", "disk full", "surface changes", "SIGKILL")

NOTHING = "nothing written"
RECORDED = "unchanged, error recorded"
OPEN = "unchanged, settled later"
OPEN_REPLACED = "compacted, settled later"
DONE = "compacted"
IMPOSSIBLE = "cannot happen"

MakeHost = Callable[..., Any]


def expected(fault: str, step: int) -> str:
    """The rule behind each cell, from the specification."""
    rebuild = len(STEPS) - 1
    if fault in ("cancel", "engine dies", "surface changes"):
        if step <= SUMMARISE:
            return RECORDED
        return IMPOSSIBLE if fault == "surface changes" and step < rebuild else DONE
    # What follows is about writing.
    once = fault == "one write fails"
    if once and step in (SUMMARISE, rebuild):
        return DONE
    if 0 < step <= COMMIT:
        return RECORDED if once else OPEN
    return {0: NOTHING, END: OPEN_REPLACED}.get(step, DONE)


def conversation(host: Any) -> None:
    for number in range(4):
        host.exchange(f"request {number}", 40 if number == 3 else 300)


def inject(host: Any, fault: str, step: int, cancel: Cancel) -> None:
    seen = -1

    def before(name: str) -> None:
        nonlocal seen
        seen += 1
        writes = not name.startswith(("summarise", "rebuild"))
        if fault == "cancel" and seen == step:
            cancel.set()
        elif fault == "engine dies" and seen >= step and not writes:
            raise EngineDied("the engine process ended: signal 6")
        elif writes and ((fault == "disk full" and seen >= step) or (fault == "one write fails" and seen == step)):
            raise StorageFailed("no space left on device")
        elif fault == "surface changes" and seen == step:
            host.user("one more thing", "notice")

    host.before_step = before


def outcome(host: Any, before: list[int]) -> str:
    """What the log and the surface say happened."""
    events = [event for event in host.events() if event.type.startswith("compact/")]
    replaced = host.tree[0].data.get("kind") == "checkpoint"
    kept = [seq for seq in before if seq in host.tree.seqs]
    if not replaced:
        assert kept == before
    if not events:
        return NOTHING
    assert events[0].type == "compact/start"
    if events[-1].type != "compact/end":
        return OPEN_REPLACED if replaced else OPEN
    assert replaced == ("error" not in events[-1].data)
    assert len([event for event in events if event.type == "compact/end"]) == 1
    return DONE if replaced else RECORDED


async def check_aftermath(host: Any, before: list[int], was: str) -> None:
    """Whatever happened, the log is whole and the next compaction works."""
    host.before_step = lambda _step: None
    assert Surface(host.events()).seqs == host.tree.seqs
    following = await compact(host, "manual", cancel=Cancel())
    if was in (DONE, OPEN_REPLACED):
        assert isinstance(following, Nothing)
    else:
        assert isinstance(following, Compacted)
    assert host.types().count("compact/start") == host.types().count("compact/end")
    assert all(event.type != "compact/end" or "turn" in event.data for event in host.events())
    assert Surface(host.events()).seqs == host.tree.seqs
    kept = [seq for seq in host.tree.seqs if seq in before]
    assert kept
    assert kept == before[-len(kept) :]


CELLS = [
    pytest.param(fault, step, id=f"{fault}-{step + 1}-{name}")
    for fault in FAULTS
    for step, name in enumerate(STEPS)
    # Kills have a test of their own; that the impossible is so, has one too.
    if fault != "SIGKILL" and expected(fault, step) != IMPOSSIBLE
]


@pytest.mark.parametrize(("fault", "step"), CELLS)
async def test_a_fault_leaves_all_or_nothing(make_host: MakeHost, fault: str, step: int) -> None:
    host, cancel = make_host(), Cancel()
    conversation(host)
    before = host.tree.seqs
    inject(host, fault, step, cancel)
    raised: Ds4Error | None = None
    answer: object = None
    try:
        answer = await compact(host, "soft", cancel=cancel)
    except Ds4Error as error:
        raised = error
    got = outcome(host, before)
    assert got == expected(fault, step)
    if fault in ("disk full", "one write fails"):
        assert isinstance(raised, StorageFailed) or got == DONE
    elif fault == "engine dies":
        assert isinstance(raised, EngineDied) if got == RECORDED else isinstance(answer, Compacted)
        assert not isinstance(answer, Compacted) or isinstance(answer.rebuild_error, EngineDied)
    elif got == RECORDED:
        assert isinstance(answer, Failed)
        assert answer.cancelled == (fault == "cancel")
    begun = [kind for kind, _data in host.emitted if kind == "compaction.start"]
    ended = [kind for kind, _data in host.emitted if kind == "compaction.end"]
    assert len(begun) == len(ended) == len(host.ended) == (got != NOTHING)
    host.emitted.clear()
    host.ended.clear()
    if fault == "surface changes" and got == RECORDED:
        before = host.tree.seqs
    await check_aftermath(host, before, got)


async def test_nothing_can_interfere_while_the_commit_is_written(make_host: MakeHost) -> None:
    host = make_host()
    conversation(host)
    turns = 0
    at_step: list[int] = []

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    host.before_step = lambda _step: at_step.append(turns)
    task = asyncio.create_task(other())
    try:
        assert isinstance(await compact(host, "soft", cancel=Cancel()), Compacted)
    finally:
        task.cancel()
    assert len(at_step) == len(STEPS)
    assert len(set(at_step[SUMMARISE + 1 :])) == 1
    assert at_step[SUMMARISE] < at_step[SUMMARISE + 1]
    assert at_step[0] == at_step[1], "compact/start is flushed before anything can yield"


def test_a_kill_between_any_two_steps_loses_nothing_and_is_settled_on_open(
    tmp_path: Path, host_class: type[Any]
) -> None:
    program = [sys.executable, str(HERE / "killed_at_each_step.py"), str(tmp_path), str(len(STEPS))]
    subprocess.run(program, check=True, timeout=120)
    for step in range(len(STEPS)):
        asyncio.run(_reopen(tmp_path / str(step), step, host_class))


async def _reopen(directory: Path, step: int, host_class: type[Any]) -> None:
    session = Session.open(directory)
    try:
        recovered = [event for event in session.recovered if event.type == "compact/end"]
        want = expected("SIGKILL", step)
        assert [event.data.get("error") for event in recovered] == {OPEN: ["orphaned"], OPEN_REPLACED: [None]}.get(
            want, []
        )
        host = host_class(session.log, session.surface)
        before = [event.seq for event in host.events() if event.type in ("assistant/message", "tool/result")]
        assert len(before) == 12, "an event was lost"
        prompts = [event for event in host.events() if event.data.get("kind") == "prompt"]
        everything = sorted(before + [event.seq for event in prompts])
        assert (host.tree.seqs == everything) == (want in (NOTHING, OPEN))
        await check_aftermath(host, everything, want)
    finally:
        session.close()
