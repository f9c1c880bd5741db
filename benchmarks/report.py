"""Rows as a Markdown table and as JSON; whether a row meets its target."""

from __future__ import annotations

import dataclasses
import json
import operator
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Row

BEGIN, END = "<!-- results: written by `make bench` -->", "<!-- end of results -->"
_COMPARE = {"≤": operator.le, "<": operator.lt, "≥": operator.ge, ">": operator.gt}
_CLAUSE = re.compile(r"([≤<≥>]) ([0-9.]+) × `(\w+)`")
_MEASURED = re.compile(r"([0-9.e+-]+) × \([^)]*\) `(?:\w+\.)?(\w+)`")


def verdict(row: Row) -> bool | None:
    """Whether the row reaches its target: as it says, or else by what its texts say of each name (``2.1 × (…) `crc32```
    against ``≤ 3 × `crc32```). None where there is nothing to reach or nothing was measured."""
    if row.met is not None or row.missing:
        return row.met
    clauses, measured = _CLAUSE.findall(row.target), {name: float(n) for n, name in _MEASURED.findall(row.value)}
    if not clauses or any(name not in measured for _, _, name in clauses):
        return None
    return all(_COMPARE[sign](measured[name], float(limit)) for sign, limit, name in clauses)


def word(row: Row) -> str:
    if row.missing:
        return "not measured"
    return {True: "met", False: "**MISSED**", None: ""}[verdict(row)]


def table(rows: Sequence[Row]) -> str:
    lines = ["| what | against | measured | reach | |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.what} | {row.against or '–'} | {row.value} | {row.target or '–'} | {word(row)} |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def summary(rows: Sequence[Row]) -> str:
    """One line: how many targets are met, and the rows that miss theirs."""
    reached = [verdict(row) for row in rows]
    missed = [row.what for row, met in zip(rows, reached, strict=True) if met is False]
    text = f"{reached.count(True)} targets met, {len(missed)} missed"
    return f"{text}: {'; '.join(missed)}" if missed else text


def as_json(rows: Sequence[Row], machine: Mapping[str, Any]) -> str:
    found = [dataclasses.asdict(row) | {"met": verdict(row)} for row in rows]
    return json.dumps({"machine": machine, "rows": found}, indent=1, ensure_ascii=False) + "\n"


def described(machine: Mapping[str, Any]) -> str:
    """A sentence about where and how it was measured."""
    devices = ", ".join(machine["devices"]) if machine["gpu"] else "no GPU"
    return (
        f"{machine['cores']} cores ({machine['cpu']}), {devices}; {machine['threads']} threads; "
        f"model {machine['model']}; llama.cpp of llama-cpp-python {machine['binding']}; Python {machine['python']}; "
        f"{machine['date']}, {machine['size']} run of {machine['seconds']:.0f} s."
    )


def pictures(plots: Path, page: Path) -> str:
    """The plots that are there, as the page shows them."""
    found = sorted(plots.glob("*.svg"))
    lines = [f"![{path.stem}]({Path(os.path.relpath(path, page.parent)).as_posix()})" for path in found]
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def write_between(path: Path, text: str) -> None:
    """Put ``text`` between the page's markers. Raises ``ValueError`` where they are not."""
    page = path.read_text(encoding="utf-8")
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no {BEGIN} … {END}")
    path.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{tail}", encoding="utf-8")
