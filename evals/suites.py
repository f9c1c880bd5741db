"""Suites of jobs by name, and how jobs of them are chosen."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import random
from collections.abc import Callable, Sequence

from evals.job import Builder, Job, Vary
from evals.kinds import answer, create, edit, edits, files, find, fix, refuse

KINDS: dict[str, Sequence[Builder]] = {
    "answer": answer.JOBS,
    "find": find.JOBS,
    "edit": edit.JOBS,
    "edits": edits.JOBS,
    "files": files.JOBS,
    "create": create.JOBS,
    "fix": fix.JOBS,
    "refuse": refuse.JOBS,
}

Suite = Callable[[int], list[Job]]
"""The jobs for a seed, in the order in which they run."""


def small_jobs(seed: int) -> list[Job]:
    """Every kind in turn, so that a run that is cut short has some of each; shuffled at other seeds than 0."""
    rounds = itertools.zip_longest(*([built(one, kind, seed) for one in some] for kind, some in KINDS.items()))
    jobs = [job for jobs in rounds for job in jobs if job is not None]
    if seed:
        random.Random(seed).shuffle(jobs)
    return jobs


def built(builder: Builder, kind: str, seed: int) -> Job:
    name = builder.__name__.replace("_", "-")
    return dataclasses.replace(builder(Vary(seed, name)), name=name, kind=kind, seed=seed)


SUITES: dict[str, Suite] = {"jobs": small_jobs}


def chosen(suite: Suite, seeds: Sequence[int], only: Sequence[str]) -> list[Job]:
    """The jobs whose kind or name is among ``only`` (patterns, or several with commas); all where there is none.

    ``ValueError``: a pattern fits no job.
    """
    patterns = [part for text in only for part in text.split(",") if part]
    jobs = [job for seed in seeds for job in suite(seed)]
    for pattern in patterns:
        if not any(_fits(job, pattern) for job in jobs):
            raise ValueError(f"--only: no job and no kind is called {pattern}")
    return [job for job in jobs if not patterns or any(_fits(job, pattern) for pattern in patterns)]


def _fits(job: Job, pattern: str) -> bool:
    return job.kind == pattern or fnmatch.fnmatch(job.name, pattern)
