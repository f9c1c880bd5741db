"""Appending to a session's log, and opening it as a starting server does, by events."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bare import environment
from benchmarks.measure import Row, Spread, seconds, spread
from benchmarks.plot import Axis, save, svg
from ds4_lsp.session.events import APPEND
from ds4_lsp.session.session import Session
from ds4_lsp.session.store import SessionStore

SLACK = 1.5
"""How much more an event may cost in a long log than in the shortest one."""


@dataclass(frozen=True)
class Measured:
    """Microseconds an event, and megabytes by which the process grew. ``size``: events."""

    size: int
    append: float
    opened: Spread
    grown: float

    @property
    def seconds(self) -> float:
        return self.opened.median * self.size / 1e6


def rows(sizes: tuple[int, ...], rounds: int = 3, plots: Path | None = None) -> list[Row]:
    measured = [_measure(size, rounds) for size in sizes]
    if plots is not None:
        save(plots / "open.svg", plot(measured))
    return [row for one in measured for row in rows_of(one, measured[0])]


def rows_of(one: Measured, first: Measured) -> list[Row]:
    """``first``: the shortest log, whose fixed costs weigh most."""
    name = f"log of {one.size:,} events"
    return [
        Row(
            f"append, {name}",
            f"{one.append:.0f} µs an event",
            "flat",
            f"{first.size:,} events",
            one.append <= SLACK * first.append,
            figures={"microseconds": one.append},
        ),
        Row(
            f"open, {name}",
            f"{one.seconds:.3g} s, {one.opened.text()} µs an event; {one.grown:.0f} MB",
            "linear",
            f"{first.size:,} events",
            one.opened.median <= SLACK * first.opened.median,
            figures={"seconds": one.seconds, "megabytes": one.grown},
        ),
    ]


def plot(measured: Sequence[Measured]) -> str:
    points = [(one.size, one.seconds) for one in measured]
    return svg("Opening a session", Axis("events", log=True), Axis("seconds", log=True), {"open": points}, marks=True)


def _measure(size: int, rounds: int) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        session = SessionStore(base / "sessions", [base]).create()
        append = seconds(lambda: _fill(session, size))
        session.close()
        found = [_open(base) for _ in range(rounds)]
    opened = spread([1e6 * took / size for took, _ in found])
    return Measured(size, 1e6 * append / size, opened, spread([grown for _, grown in found]).median)


def _fill(session: Session, size: int) -> None:
    """Turns of five events; every hundredth speaks to the model, the others run a job."""
    for number in range(size // 5):
        queued = session.append("prompt/queued", {"text": "go on", "context": []})
        session.append("turn/start", {"turn": number + 1, "queued": queued.seq})
        prompt = {"turn": number + 1, "kind": "notice", "text": "word " * 20}
        if number % 100 == 0:
            session.append("user/message", prompt, surface_op=APPEND)
        else:
            session.append("job/started", {"turn": number + 1, "job": number, "command": "word " * 20})
            session.append("job/ended", {"turn": number + 1, "job": number, "state": "exited", "exitStatus": 0})
        session.append("turn/end", {"turn": number + 1, "stopReason": "end"})


def _open(base: Path) -> tuple[float, float]:
    """Processor seconds and megabytes, of a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.resume", str(base / "sessions"), str(base)]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment()).stdout)
    return found["seconds"], found["grown"] / 1e6
