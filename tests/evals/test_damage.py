"""What the reference solution leaves alone must stay as it was, line ends included."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from evals.damage import damage
from evals.job import Job

TEXT = "a = 1\nb = 2\nc = 3\n\nd = 4\n"
JOB = Job(
    prompt="b is 5", check=lambda _after: None, files={"x.py": TEXT}, solution={"x.py": ("b = 2", "b = 5")}, name="x"
)


def told(text: str, job: Job = JOB) -> list[str]:
    return damage(job, {"x.py": text.encode()})


def test_the_line_that_was_meant_may_become_anything() -> None:
    assert told(TEXT) == []
    assert told(TEXT.replace("b = 2", "b = 5")) == []
    assert told(TEXT.replace("b = 2", "b = 6\nb = 7")) == []


@given(st.sampled_from([0, 2, 3, 4]), st.text("xyz", min_size=1))
def test_any_other_line_may_not(number: int, new: str) -> None:
    lines = TEXT.replace("b = 2", "b = 5").splitlines(keepends=True)
    lines[number] = new + "\n"
    assert told("".join(lines)) != []
    del lines[number]
    assert told("".join(lines)) != []


def test_lines_that_are_added_elsewhere_are_damage_unless_they_are_free_to_be() -> None:
    added = TEXT.replace("b = 2", "b = 5") + "e = 5\n"
    assert told(added) == ["x.py:6 was changed"]
    assert told(added, dataclasses.replace(JOB, free=("x.py",))) == []
    assert told(added.replace("d = 4\n", ""), dataclasses.replace(JOB, free=("x.py",))) != []
    assert told("", dataclasses.replace(JOB, rewritten=("x.py",))) == []


def test_line_ends_are_part_of_a_line() -> None:
    assert told(TEXT.removesuffix("\n")) == ["x.py:5 was changed"]
    assert told(TEXT.replace("\n", "\r\n")) != []


def test_either_of_two_equal_lines_may_be_removed() -> None:
    job = Job(prompt="", check=lambda _a: None, files={"x": "p\nq\nq\nr\n"}, solution={"x": "p\nq\nr\n"}, name="x")
    assert damage(job, {"x": b"p\nq\nr\n"}) == []
    assert damage(job, {"x": b"p\nr\n"}) == []
    assert damage(job, {"x": b"q\nq\nr\n"}) != []
