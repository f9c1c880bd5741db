"""What a run changed that the job did not call for, by its reference solution."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping, Sequence

from evals.job import Job

BYTECODE = ("*.pyc", ".DS_Store")


def damage(job: Job, left: Mapping[str, bytes]) -> list[str]:
    """One line per file or line that should have stayed as it was; ``left`` are the files that the run left."""
    start, solved = job.start(), job.solved()
    found: list[str] = []
    for path in sorted(start.keys() | left.keys()):
        if path not in left:
            found.append(f"{path} is gone")
        elif path not in start:
            if path not in solved and not _matches(path, (*job.artefacts, *BYTECODE)):
                found.append(f"{path} was not asked for")
        elif left[path] != start[path] and path not in job.rewritten:
            found += _lines(path, start[path], solved.get(path), left[path], free=path in job.free)
    return found


def _lines(path: str, start: bytes, solved: bytes | None, left: bytes, *, free: bool) -> list[str]:
    if solved is None or (solved == start and not free):
        return [f"{path} was changed"]
    before = _split(start)
    allowed = [_grown(before, low, high) for low, high in _hunks(before, _split(solved))]
    found = []
    for low, high in _hunks(before, _split(left)):
        if low == high and free:
            continue
        if not any(least <= low and high <= most for least, most in allowed):
            found.append(
                f"{path}:{low + 1} was changed" if high <= low + 1 else f"{path}:{low + 1}-{high} were changed"
            )
    return found


def _hunks(before: Sequence[bytes], after: Sequence[bytes]) -> list[tuple[int, int]]:
    """Lines of ``before``, from 0, that are not the same in ``after``: half-open ranges, empty for an insertion."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [(low, high) for tag, low, high, _, _ in matcher.get_opcodes() if tag != "equal"]


def _grown(before: Sequence[bytes], low: int, high: int) -> tuple[int, int]:
    """The range with equal lines beside it: which of two equal lines was removed says nothing."""
    least, most = low, high
    while low < high and least > 0 and before[least - 1] == before[least - 1 + high - low]:
        least -= 1
    while low < high and most < len(before) and before[most] == before[most - high + low]:
        most += 1
    return least, most


def _split(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


def _matches(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
