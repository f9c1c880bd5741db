"""What the server still answers while the model works, and how soon it stops when told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bare import BATCH, Setup, bare
from benchmarks.measure import Row, percentile, spread
from benchmarks.plot import Axis, save, svg
from benchmarks.served import Served, serving
from benchmarks.sizes import Sizes
from benchmarks.speed import STORY, WORD

PAUSE = 0.01
"""Seconds between two requests: an editor's pace, not a load test."""
BUDGET = 10.0
"""Milliseconds that the 99th percentile may lie above that of the idle server."""
CANCEL_BUDGET = 20.0
UNFINISHED = 4000
"""Tokens of a prompt that is cancelled while it is read."""
PHASES = ("idle", "prefill", "decoding")


@dataclass
class Samples:
    """Milliseconds of each request, by what the server did meanwhile."""

    answered: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in PHASES})


async def rows(setup: Setup, sizes: Sizes, plots: Path | None = None) -> list[Row]:
    samples = Samples()
    async with serving(setup, setup.settings(sizes.decode)) as served:
        document = (served.root / "workspace" / "a.txt").as_uri()
        opened = {"uri": document, "languageId": "plaintext", "version": 1, "text": "hello\n"}
        served.client.connection.notify("textDocument/didOpen", {"textDocument": opened})
        await served.prompt("Say hello.")
        await _probe_phases(served, document, sizes, samples)
    cancels = await _cancels(setup, sizes)
    if plots is not None:
        save(plots / "latency.svg", _plot(samples.answered))
    return [*_latency_rows(samples.answered), *cancels]


async def _probe_phases(served: Served, document: str, sizes: Sizes, samples: Samples) -> None:
    """Rounds of all three phases, until each has enough: a busy minute of the machine then meets all of them."""
    number = 0
    while any(len(samples.answered[phase]) < sizes.probes for phase in PHASES):
        number += 1
        await served.new_session()
        idle = asyncio.ensure_future(asyncio.sleep(sizes.probes * PAUSE / 2))
        await _probe(served, document, samples.answered["idle"], idle)
        generating = served.recorder.next(kind="state", state="generating")
        turn = asyncio.ensure_future(served.prompt(STORY.format(number) + WORD * sizes.prefill))
        await _probe(served, document, samples.answered["prefill"], generating, turn)
        await _probe(served, document, samples.answered["decoding"], turn)
        await turn


async def _probe(served: Served, document: str, into: list[float], *until: asyncio.Future[Any]) -> None:
    """Ask for code actions, again and again, until one of these is done."""
    params = {
        "textDocument": {"uri": document},
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}},
        "context": {"diagnostics": []},
    }
    while not any(future.done() for future in until):
        began = time.perf_counter()
        await served.client.connection.request("textDocument/codeAction", params)
        into.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(PAUSE)


def _latency_rows(answered: Mapping[str, Sequence[float]]) -> list[Row]:
    idle = percentile(answered["idle"], 99)
    rows = []
    for phase in PHASES:
        values = answered[phase]
        p50, p99, most = percentile(values, 50), percentile(values, 99), max(values)
        rows.append(
            Row(
                f"a code action request, {phase}",
                f"p50 {p50:.1f}, p99 {p99:.1f}, at most {most:.1f} ms ({len(values)} requests)",
                "" if phase == "idle" else f"p99 ≤ idle + {BUDGET:g} ms",
                "" if phase == "idle" else "the idle server",
                None if phase == "idle" else p99 <= idle + BUDGET,
                figures={"milliseconds": [round(value, 3) for value in values]},
            )
        )
    return rows


def _plot(answered: Mapping[str, Sequence[float]]) -> str:
    """The share of requests that were answered within a time."""
    lines = {}
    for phase, values in answered.items():
        ordered = sorted(values)
        lines[phase] = [(value, 100 * (at + 1) / len(ordered)) for at, value in enumerate(ordered)]
    return svg("Requests answered within a time", Axis("milliseconds", log=True), Axis("% of requests"), lines)


async def _cancels(setup: Setup, sizes: Sizes) -> list[Row]:
    """``ds4.interrupt`` to the prompt's reply, in the middle of a prefill and of a reply. One batch is timed on the
    bare loop, in an empty context: behind the system prompt it would take longer."""
    prefill: list[float] = []
    decoding: list[float] = []
    async with serving(setup, setup.settings(16)) as served, bare(setup) as loop:
        await served.prompt("Say hello.")
        await served.configure(setup.settings(2048))
        batch = 1000 * spread([await loop.prefill(0, BATCH) for _ in range(3)]).median
        token = 1000 * spread([await loop.decode(BATCH, 16) / 16 for _ in range(3)]).median
        for number in range(sizes.cancels):
            await served.new_session()
            prefill.append(await _interrupt(served, f"{number} " + WORD * UNFINISHED, "prefill"))
            await served.new_session()
            decoding.append(await _interrupt(served, STORY.format(number), "generating"))
    return [
        _cancel_row("while prefilling", prefill, batch, f"a batch of {BATCH} tokens"),
        _cancel_row("while decoding", decoding, token, "one token"),
    ]


async def _interrupt(served: Served, text: str, state: str) -> float:
    """Milliseconds from the command to the reply of the prompt."""
    reached = served.recorder.next(kind="state", state=state)
    turn = asyncio.ensure_future(served.client.command("ds4.prompt", {"text": text}))
    await reached
    began = time.perf_counter()
    await served.client.command("ds4.interrupt")
    result = await turn
    took = 1000 * (time.perf_counter() - began)
    if result["stopReason"] != "cancelled":
        raise RuntimeError(f"the turn ended before it was cancelled ({result['stopReason']})")
    return took


def _cancel_row(when: str, taken: Sequence[float], batch: float, what: str) -> Row:
    found = spread(taken)
    return Row(
        f"cancel to reply {when}",
        f"{found.text()} ms, at most {max(taken):.0f}; {what} takes {batch:.0f} ms",
        f"≤ 1 batch + {CANCEL_BUDGET:g} ms",
        what,
        max(taken) <= batch + CANCEL_BUDGET,
        figures={"milliseconds": list(taken), "batch": batch},
    )
