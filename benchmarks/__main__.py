"""``make bench``: what the server adds, as ratios and counts: a Markdown table, JSON, and two plots."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import counts, edits, latency, log, machine, report, restore, speed, start
from benchmarks.bare import Setup
from benchmarks.measure import Row
from benchmarks.model import small_model
from benchmarks.sizes import FULL, QUICK, Sizes
from benchmarks.tiny_model import build

Group = Callable[[], list[Row]]


def groups(setup: Setup, tiny: Setup, sizes: Sizes, plots: Path | None) -> dict[str, Group]:
    """Everything that is measured, by the names that ``--only`` takes. ``tiny``: for what does not depend on the
    model's weights, counts and the size of what is not the model."""
    return {
        "speed": lambda: asyncio.run(speed.rows(setup, sizes)),
        "counts": lambda: asyncio.run(counts.rows(tiny, sizes)),
        "restore": lambda: restore.rows(setup.model, sizes.restored, sizes.restores),
        "latency": lambda: asyncio.run(latency.rows(setup, sizes, plots)),
        "start": lambda: asyncio.run(start.initialize_rows(sizes)),
        "log": lambda: log.rows(sizes.events, plots=plots),
        "edits": lambda: edits.rows(sizes.edits, sizes.lines),
        "memory": lambda: asyncio.run(start.memory_rows(dataclasses.replace(tiny, prompts=None), sizes)),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="speed, counts, latency, …")
    parser.add_argument("--model", type=Path, help="GGUF file; the default is small, so that overhead shows")
    parser.add_argument("--threads", type=int, help="of llama.cpp, on all sides; the server's default else")
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--page", type=Path, help="write the table between the markers of that page")
    parser.add_argument("--plots", type=Path, help="write the plots into that folder")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    found = machine.probe()
    gpu = any(device["kind"] in ("gpu", "igpu") for device in found["devices"])
    sizes = QUICK if args.quick else FULL
    setup = Setup(args.model or small_model(), sizes.context, args.threads or machine.cores(), gpu)
    place = machine.describe(found, setup, "quick" if args.quick else "full")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        setup = dataclasses.replace(setup, prompts=Path(folder))
        tiny = dataclasses.replace(setup, model=build(setup.model, Path(folder) / "tiny.gguf", sizes.context))
        rows = measure(groups(setup, tiny, sizes, args.plots), args.only)
    place["seconds"] = time.monotonic() - began
    text = f"{report.described(place)}\n\n{report.table(rows)}\n{report.summary(rows)}.\n"
    print(text)
    if args.page:
        pictures = report.pictures(args.plots, args.page) if args.plots else ""
        report.write_between(args.page, text + pictures)
    if args.json:
        args.json.write_text(report.as_json(rows, place), encoding="utf-8")


def measure(groups: dict[str, Group], only: list[str]) -> list[Row]:
    """Run the groups, or those named; each says on stderr how long it took."""
    unknown = set(only) - set(groups)
    if unknown:
        raise SystemExit(f"--only: there is no {', '.join(sorted(unknown))}; choose of {', '.join(groups)}")
    rows: list[Row] = []
    for name, run in groups.items():
        if only and name not in only:
            continue
        began = time.monotonic()
        rows += run()
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
