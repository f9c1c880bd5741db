"""Tables of one run and of two, for the screen and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evals.results import Result, Run, Sums, sums
from evals.suites import KINDS


def line(result: Result) -> str:
    """One job, as it is told while the run goes on."""
    mark = "solved" if result.solved else "      "
    damaged = f"  DAMAGED {'; '.join(result.damage)}" if result.damage else ""
    why = f"  {' '.join(result.why.split())}" if result.why else ""
    seed = f" ({result.seed})" if result.seed else ""
    return (
        f"{mark} {result.kind:7} {result.job + seed:24} read {result.evaluated:5} + {result.cached:6} cached, "
        f"wrote {result.generated:4}, {result.rounds:2} rounds, {result.failed} of {result.calls} calls failed, "
        f"{result.ended}{why[:160]}{damaged[:160]}"
    )


def summary(results: Sequence[Result]) -> str:
    found = sums(results)
    each = "" if found.generated_per_solved is None else f" ({found.generated_per_solved:.0f} a solved job)"
    return (
        f"{found.solved} of {found.jobs} solved, {found.damaged} damaged; {found.evaluated:,} tokens evaluated, "
        f"{found.cached:,} cached, {found.generated:,} generated{each}; "
        f"{found.rounds} rounds; {found.failed} of {found.calls} calls failed ({found.failed_share:.0%})"
    )


def changes(old: Sequence[Result], new: Sequence[Result]) -> list[str]:
    """Which jobs came out differently; only jobs that are in both runs."""
    before = {result.key: result for result in old}
    found = []
    for after in new:
        earlier = before.get(after.key)
        if earlier is None:
            continue
        told = []
        if earlier.solved != after.solved:
            told.append("now solved" if after.solved else f"no longer solved: {after.why}")
        if bool(earlier.damage) != bool(after.damage):
            told.append(f"now damaged: {'; '.join(after.damage)}" if after.damage else "no longer damaged")
        if told:
            found.append(f"{after.kind} {after.job}{f' ({after.seed})' if after.seed else ''}: {', '.join(told)}")
    return found


def common(runs: Sequence[Run]) -> list[list[Result]]:
    """Each run's results of the jobs that all of them ran."""
    keys = set.intersection(*({result.key for result in run.results} for run in runs))
    return [[result for result in run.results if result.key in keys] for run in runs]


_ROWS: tuple[tuple[str, str], ...] = (
    ("solved", "jobs solved"),
    ("damaged", "jobs with damage"),
    ("evaluated", "tokens evaluated"),
    ("cached", "tokens reused from the KV"),
    ("generated", "tokens generated"),
    ("rounds", "rounds"),
)


def overview(runs: Sequence[tuple[str, Run]]) -> str:
    """A Markdown table with a column for each run, of the jobs that all of them ran."""
    shared = common([run for _, run in runs])
    found = [sums(results) for results in shared]
    rows = [["", *(label for label, _ in runs)], ["---"] * (len(runs) + 1)]
    rows += [[label, *(_of(each, name) for each in found)] for name, label in _ROWS]
    rows.append(["tokens generated for each job solved", *(_each(one) for one in found)])
    rows.append(["calls that failed", *(f"{one.failed} of {one.calls} ({one.failed_share:.0%})" for one in found)])
    for kind in KINDS:
        each = [sums([result for result in results if result.kind == kind]) for results in shared]
        if each[0].jobs:
            rows.append([f"solved of *{kind}*", *(_of(one, "solved") for one in each)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _of(found: Sums, name: str) -> str:
    value = int(getattr(found, name))
    return f"{value} of {found.jobs}" if name in ("solved", "damaged") else f"{value:,}"


def _each(found: Sums) -> str:
    return "–" if found.generated_per_solved is None else f"{found.generated_per_solved:.0f}"


def jobs(old: Run | None, new: Run) -> str:
    """A Markdown table with a row for each job of ``new``, with what it came to in ``old``."""
    before = {result.key: result for result in old.results} if old else {}
    counts = ["read", "cached", "wrote", "rounds", "failed", "ended"]
    head = ["kind", "job", *(["before", "now"] if old else ["solved"]), *counts]
    rows = [head, ["---"] * len(head)]
    kinds = list(KINDS)
    for result in sorted(new.results, key=lambda one: (kinds.index(one.kind), one.job, one.seed)):
        earlier = before.get(result.key)
        name = result.job + (f" ({result.seed})" if result.seed else "")
        rows.append(
            [
                result.kind,
                name,
                *([_mark(earlier)] if old else []),
                _mark(result),
                f"{result.evaluated:,}",
                f"{result.cached:,}",
                f"{result.generated:,}",
                str(result.rounds),
                f"{result.failed}/{result.calls}",
                result.ended,
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _mark(result: Result | None) -> str:
    if result is None:
        return "–"
    return ("yes" if result.solved else "no") + (", **damaged**" if result.damage else "")


def described(run: Run) -> str:
    about = run.about
    calls = f", calls written as `{about['syntax']}`" if "syntax" in about else ""
    return (
        f"{about['model']}, commit {about['commit']}, temperature {about['temperature']}, at most {about['tokens']} "
        f"tokens and {about['rounds']} rounds a job, context {about['context']}{calls}, {about['date']}."
    )


def section(old: Run | None, new: Run, peer: Run | None) -> str:
    """What the page says of a model."""
    runs = [("before", old), ("now" if old else str(new.about["commit"]), new), ("mini-swe-agent", peer)]
    shown = [(label, run) for label, run in runs if run is not None]
    told = "\n".join(f"- {label}: {described(run)}" for label, run in shown)
    return f"{told}\n\n{overview(shown)}\n{jobs(old, new)}"


def write_section(page: Path, name: str, text: str) -> None:
    """Put ``text`` between the page's markers for ``name``, which are added before the page's end marker where they are
    not. Raises ``ValueError`` where there is no end marker."""
    begin, end, last = f"<!-- results: {name} -->", f"<!-- end: {name} -->", "<!-- end of results -->"
    whole = page.read_text(encoding="utf-8")
    if begin not in whole:
        if last not in whole:
            raise ValueError(f"{page} has no {last}")
        whole = whole.replace(last, f"### {name}\n\n{begin}\n{end}\n\n{last}")
    head, _, rest = whole.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError(f"{page} has no {end}")
    page.write_text(f"{head}{begin}\n\n{text}\n{end}{tail}", encoding="utf-8")
