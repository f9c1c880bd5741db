"""What is wrong with a text, found by a process of its own: run as a script, isolated, on texts from anywhere.

Reads ``{"kind", "before", "after"}`` as JSON and prints the problem that is new in ``after``, or nothing. Compiles and
parses only: nothing of a text is run. Deep nesting can end such a parser, so that this is no part of the server.
"""

from __future__ import annotations

import json
import sys
import warnings

MEMORY = 1 << 30
"""Bytes of address space."""
SECONDS = 5
"""Of CPU."""


def problem(kind: str, text: str) -> str | None:
    """The first problem, with its line; None where there is none, or none can be found here."""
    try:
        return _CHECKS[kind](text)
    except (RecursionError, MemoryError):
        return None


def _python(text: str) -> str | None:
    try:
        compile(text, "text", "exec", dont_inherit=True)
    except SyntaxError as error:
        version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        return f"line {error.lineno}: {error.msg} ({version})"
    except ValueError as error:
        return str(error)
    return None


def _json(text: str) -> str | None:
    try:
        json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        return f"line {line}: {getattr(error, 'msg', error)} (JSON)"
    return None


def _toml(text: str) -> str | None:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return f"{error} (TOML)"
    return None


def _yaml(text: str) -> str | None:
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return None
    try:
        # Events only: aliases are not expanded.
        for _event in yaml.parse(text, Loader=yaml.SafeLoader):
            pass
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        return f"{where}{getattr(error, 'problem', None) or 'not YAML'} (YAML)"
    return None


_CHECKS = {"python": _python, "json": _json, "toml": _toml, "yaml": _yaml}


def _limit() -> None:
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def main() -> None:
    warnings.simplefilter("ignore")
    _limit()
    asked = json.load(sys.stdin)
    found = problem(asked["kind"], asked["after"])
    # What was broken before was broken on purpose, or is not what it is taken for.
    if found is not None and (asked["before"] is None or problem(asked["kind"], asked["before"]) is None):
        sys.stdout.write(found)


if __name__ == "__main__":
    main()
