"""Calls whose arguments are a JSON object: with the name in the same object, or in the marks before it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4_lsp.ports import ParameterSpec, Segment, ToolSpec
from ds4_lsp.syntax import gbnf
from ds4_lsp.syntax.arguments import parse_json, plain_name
from ds4_lsp.syntax.block import TOOL_NAME, Syntax, markers, words
from ds4_lsp.syntax.calls import Calls
from ds4_lsp.syntax.jsonscan import read_json
from ds4_lsp.syntax.marks import SPACE, marker
from ds4_lsp.syntax.samples import CallSamples, SampleCall
from ds4_lsp.syntax.shape import Shape, Span, flexible, shape_of
from ds4_lsp.syntax.source import Ended, Fault, Source, Step

NAME_KEYS = ("name", "tool_name", "tool", "function", "function_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input")
_MORE_KEYS = {"id", "type", "call_id", "tool_call_id"}
_NEXT, _COMMA, _END_OF_LIST = marker((r"(?=\{)",)), marker(",", (SPACE,), (r"(?=\{)",)), marker("]")


@dataclass(frozen=True)
class Style:
    """How a template writes JSON. ``margin``: spaces before its closing brace."""

    indent: int | None = None
    compact: bool = False
    margin: int = 0

    def write(self, value: Any) -> str:
        """Raises ``ValueError`` for a value that JSON cannot hold."""
        separators = (",", ":") if self.compact else None
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=self.indent, separators=separators)
        return text.replace("\n", "\n" + " " * self.margin)


class _Json(Syntax):
    hints = ("Arguments are JSON: quotes and line breaks in a string are escaped.",)

    def __init__(self, shape: Shape, style: Style, lead: str, after: str) -> None:
        super().__init__(shape, lead, after)
        self.style = style

    def argument_segments(self, arguments: Mapping[str, Any]) -> list[Segment]:
        return [Segment(self.style.write(arguments))]

    def arguments_rule(self, rules: gbnf.Rules, spec: ToolSpec) -> str:
        colon = ":" if self.style.compact else ": "
        if self.style.indent is not None:
            rules.raw("ws", 'ws ::= "\\n" " "{0,40}\n')
        line = "ws " if self.style.indent is not None else ""

        def one(parameter: ParameterSpec) -> str:
            return f"{gbnf.literal(json.dumps(parameter.name) + colon)} {self._value_rule(rules, parameter)}"

        comma = f'"," {line}'.strip() if line else gbnf.literal("," if self.style.compact else ", ")
        body = gbnf.members(spec, one, comma)
        if not body:
            return '"{}"'
        whole = f'"{{" {line}{body} {line}"}}"'
        return f'("{{}}" | {whole})' if line and not any(p.required for p in spec.parameters) else whole

    def _value_rule(self, rules: gbnf.Rules, spec: ParameterSpec) -> str:
        if spec.kind == "string":
            return rules.json_string()
        if spec.kind == "enum":
            return gbnf.choices([json.dumps(choice, ensure_ascii=False) for choice in spec.choices])
        return gbnf.scalar(spec)


class JsonCalls(_Json):
    """One JSON object holds name and arguments: ``{"name": …, "arguments": {…}}``, alone or in a list."""

    name = "json"
    before_end = r"[\]}]\s{0,8}"

    def __init__(self, shape: Shape, style: Style) -> None:
        lead = shape.before[: shape.before.rindex("{")]
        head, lead = (_without_bracket(part) for part in (shape.head, lead))
        after = shape.after[_end_of_object(shape.after) :]
        super().__init__(shape, style, lead, after)
        whole = flexible(head + lead)
        opening = words(head + lead)
        self._opens = markers([head + lead, *(word for word in opening if not word.isalnum())])
        self.openings = tuple(filter(None, (whole, *markers([word for word in opening if word in self.entries]))))

    def _close_by(self, after: str) -> None:
        super()._close_by(after)
        if self.shape.tail.lstrip().startswith("]"):
            # The list's own bracket is read with the JSON.
            last = self.shape.tail.lstrip()[1:]
            self._tail = markers([last, *words(last)[-1:]]) if last.strip() else ()
            self._closes = (*self._tail, *markers(words(after)))

    def _another(self, source: Source) -> Step[bool]:
        try:
            while (found := (yield from source.tag((_NEXT, _COMMA, _END_OF_LIST)))) is not None:
                if found[0] is not _END_OF_LIST:
                    return True
        except Ended:
            return False
        return (yield from super()._another(source))

    def read_call(self, source: Source, calls: Calls) -> Step[None]:
        if (yield from source.ink()) == "[":
            source.advance(source.at + 1)
        if (found := (yield from source.ink())) != "{":
            if not found:
                raise Ended
            raise Fault('expected a JSON object with "name" and "arguments"')
        yield from read_call_object(source, calls)


def read_call_object(source: Source, calls: Calls) -> Step[None]:
    """A call that is one JSON object, at the source's place. Raises ``Fault``, ``Ended``."""
    name: list[str] = []

    def note(path: tuple[str, ...], piece: str, done: bool) -> None:
        if len(path) == 1 and path[0] in NAME_KEYS and calls.name is None:
            name.append(piece)
            if done and TOOL_NAME.fullmatch(written := "".join(name)):
                calls.start(written)
        elif path[0] in calls.specs and calls.name is None and piece == "" and not done:
            calls.start(path[0])
        elif len(path) == 2 and path[0] in (*ARGUMENT_KEYS, calls.name):
            calls.delta(path[1], piece)

    begun = len(source.recorded)
    try:
        text = yield from read_json(source, note)
    except Ended:
        text = closed(source.recorded[begun:]) if source.complete else ""
        if not text:
            raise
    take_object(text, calls, source.recorded)


def take_object(text: str, calls: Calls, raw: str) -> None:
    """The call that the JSON ``text`` is. Raises ``Fault`` where it is none."""
    try:
        value = parse_json(text)
        found = named_arguments(value, calls)
    except ValueError as error:
        if calls.name is None:
            raise Fault(f"it is not valid JSON ({error})") from None
        calls.finish({}, [f"the arguments are not valid JSON ({error})"], raw)
        return
    if found is None:
        raise Fault('expected a JSON object with "name" and "arguments"')
    name, arguments = found
    if calls.name is None:
        calls.start(name)
        for key, item in arguments.items():
            calls.delta(key, item if isinstance(item, str) else json.dumps(item, ensure_ascii=False))
    calls.finish(arguments, (), raw)


def named_arguments(value: Any, calls: Calls) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments of a call, from the ways in which they are written. Raises ``ValueError``."""
    if not isinstance(value, dict):
        return None
    if len(value) == 1 and isinstance(inner := next(iter(value.values())), dict):
        [key] = value
        return (key, inner) if key in calls.specs else named_arguments(inner, calls)
    name_key = next((key for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if name_key is None:
        nested = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), dict)), None)
        return named_arguments(nested, calls) if nested else None
    for key in ARGUMENT_KEYS:
        arguments = value.get(key)
        if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
            arguments = parse_json(arguments)
        if isinstance(arguments, dict):
            return plain_name(value[name_key]), arguments
    rest = {key: item for key, item in value.items() if key != name_key and key not in _MORE_KEYS}
    return plain_name(value[name_key]), {} if set(rest) <= set(ARGUMENT_KEYS) else rest


class NamedJsonCalls(_Json):
    """The marks hold the name, a JSON object of the arguments follows."""

    name = "named-json"

    def __init__(self, shape: Shape, style: Style) -> None:
        super().__init__(shape, style, shape.before, shape.after)
        self.before_end = r"\}" + r"\s{0,8}".join(["", *map(re.escape, words(shape.after)), ""])
        self._middle = markers(words(shape.middle))

    def read_call(self, source: Source, calls: Calls) -> Step[None]:
        if not (yield from source.ink()):
            raise Ended
        name = yield from source.word(TOOL_NAME)
        if not name:
            raise Fault("expected the name of a tool")
        calls.start(name)
        yield from self._skip(source, self._middle)
        if (found := (yield from source.ink())) != "{":
            if not found:
                raise Ended
            raise Fault(f"after the name {calls.name} expected a JSON object of the arguments")
        begun = len(source.recorded)
        try:
            text = yield from read_json(source, lambda path, piece, _: calls.delta(path[0], piece))
        except Ended:
            if not source.complete or not (text := closed(source.recorded[begun:])):
                raise
        try:
            arguments = parse_json(text)
        except ValueError as error:
            calls.finish({}, [f"the arguments are not valid JSON ({error})"], source.recorded)
            return
        calls.finish(_unwrapped(arguments, calls.name), (), source.recorded)


def _unwrapped(arguments: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The arguments of a model that writes the whole call where only they belong."""
    for key in ARGUMENT_KEYS:
        if isinstance(arguments.get(key), dict) and set(arguments) - {key} <= {*NAME_KEYS, *_MORE_KEYS}:
            return dict(arguments[key])
    return arguments


def closed(text: str) -> str:
    """JSON that lacks only its last closing brackets, with them; nothing where it ends in a string."""
    stack: list[str] = []
    in_string = False
    for part in re.findall(r"\\.|.", text, re.DOTALL):
        if in_string:
            in_string = part != '"'
        elif part == '"':
            in_string = True
        elif part in "{[":
            stack.append("}" if part == "{" else "]")
        elif part in "}]" and stack:
            stack.pop()
    if in_string or not stack or text.rstrip()[-1:] in (":", ","):
        return ""
    return text + "".join(reversed(stack))


def _without_bracket(mark: str) -> str:
    return mark.rstrip().removesuffix("[") if mark.rstrip().endswith("[") else mark


def _end_of_object(after: str) -> int:
    """Where the marks begin behind the object that holds the arguments."""
    return after.index("}") + 1 if "}" in after else 0


# --- recognising --------------------------------------------------------------------------------------------------


def recognise(samples: CallSamples) -> Syntax | None:
    """The syntax of ``samples`` where its arguments are JSON."""
    one = _spans(samples.one, [samples.first])
    two = _spans(samples.two, [samples.first, samples.second])
    if one is None or samples.one is None:
        return None
    shape = shape_of(samples, one, two)
    if shape is None:
        return None
    style = _style(samples.one, one[0], samples.first)
    if style is None:
        return None
    around = "{" in shape.before and "}" in shape.after
    return JsonCalls(shape, style) if around else NamedJsonCalls(shape, style)


def _spans(text: str | None, calls: Sequence[SampleCall]) -> list[Span] | None:
    """Where names and arguments lie in a rendering."""
    spans: list[Span] = []
    at = 0
    for call in calls:
        found = next(_objects(text or "", at, call.arguments), None)
        if found is None:
            return None
        begin, end = found
        name = (text or "").rfind(call.name, at, begin)
        if name < 0:
            return None
        spans.append((name, begin, end))
        at = end
    return spans


def _objects(text: str, at: int, arguments: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    decoder = json.JSONDecoder()
    while (at := text.find("{", at)) >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            value, end = None, at
        if value == arguments:
            yield at, end
        at += 1


def _style(text: str, span: Span, call: SampleCall) -> Style | None:
    _, begin, end = span
    written = text[begin:end]
    line = text[text.rfind("\n", 0, begin) + 1 : begin]
    margin = len(line) - len(line.lstrip())
    styles = [Style(), Style(compact=True), *(Style(indent, margin=m) for indent in (2, 4) for m in (margin, 0))]
    return next((style for style in styles if style.write(call.arguments) == written), None)
