"""What a job is: files, a prompt as a person would write it, a check of the result, and a solution that proves it.

A job is built by a function that takes :class:`Vary`, so that another seed gives other names and nothing overfits.
Texts that begin with a line break are dedented; others are taken as they are.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evals.after import After

Check = Callable[["After"], str | None]
"""Why the job is not solved; None: it is."""

Pair = tuple[str, str]
Edit = str | Pair | Sequence[Pair]
"""A whole new text, or replacements of texts that occur exactly once."""


class Vary:
    """Chooses names: the first ones at seed 0, others at others. The same seed and job give the same names."""

    def __init__(self, seed: int, job: str) -> None:
        self._random = random.Random(f"{seed}:{job}") if seed else None

    def __call__(self, *choices: str) -> str:
        return self._random.choice(choices) if self._random else choices[0]


@dataclass(frozen=True)
class Job:
    """``files``: relative path to text. ``context``: paths, with lines (1-based, inclusive) where some are selected,
    that the client sends with the prompt as an editor does. ``answer`` and ``solution``: a reference solution.

    What the solution leaves alone must stay as it is: anything else is damage. In ``free`` files lines may be added
    anywhere; ``rewritten`` files may change as a whole, and the check alone judges them.
    """

    prompt: str
    check: Check
    files: Mapping[str, str] = field(default_factory=dict)
    solution: Mapping[str, Edit] = field(default_factory=dict)
    answer: str = "Done."
    context: Sequence[str | tuple[str, int, int]] = ()
    free: Sequence[str] = ()
    rewritten: Sequence[str] = ()
    artefacts: Sequence[str] = ()
    """Patterns of files that a run of the job's own code may leave behind."""
    name: str = ""
    kind: str = ""
    seed: int = 0

    def start(self) -> dict[str, bytes]:
        """The workspace's files as bytes."""
        return {path: clean(text).encode() for path, text in self.files.items()}

    def solved(self) -> dict[str, bytes]:
        """The workspace's files once the reference solution is carried out. Raises ``ValueError`` where it does not
        fit the files."""
        found = {path: clean(text) for path, text in self.files.items()}
        for path, edit in self.solution.items():
            if isinstance(edit, str):
                found[path] = clean(edit)
                continue
            for old, new in pairs(edit):
                if found[path].count(old) != 1:
                    raise ValueError(f"{self.name}: {path} has {found[path].count(old)} × {old!r}")
                found[path] = found[path].replace(old, new)
        return {path: text.encode() for path, text in found.items()}


Builder = Callable[[Vary], Job]


def clean(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n") if text.startswith("\n") else text


def crlf(text: str) -> str:
    """The text with Windows line ends."""
    return clean(text).replace("\n", "\r\n")


def pairs(edit: Pair | Sequence[Pair]) -> list[Pair]:
    """The replacements of an edit, in order."""
    single = len(edit) == 2 and all(isinstance(part, str) for part in edit)
    return [edit] if single else list(edit)  # type: ignore[list-item,arg-type]
