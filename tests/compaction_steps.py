"""The steps of a compaction on the real engine, and the faults that can meet each of them."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compacting import host_of, transcript

STEPS = (
    "append compact/start",
    "flush",
    "ask for the summary",
    "amid the summary",
    "append compact/summary",
    "flush",
    "append user/message",
    "append compact/end",
    "flush",
    "rebuild",
    "amid the rebuild",
)
ASK, AMID, SUMMARY, COMMIT, END, REBUILD = 2, 3, 4, 6, 7, 9
FAULTS = ("cancel", "engine dies", "one write fails", "disk full", "surface changes", "SIGKILL")
CONTEXT = 6144

SETTINGS = {"compaction": {"softPercent": 70, "tailPercent": 1, "summaryMaxTokens": 64}}
"""A small prompt is enough to go over the threshold, so that each cell of the table costs little."""


async def prepare(stage: Any) -> None:
    """A conversation that is summarised before the next prompt."""
    stage.script("Noted.", "Noted.", summaries=[])
    await stage.prompt("remember the port 8123")
    await stage.prompt("yes " * (CONTEXT * 70 // 100 - len(await transcript(stage)) - 16))


async def next_prompt(stage: Any) -> Any:
    stage.script("Yes.", "Yes.", delay=0.005, summaries=["The port is 8123, and there is much that was agreed to."] * 2)
    return await stage.prompt("go on with what is to be done now")


@contextmanager
def watched(stage: Any, faults: Faults) -> Iterator[None]:
    """``faults`` hears of each step just before it is done, and of its end. The steps themselves are the real ones."""
    host = host_of(stage)
    real = {name: getattr(host, name) for name in ("append", "sync", "summarise", "rebuild")}
    wanted = iter(enumerate(STEPS))

    def step(name: str) -> None:
        number, expected = next(wanted, (-1, ""))
        if name == expected:
            faults.before(number)

    def append(type: str, *arguments: Any, **named: Any) -> Any:
        step(f"append {type}")
        try:
            return real["append"](type, *arguments, **named)
        finally:
            faults.after()

    def sync() -> None:
        step("flush")
        try:
            real["sync"]()
        finally:
            faults.after()

    async def summarise(*arguments: Any) -> Any:
        step("ask for the summary")
        stage.engine.at = ("decode", 3, lambda: step("amid the summary"))
        return await real["summarise"](*arguments)

    async def rebuild(*arguments: Any) -> None:
        step("rebuild")
        stage.engine.at = ("prefill", 1, lambda: step("amid the rebuild"))
        await real["rebuild"](*arguments)

    host.append, host.sync, host.summarise, host.rebuild = append, sync, summarise, rebuild
    try:
        yield
    finally:
        stage.engine.at = None
        faults.heal()
        for name in real:
            delattr(host, name)


class Faults:
    """Does real harm, and undoes what of it would outlast a test."""

    def __init__(self, stage: Any, fault: str, at: int) -> None:
        self._stage = stage
        self._fault = fault
        self._at = at
        self._log: Path = stage.runtime.session.log.path
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._hidden: Path | None = None
        self.met = False

    def before(self, step: int) -> None:
        if step == self._at:
            self.met = True
            getattr(self, "_" + self._fault.replace(" ", "_"))(step)

    def after(self) -> None:
        if self._fault == "one write fails":
            self.heal()

    def heal(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        if self._hidden is not None:
            self._hidden.rename(self._log)
            self._hidden = None

    def _cancel(self, step: int) -> None:
        self._stage.agent.cancel_progress("compaction")

    def _engine_dies(self, step: int) -> None:
        os.kill(self._stage.engine.status.pid, signal.SIGKILL)

    def _one_write_fails(self, step: int) -> None:
        if STEPS[step] == "flush":
            # What nobody could find again is not written to; a moment later it is there again.
            self._hidden = self._log.with_suffix(".hidden")
            self._log.rename(self._hidden)
        else:
            self._disk_full(step)

    def _disk_full(self, step: int) -> None:
        """Not one byte more fits."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._log.stat().st_size, self._limits[1]))

    def _surface_changes(self, step: int) -> None:
        data = {"turn": self._stage.runtime.turn, "kind": "notice", "text": "By the way."}
        self._stage.runtime.session.append("user/message", data, surface_op={"op": "append"})

    def _SIGKILL(self, step: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
