"""``make eval``: jobs on a real model, through the server, as a table, JSON and transcripts."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ds4_lsp.cli.catalogue import CATALOGUE, DEFAULT, resolve
from ds4_lsp.cli.rpc import RpcError, ServerGone
from evals import report
from evals.job import Job
from evals.results import Limits, Run, read
from evals.runner import serving
from evals.suites import SUITES, chosen

ROOT = Path(__file__).resolve().parents[1]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evals", description=__doc__)
    parser.add_argument("--model", default=DEFAULT, help="a GGUF file, or a name of the catalogue")
    parser.add_argument("--suite", choices=SUITES, default="jobs")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a kind, a job, or a pattern")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N of the jobs; each kind takes its turn")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="N times, each with other names and order")
    parser.add_argument("--seed", type=int, default=0, help="the first one; 0 has the names of the page")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--tokens", type=int, default=Limits.tokens, help="most tokens generated in a job")
    parser.add_argument("--rounds", type=int, default=Limits.rounds, help="most replies in a job")
    parser.add_argument("--syntax", default="auto", help="how tool calls are written: the setting ds4.tools.syntax")
    parser.add_argument("--context", type=int, default=Limits.context, help="the model's context, in tokens")
    parser.add_argument("--transcripts", type=Path, help="where they are kept; a new folder in build-evals else")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--against", type=Path, metavar="JSON", help="an earlier run: say which jobs changed")
    parser.add_argument("--peer", type=Path, metavar="JSON", help="a run of `make eval-peer`, for the page")
    parser.add_argument("--page", type=Path, help="write the tables into that page")
    parser.add_argument("--from", dest="finished", type=Path, metavar="JSON", help="run nothing: tell of that run")
    parser.add_argument("--list", action="store_true", help="run nothing: name the jobs")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    try:
        jobs = chosen(SUITES[args.suite], range(args.seed, args.seed + args.repeat), args.only)[: args.first]
        old = read(args.against) if args.against else None
        peer = read(args.peer) if args.peer else None
        run = read(args.finished) if args.finished else None
    except (OSError, ValueError) as error:
        return _fail(str(error))
    if args.list:
        print("\n".join(f"{job.kind:7} {job.name}" for job in jobs))
        return 0
    if run is None:
        path = resolve(args.model) or args.model
        if not Path(path).is_file():
            known = ", ".join(CATALOGUE)
            return _fail(f"there is no file {path}. Fetch one by `ds4-lsp model fetch NAME`: {known}")
        try:
            with place() as folder:
                run = asyncio.run(_run(args, str(Path(path).resolve()), jobs, folder))
        except (ServerGone, RpcError) as error:
            return _fail(str(error))
    _tell(args, old, peer, run)
    return 0


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """The folder of a run. The same for all that run alone, since its name is part of what the model reads."""
    for number in itertools.count(1):
        folder = Path(tempfile.gettempdir()).resolve() / ("ds4-lsp-evals" + (f"-{number}" if number > 1 else ""))
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(folder / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        if number > 1:
            print(f"another run goes on: this one is in {folder}, and may come out differently", file=sys.stderr)
        try:
            yield folder
        finally:
            lock.release()
        return


async def _run(args: argparse.Namespace, model: str, jobs: Sequence[Job], folder: Path) -> Run:
    limits = Limits(args.tokens, args.rounds, args.context)
    run = Run(_about(args, Path(model).stem))
    sampling: dict[str, Any] = {"temperature": args.temperature, "seed": args.seed}
    stamp = f"{datetime.datetime.now():%Y-%m-%d-%H%M%S}"
    transcripts = args.transcripts or ROOT / "build-evals" / f"{Path(model).stem}-{stamp}"
    async with serving(folder, model, limits, transcripts, sampling, syntax=args.syntax) as server:
        for job in jobs:
            result = await server.run(job)
            run.results.append(result)
            print(report.line(result), flush=True)
            if args.json:
                args.json.write_text(run.as_json(), encoding="utf-8")
    print(f"transcripts: {transcripts}")
    return run


def _tell(args: argparse.Namespace, old: Run | None, peer: Run | None, run: Run) -> None:
    print(report.summary(run.results))
    if old is not None:
        before, after = report.common([old, run])
        print(f"before, the same {len(before)} jobs: {report.summary(before)}")
        print("\n".join(report.changes(before, after)) or "no job changed")
    if args.page:
        report.write_section(args.page, str(run.about["model"]), report.section(old, run, peer))


def _about(args: argparse.Namespace, model: str) -> dict[str, Any]:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "model": model,
        "commit": commit or "unknown",
        "date": datetime.date.today().isoformat(),
        "temperature": args.temperature,
        "tokens": args.tokens,
        "rounds": args.rounds,
        "context": args.context,
        "syntax": args.syntax,
    }


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
