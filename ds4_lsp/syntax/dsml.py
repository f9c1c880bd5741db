"""DSML: DeepSeek's syntax from V3.2 on, and what a model is taught that has none of its own.

Opening tags are exact, but for one slip: the block's without its first bar. Inside a closing tag white space (at most
four characters in a place) and an extra bar are accepted. Bars are U+FF5C.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ds4_lsp.ports import ParameterSpec, Segment, StopRule, ToolSpec
from ds4_lsp.syntax import gbnf
from ds4_lsp.syntax.arguments import Written
from ds4_lsp.syntax.block import MadeCall, Syntax
from ds4_lsp.syntax.calls import Calls
from ds4_lsp.syntax.events import CallsEnd, Malformed
from ds4_lsp.syntax.marks import Marker, marker
from ds4_lsp.syntax.samples import CallSamples
from ds4_lsp.syntax.shape import Shape
from ds4_lsp.syntax.source import Ended, Fault, Source, Step

BAR = "｜"
DSML = f"{BAR}DSML{BAR}"
INVOKE_CLOSE = f"</{DSML}invoke>"
PARAMETER_CLOSE = f"</{DSML}parameter>"
_BLOCKS = ("tool_calls", "function_calls")
_SPACE = "[ \t\r\n]{0,4}"
_NAME = r'([^"<>\r\n]{1,64})'

# A text and its closing tag, as an automaton that is always in one state. After "</", white space or not, a bar can
# only be the closing tag's: the parser would take it for one. Each rule ends in at most one other: no stack grows.
_TEXT = rf"""
text ::= [^<] text | "<" text-a
text-a ::= "<" text-a | "/" text-b | [^</] text
text-b ::= "{BAR}DSML{BAR}parameter>\n" | "<" text-a | [ \t\r\n] text-c | [^<{BAR} \t\r\n] text
text-c ::= "<" text-a | [ \t\r\n] text-c | [^<{BAR} \t\r\n] text
end ::= "</{DSML}parameter>\n"
"""


def _closing(name: str) -> Marker:
    bars = (f"{BAR}{{1,2}}",)
    space = (_SPACE,)
    return marker("</", space, bars, space, "DSML", space, bars, space, name, space, (f"{BAR}?",), space, ">")


def _stray(name: str) -> Marker:
    return marker("<", (f"[|{BAR} ]{{0,2}}",), "DSML", (f"[|{BAR} ]{{1,2}}",), name)


INVOKE_OPENING = marker(f'<{DSML}invoke name="', (_NAME,), '">')
INVOKE_CLOSING = _closing("invoke")
TEXT_OPENING = marker(f'<{DSML}parameter name="', (_NAME,), '" string="true">')
JSON_OPENING = marker(f'<{DSML}parameter name="', (_NAME,), '" string="false">')
PARAMETER_CLOSING = _closing("parameter")


class Dsml(Syntax):
    """``block``: the name of the outer tag. ``lead``: what stands before the block where no text precedes, ``gap``
    where some does. ``empty``: what a call without parameters holds."""

    name = "dsml"
    strict = True
    hints = (
        'Copy the tags exactly. One parameter per tag; string="true" for text, string="false" for numbers and '
        "true/false.",
        "Text is taken as it is: no quotes, no escapes, no code fences.",
    )

    def __init__(self, block: str = "tool_calls", lead: str = "", gap: str = "\n\n", empty: str = "") -> None:
        self.open, self.close = f"<{DSML}{block}>", f"</{DSML}{block}>"
        invoke = f'<{DSML}invoke name="'
        super().__init__(
            Shape(f"{lead}{self.open}\n", invoke, '">\n', INVOKE_CLOSE, "\n", f"\n{self.close}", gap, 0, several=True),
            invoke,
            INVOKE_CLOSE,
        )
        self._empty = empty
        self.openings = (marker(self.open), marker(f"<DSML{BAR}{block}>"))
        self.closing = _closing(block)
        self.entries = (self.open,)
        self.strays = tuple(_stray(name) for name in (*_BLOCKS, "invoke", "parameter"))

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def recovery(self) -> tuple[Marker, ...]:
        return (self.closing,)

    def read(self, source: Source, calls: Calls, opening: re.Match[str]) -> Step[str]:
        count = 0
        while True:
            source.record()
            try:
                found = yield from source.tag((INVOKE_OPENING, self.closing))
            except Ended:
                # What closes the block is missing at the reply's end: forgiven where nothing else is.
                if not count or source.rest.strip() or not source.complete:
                    raise
                source.advance(len(source.text))
                break
            if found is None:
                yield from source.ink()
                source.record()
                raise Fault(f'expected <{DSML}invoke name="TOOL"> or {self.close}')
            if found[0] is self.closing:
                break
            calls.start(found[1].group(1))
            yield from self._parameters(source, calls)
            count += 1
        if not count:
            calls.events.append(Malformed("The block of tool calls held no call: nothing was run.", ""))
        calls.events.append(CallsEnd())
        return ""

    def _parameters(self, source: Source, calls: Calls) -> Step[None]:
        while True:
            try:
                found = yield from source.tag((TEXT_OPENING, JSON_OPENING, INVOKE_CLOSING))
            except Ended:
                if not calls.written or source.rest.strip() or not source.complete:
                    raise
                break
            if found is None:
                raise Fault(
                    f'in the call of {calls.name} expected <{DSML}parameter name="NAME" string="true"> '
                    f'(string="false" for JSON) or {INVOKE_CLOSE}'
                )
            if found[0] is INVOKE_CLOSING:
                break
            yield from self._value(source, calls, found[1].group(1), found[0] is TEXT_OPENING)
        calls.finish_written(source.recorded)

    @staticmethod
    def _value(source: Source, calls: Calls, key: str, is_text: bool) -> Step[None]:
        value: list[str] = []

        def take(text: str) -> None:
            value.append(text)
            calls.delta(key, text)

        if (yield from source.until((PARAMETER_CLOSING,), take)) is None:
            calls.unclosed = key
            raise Ended
        calls.written.append(Written(key, "".join(value), is_text))

    def unfinished(self, calls: Calls) -> str:
        if calls.unclosed:
            return f"{calls.unclosed} of {calls.name} was not closed by {PARAMETER_CLOSE}"
        if calls.name:
            return f"the call of {calls.name} was not closed by {INVOKE_CLOSE}"
        return f"the block was not closed by {self.close}"

    # --- writing --------------------------------------------------------------------------------------------------

    def segments(self, calls: Sequence[MadeCall], *, text_precedes: bool = False) -> list[Segment]:
        shape = self.shape
        segments = [Segment(shape.gap + shape.head.lstrip() if text_precedes else shape.head, special=True)]
        for index, (name, arguments, _) in enumerate(calls):
            segments += [Segment("\n", special=True)] if index else []
            segments += self._invoke(name, arguments)
        return [*segments, Segment(shape.tail, special=True)]

    def render_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """One ``invoke``: what the parser turns back into ``name`` and ``arguments``. A text that holds a closing
        tag is written as JSON with its ``<`` escaped. Raises ``ValueError`` for a value that JSON cannot hold."""
        return "".join(segment.text for segment in self._invoke(name, arguments))

    def _invoke(self, name: str, arguments: Mapping[str, Any]) -> list[Segment]:
        segments = [Segment(f'<{DSML}invoke name="', special=True), Segment(name), Segment('">\n', special=True)]
        for key, value in arguments.items():
            is_text = isinstance(value, str) and PARAMETER_CLOSING.full.search(value) is None
            text = value if is_text else json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
            string = "true" if is_text else "false"
            segments += [Segment(f'<{DSML}parameter name="', special=True), Segment(key)]
            segments += [Segment(f'" string="{string}">', special=True), Segment(text)]
            segments.append(Segment(f"{PARAMETER_CLOSE}\n", special=True))
        return [*segments, Segment(("" if arguments else self._empty) + INVOKE_CLOSE, special=True)]

    @property
    def example(self) -> str:
        return self.render([("TOOL", {"PARAMETER": "TEXT"}, "")]).strip()

    # --- for the engine -------------------------------------------------------------------------------------------

    def arguments_rule(self, rules: gbnf.Rules, spec: ToolSpec) -> str:
        rules.raw("text", _TEXT)
        return gbnf.members(spec, _parameter_rule)

    @property
    def stops(self) -> tuple[StopRule, ...]:
        return (StopRule("tool_calls", self.closing.full.pattern, keep=True),)


def _parameter_rule(spec: ParameterSpec) -> str:
    is_text = spec.kind in ("string", "enum")
    opening = gbnf.literal(f'<{DSML}parameter name="{spec.name}" string="{"true" if is_text else "false"}">')
    if spec.kind == "string":
        return f"{opening} text"
    value = gbnf.choices(spec.choices) if spec.kind == "enum" else gbnf.scalar(spec)
    return f"{opening} {value} end"


def recognise(samples: CallSamples) -> Syntax | None:
    """DSML as a template writes it: its block's name, and the white space around."""
    text = samples.one or ""
    block = next((name for name in _BLOCKS if f"<{DSML}{name}>" in text), None)
    if block is None:
        return None
    opening = f"<{DSML}{block}>"
    lead = text[: text.index(opening)]
    gap = "\n\n"
    if samples.after_text and samples.text in samples.after_text:
        after = samples.after_text.partition(samples.text)[2]
        gap = after[: after.find(opening)]
    start = f'invoke name="{samples.first.name}">\n'
    empty = (samples.empty or "").partition(start)[2].partition(INVOKE_CLOSE)[0]
    return Dsml(block, lead, gap, empty)
