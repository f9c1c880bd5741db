"""A model file's Jinja template, rendered where it can do no harm.

A template is a program from outside: it may loop for ever, or double a string until the memory is gone. Jinja's
sandbox does not limit that, so it runs in a process of its own with limits on CPU time, memory and output.
This module is also that process's script: it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Message = Mapping[str, Any]
Job = tuple[Sequence[Message], Mapping[str, Any]]
"""Messages, and further variables for the template."""
Render = Callable[[str, Sequence[Job]], list[str | None]]
"""(template, jobs) → per job the rendered text, or None where the template refused."""

TIMEOUT = 20.0
"""Seconds of waiting, for a machine that is busy otherwise."""
CPU_SECONDS = 4
MEMORY = 1 << 29
"""Bytes of address space."""
MOST_OUTPUT = 1 << 16
"""Code points per job: frames are short."""
MOST_TEMPLATE = 1 << 20
"""Code points; the largest templates in use have some 30 thousand."""


def render_apart(template: str, jobs: Sequence[Job]) -> list[str | None]:
    """Render each job in the limited process. Where that fails as a whole, every job has refused."""
    refused: list[str | None] = [None] * len(jobs)
    if len(template) > MOST_TEMPLATE:
        return refused
    # -P: a file named jinja2.py in the folder of the user's project must not be imported.
    command = [sys.executable, "-P", str(Path(__file__).resolve())]
    try:
        done = subprocess.run(
            command,
            input=json.dumps({"template": template, "jobs": jobs}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT,
            check=True,
        )
        results = json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return refused
    return [None if text is None else str(text) for text in results]


def _render_here(template: str, jobs: Sequence[Job]) -> list[str | None]:
    from jinja2 import Environment, TemplateError
    from jinja2.ext import Extension
    from jinja2.nodes import Node
    from jinja2.parser import Parser
    from jinja2.sandbox import SandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}…{% endgeneration %}`` marks training text; here it is transparent."""

        def parse(self, parser: Parser) -> list[Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    Generation.tags = {"generation"}

    def to_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    def refuse(message: str) -> None:
        raise TemplateError(message)

    # Not the immutable one: some templates append to lists of their own. Each job's values are the job's alone.
    environment: Environment = SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = to_json
    # No date: it would change the tokens of an old session from one day to the next.
    environment.globals.update(raise_exception=refuse, strftime_now=lambda _format: "")
    compiled = environment.from_string(template)
    results: list[str | None] = []
    for messages, variables in jobs:
        pieces: list[str] = []
        room = MOST_OUTPUT
        try:
            for piece in compiled.generate(messages=messages, **variables):
                pieces.append(piece)
                room -= len(piece)
                if room < 0:
                    raise MemoryError
        except MemoryError:
            # It would be the same with every job.
            return [None] * len(jobs)
        # A template can raise anything: it is code.
        except Exception:
            results.append(None)
        else:
            results.append("".join(pieces))
    return results


def _main() -> None:
    import resource

    for limit, value in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_AS, MEMORY)):
        # Not every system has both; the timeout remains.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (value, value))
    request = json.load(sys.stdin)
    json.dump(_render_here(request["template"], request["jobs"]), sys.stdout)


if __name__ == "__main__":
    _main()
