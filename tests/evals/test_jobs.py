"""Every check is proven both ways without a model: it refuses what was not done, and accepts a reference solution."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from evals.after import After, snapshot
from evals.damage import damage
from evals.job import Job
from evals.suites import KINDS, small_jobs

SEEDS = (0, 1)
JOBS = {f"{job.kind}-{job.name}-{seed}": job for seed in SEEDS for job in small_jobs(seed)}


def left(job: Job, folder: Path, files: Mapping[str, bytes], answer: str) -> After:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    return After(folder, answer, job.start())


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
def test_a_check_refuses_what_was_not_done_and_accepts_the_solution(job: Job, tmp_path: Path) -> None:
    for name, answer in (("untouched", ""), ("echo", job.prompt), ("claim", "Done. I changed it as you asked.")):
        (tmp_path / name).mkdir()
        assert job.check(left(job, tmp_path / name, job.start(), answer)) is not None, f"{name} counts as solved"
    solved = tmp_path / "solved"
    solved.mkdir()
    after = left(job, solved, job.solved(), job.answer)
    found = snapshot(solved)
    assert damage(job, found) == []
    assert job.check(after) is None


@pytest.mark.parametrize("job", [job for job in JOBS.values() if job.seed == 0], ids=lambda job: job.name)
def test_a_stray_file_and_a_stray_line_are_damage(job: Job) -> None:
    assert damage(job, {**job.solved(), "stray.txt": b"x\n"}) == ["stray.txt was not asked for"]
    kept = [path for path in job.start() if path not in job.solution]
    for path in kept:
        changed = {**job.solved(), path: job.start()[path] + b"stray\n"}
        assert damage(job, changed) == [f"{path} was changed"]
    for path in set(job.start()) - set(job.rewritten):
        gone = {name: text for name, text in job.solved().items() if name != path}
        assert damage(job, gone) == [f"{path} is gone"]


@pytest.mark.parametrize("job", [job for job in JOBS.values() if job.seed == 0], ids=lambda job: job.name)
def test_other_seeds_give_other_names(job: Job) -> None:
    others = [other for seed in range(1, 9) for other in small_jobs(seed) if other.name == job.name]
    assert any((other.prompt, other.files) != (job.prompt, job.files) for other in others)


def test_names_are_unique_and_every_kind_has_jobs() -> None:
    names = [job.name for job in small_jobs(0)]
    assert len(names) == len(set(names))
    assert len(names) >= 40
    assert all(KINDS.values())


def test_solutions_leave_line_ends_as_they_are() -> None:
    windows = [job for job in JOBS.values() if any(b"\r\n" in text for text in job.start().values()) and job.solution]
    assert windows
    for job in windows:
        for path, text in job.solved().items():
            if b"\r\n" in job.start().get(path, b""):
                assert text.count(b"\n") == text.count(b"\r\n")


def test_the_same_seed_gives_the_same_jobs() -> None:
    assert [(j.name, j.prompt, j.start()) for j in small_jobs(3)] == [
        (j.name, j.prompt, j.start()) for j in small_jobs(3)
    ]
    assert [j.name for j in small_jobs(1)] != [j.name for j in small_jobs(2)]
