"""Which files a search takes."""

from __future__ import annotations

import re
from pathlib import Path

from pathspec import GitIgnoreSpec

MOST = 64
"""Patterns that braces may stand for."""


class Glob:
    """gitignore syntax, braces too, relative to the folder searched; ``!`` in front excludes. None takes every file."""

    def __init__(self, glob: str | None) -> None:
        text = (glob or "").strip().removeprefix("./")
        self._excludes = text.startswith("!")
        self._patterns = _braces(text.removeprefix("!")) if text else []
        self._spec = GitIgnoreSpec.from_lines(self._patterns)

    @property
    def rules(self) -> str:
        """The same as an ignore file, to save ripgrep work.

        Unlike ripgrep's ``--glob`` it does not bring back what other ignore files name; but it cannot leave out what
        these let in by name: hence :meth:`takes`.
        """
        if not self._patterns or self._excludes:
            return "\n".join(self._patterns)
        return "\n".join(["*", "!*/", *(f"!{pattern}" for pattern in self._patterns)])

    def takes(self, name: Path) -> bool:
        """Whether a file, named relative to the folder searched, is one to look in."""
        return not self._patterns or self._spec.match_file(name.as_posix()) != self._excludes


def _braces(pattern: str) -> list[str]:
    """``*.{a,b}`` as ``*.a`` and ``*.b``."""
    done: list[str] = []
    todo = [pattern]
    while todo and len(done) + len(todo) <= MOST:
        text = todo.pop(0)
        found = re.search(r"\{([^{}]*)\}", text)
        if found is None:
            done.append(text)
        else:
            todo += [text[: found.start()] + choice + text[found.end() :] for choice in found[1].split(",")]
    return done + todo
