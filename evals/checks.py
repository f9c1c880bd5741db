"""The checks that jobs are made of. Each gives the reason why a job is not solved, or None."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from evals.after import After
from evals.job import Check

NEGATIVE = (
    r"\b(no|not|none|cannot|unable|missing|without|already)\b|n['’]t\b"
    r"|\bwhich\b.*\?|\bcould you\b|\bplease\b|\bneed to know\b"
)
"""What an answer says that tells of something that is not there, or asks."""


def every(*checks: Check) -> Check:
    """All of them hold."""

    def check(after: After) -> str | None:
        return next((why for one in checks if (why := one(after)) is not None), None)

    return check


def says(*patterns: str) -> Check:
    """The answer has each pattern, whatever the case."""

    def check(after: After) -> str | None:
        missing = [p for p in patterns if not re.search(p, after.answer, re.IGNORECASE | re.DOTALL)]
        return f"the answer lacks {missing[0]}" if missing else None

    return check


def never_says(*patterns: str) -> Check:
    def check(after: After) -> str | None:
        found = [p for p in patterns if re.search(p, after.answer, re.IGNORECASE)]
        return f"the answer has {found[0]}" if found else None

    return check


def asks_or_declines(*about: str) -> Check:
    """The answer tells that it cannot be done, or asks, and names what it is ``about``; no file is different."""
    return every(unchanged(), says(NEGATIVE, *about))


def unchanged() -> Check:
    def check(after: After) -> str | None:
        from evals.after import snapshot

        return None if snapshot(after.folder) == dict(after.start) else "files were changed"

    return check


def text_is(path: str, expected: str) -> Check:
    """The file has exactly that text, line ends included."""

    def check(after: After) -> str | None:
        return None if after.text(path) == expected else f"{path} is not as it should be"

    return check


def has(path: str, *patterns: str) -> Check:
    def check(after: After) -> str | None:
        missing = [p for p in patterns if not re.search(p, after.text(path), re.MULTILINE)]
        return f"{path} lacks {missing[0]}" if missing else None

    return check


def lacks(path: str, *patterns: str) -> Check:
    """The file is there and has none of the patterns."""

    def check(after: After) -> str | None:
        text = after.text(path)
        found = [p for p in patterns if re.search(p, text, re.MULTILINE)]
        if not text:
            return f"{path} is not there, or empty"
        return f"{path} has {found[0]}" if found else None

    return check


def json_has(path: str, expected: Callable[[Any], bool]) -> Check:
    def check(after: After) -> str | None:
        try:
            return None if expected(after.json(path)) else f"{path} does not say what it should"
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            return f"{path}: {type(error).__name__}: {error}"

    return check


def runs(*command: str, prints: str | None = None) -> Check:
    """The program succeeds, and prints that (white space around it aside)."""

    def check(after: After) -> str | None:
        ran = after.run(*command)
        if ran.status != 0:
            return f"{' '.join(command)[:80]}: exit status {ran.status}: {ran.output.strip()[-200:]}"
        if prints is not None and ran.output.strip() != prints:
            return f"{' '.join(command)[:80]} prints {ran.output.strip()[:200]!r}, not {prints!r}"
        return None

    return check


def python(code: str, prints: str | None = None) -> Check:
    """Python code that runs in the workspace."""
    return runs(sys.executable, "-c", code, prints=prints)


def node(code: str, prints: str | None = None) -> Check:
    return runs("node", "-e", code, prints=prints)


def shell(code: str, prints: str | None = None) -> Check:
    return runs("bash", "-c", code, prints=prints)


def compiled(source: str, prints: str | None = None) -> Check:
    """C that compiles, links and prints; what is built leaves no trace."""
    code = f'd=$(mktemp -d) && cc -Wall -o "$d/out" {source} && "$d/out"; s=$?; rm -rf "$d"; exit $s'
    return shell(code, prints)
