"""What a run came to: one row per job, sums, and JSON of both."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Limits:
    """Of one job. Tokens are generated ones."""

    tokens: int = 500
    rounds: int = 8
    context: int = 16384


@dataclass(frozen=True)
class Result:
    """One job. Counts of ``evaluated``, ``cached`` and ``generated`` are tokens.

    ``ended``: ``end`` (the model said that it was done), ``stopped`` (the agent ended the turn by itself), ``tokens``,
    ``rounds`` (a limit of the run), ``error``.
    """

    job: str
    kind: str
    seed: int
    solved: bool
    why: str
    """Why it is not solved; empty where it is."""
    damage: list[str]
    evaluated: int
    cached: int
    generated: int
    rounds: int
    calls: int
    failed: int
    ended: str
    note: str = ""
    """What the agent or the engine said about the end."""

    @property
    def key(self) -> tuple[str, int]:
        return self.job, self.seed


@dataclass(frozen=True)
class Run:
    """``about``: model, commit, date, limits and other circumstances."""

    about: dict[str, Any]
    results: list[Result] = field(default_factory=list)

    def as_json(self) -> str:
        rows = [dataclasses.asdict(result) for result in self.results]
        return json.dumps({"about": self.about, "results": rows}, indent=1, ensure_ascii=False) + "\n"


def read(path: Path) -> Run:
    """Errors: ``OSError``, ``ValueError`` (it is no run's JSON)."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Run(found["about"], [Result(**row) for row in found["results"]])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is not the JSON of a run: {error}") from error


@dataclass(frozen=True)
class Sums:
    jobs: int
    solved: int
    damaged: int
    evaluated: int
    cached: int
    generated: int
    rounds: int
    calls: int
    failed: int

    @property
    def failed_share(self) -> float:
        return self.failed / self.calls if self.calls else 0.0

    @property
    def generated_per_solved(self) -> float | None:
        """Tokens generated in all jobs for each one solved."""
        return self.generated / self.solved if self.solved else None


def sums(results: Sequence[Result]) -> Sums:
    def total(values: Iterable[int]) -> int:
        return sum(values)

    return Sums(
        jobs=len(results),
        solved=total(result.solved for result in results),
        damaged=total(bool(result.damage) for result in results),
        evaluated=total(result.evaluated for result in results),
        cached=total(result.cached for result in results),
        generated=total(result.generated for result in results),
        rounds=total(result.rounds for result in results),
        calls=total(result.calls for result in results),
        failed=total(result.failed for result in results),
    )
