"""Tool specifications of every kind of parameter, and ways to compare event streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax.events import ParameterDelta, ParserEvent, Text, Thinking
from ds4_lsp.syntax.parser import StreamParser

TOOLS = (
    ToolSpec(
        "read",
        "Read a file.",
        (
            ParameterSpec("path", "string", "file to read", True),
            ParameterSpec("start_line", "integer", "first line", False, minimum=1),
            ParameterSpec("max_lines", "integer", "most lines", False, minimum=1, maximum=500),
            ParameterSpec("whole", "boolean", "", False),
        ),
    ),
    ToolSpec(
        "search",
        "Search files.",
        (
            ParameterSpec("query", "string", "what to find", True),
            ParameterSpec("mode", "enum", "", False, choices=("literal", "regex")),
            ParameterSpec("context", "integer", "", False, minimum=0, maximum=5),
            ParameterSpec("offset", "integer", "", False),
        ),
    ),
    ToolSpec("bash_status", "Look at a job.", (ParameterSpec("job", "string", "the job's id", True),)),
    ToolSpec("list", "List a folder.", (ParameterSpec("path", "string", "", False),)),
)

Parse = Callable[..., list[ParserEvent]]


def joined(events: Iterable[ParserEvent]) -> list[ParserEvent]:
    """Adjacent deltas of the same thing as one."""
    result: list[ParserEvent] = []
    for event in events:
        last = result[-1] if result else None
        if isinstance(event, Text | Thinking | ParameterDelta) and type(last) is type(event):
            whole = replace(event, delta=last.delta + event.delta)
            if replace(whole, delta="") == replace(last, delta=""):
                result[-1] = whole
                continue
        result.append(event)
    return result


@pytest.fixture(scope="session")
def tools() -> tuple[ToolSpec, ...]:
    return TOOLS


@pytest.fixture(scope="session")
def specs() -> Mapping[str, ToolSpec]:
    return {spec.name: spec for spec in TOOLS}


@pytest.fixture(scope="session")
def join() -> Callable[[Iterable[ParserEvent]], list[ParserEvent]]:
    return joined


@pytest.fixture(scope="session")
def parse(specs: Mapping[str, ToolSpec]) -> Parse:
    """Parse pieces of text or bytes, finish, and join adjacent deltas."""

    def run(*pieces: Any, thinking: bool = False, broken_off: bool = False, **given: Any) -> list[ParserEvent]:
        parser = StreamParser(specs, thinking, **given)
        events: list[ParserEvent] = []
        for piece in pieces:
            events += parser.feed_bytes(piece) if isinstance(piece, bytes) else parser.feed(piece)
        return joined([*events, *parser.finish(broken_off=broken_off)])

    return run
