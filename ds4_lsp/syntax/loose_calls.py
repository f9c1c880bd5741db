"""A call without marks: a JSON object, bare or in a code fence, as models write it that were hardly trained on tools.

It is a call only where all of this holds: it begins a line, or a fence; it names a tool that there is; nothing but
the fence's end follows it in the reply. Anything else is text: a reply may well show JSON. Until that is known it is
held back. (A call that was read somewhere is not run in any syntax, see ``Calls``.)
"""

from __future__ import annotations

import json
import re
from typing import Any

from ds4_lsp.ports import StopRule
from ds4_lsp.syntax.arguments import parse_json, plain_name
from ds4_lsp.syntax.block import Syntax
from ds4_lsp.syntax.calls import Calls
from ds4_lsp.syntax.events import CallsEnd, Malformed
from ds4_lsp.syntax.json_calls import ARGUMENT_KEYS, NAME_KEYS, Style, closed, named_arguments
from ds4_lsp.syntax.jsonscan import read_json
from ds4_lsp.syntax.lines import Lines
from ds4_lsp.syntax.marks import SPACE, Marker, marker
from ds4_lsp.syntax.shape import Shape
from ds4_lsp.syntax.source import Ended, Source, Step

NOT_LAST = (
    "A call without its marks runs only as the last thing in a reply: nothing was run. If it was meant, end the reply "
    "with it, like this:\n{example}"
)
_NEXT = marker((r"(?=\{)",))
_COMMA = marker(",", (SPACE,), (r"(?=\{)",))
_CLOSERS = (marker("]"), marker("```"), marker("</tool_call>"), marker("</function_call>"), marker("</tools>"))


def _openings() -> tuple[Marker, ...]:
    found = []
    for fence in ((), ("```", (r"[a-zA-Z_]{0,12}",), (SPACE,))):
        for key in NAME_KEYS:
            tail = ((SPACE,), f'"{key}"', (SPACE,), ":", (SPACE,), '"', (r"[\w.\-:]{1,64}",), '"')
            found += [marker(*fence, "{", *tail), marker(*fence, "[", (SPACE,), "{", *tail)]
    return tuple(found)


class LooseCalls(Syntax):
    """``example``: the right form, for the model."""

    name = "loose"

    def __init__(self, example: str) -> None:
        super().__init__(Shape("", '{"name": "', '", "arguments": ', "}", "\n", "", "\n", 0, several=True), "", "")
        self.openings = _openings()
        self.entries = ()
        self._style = Style()
        self._example = example

    @property
    def example(self) -> str:
        return self._example

    def opens_here(self, lines: Lines) -> bool:
        return lines.blank and (not lines.in_fence or lines.fence_is_new)

    def refuses(self, lines: Lines) -> bool:
        return False

    def read(self, source: Source, calls: Calls, opening: re.Match[str]) -> Step[str]:
        brace = opening.group().index("{")
        source.rewind(len(opening.group()) - brace)
        prefix = opening.group()[:brace]
        source.record()
        found: list[tuple[str, dict[str, Any], str]] = []
        begun = 0
        try:
            while True:
                try:
                    text = yield from read_json(source, lambda *_: None)
                except Ended:
                    text = closed(source.recorded[begun:]) if source.complete else ""
                call = self._call(text, calls)
                if call is None:
                    return prefix + source.recorded
                found.append((*call, text))
                if (yield from source.tag((_COMMA, _NEXT))) is None:
                    break
                begun = len(source.recorded)
            while (yield from source.tag(_CLOSERS)) is not None:
                pass
        except Ended:
            source.advance(len(source.text))
        if (yield from source.ink()):
            calls.events.append(Malformed(NOT_LAST.format(example=self.example), ""))
            return prefix + source.recorded
        for name, arguments, raw in found:
            calls.start(name)
            for key, value in arguments.items():
                calls.delta(key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            calls.finish(arguments, (), raw)
        calls.events.append(CallsEnd())
        return ""

    @staticmethod
    def _call(text: str, calls: Calls) -> tuple[str, dict[str, Any]] | None:
        try:
            value = parse_json(text)
            found = named_arguments(value, calls)
        except ValueError:
            return None
        if found is None or plain_name(found[0]) not in calls.specs:
            return None
        written = any(isinstance(value.get(key), dict | str) for key in ARGUMENT_KEYS)
        return (plain_name(found[0]), found[1]) if written or not found[1] else None

    @property
    def stops(self) -> tuple[StopRule, ...]:
        return ()
