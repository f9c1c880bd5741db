"""Calls in Python's syntax: ``[name(key='value', number=1)]``, as LFM2 and Llama 4 write them."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ds4_lsp.ports import ParameterSpec, Segment, ToolSpec
from ds4_lsp.syntax import gbnf
from ds4_lsp.syntax.arguments import DEEPEST, whole_text
from ds4_lsp.syntax.block import TOOL_NAME, Syntax
from ds4_lsp.syntax.calls import Calls
from ds4_lsp.syntax.marks import marker
from ds4_lsp.syntax.samples import CallSamples, SampleCall
from ds4_lsp.syntax.shape import Shape, Span, shape_of
from ds4_lsp.syntax.source import Ended, Fault, Source, Step

_PLAIN = re.compile(r"[^'\"()\[\]{}\\]+")
_STRING = r"""
string ::= "'" string-rest
string-rest ::= "'" | [^'\\\x00-\x1F] string-rest | "\\" string-escape
string-escape ::= ['"\\nrt] string-rest
"""


class PythonCalls(Syntax):
    """Each call is an expression; values are Python's literals."""

    name = "python"
    hints = ("Every argument has its name; strings are Python's.",)
    before_end = r"\)\]?\s{0,8}"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, shape.before, "")
        self.separators = (marker(","), marker("]"))

    def read_call(self, source: Source, calls: Calls) -> Step[None]:
        while (yield from source.ink()) == "[":
            source.advance(source.at + 1)
        name = yield from source.word(TOOL_NAME)
        if not name or (yield from source.ink()) != "(":
            raise Fault("expected NAME(PARAMETER=VALUE)")
        calls.start(name)
        begun = len(source.recorded)
        missing = ""
        try:
            yield from self._brackets(source)
        except Ended:
            if not source.complete:
                raise
            missing = ")"
        try:
            arguments = _arguments(source.recorded[begun:] + missing)
        except ValueError as error:
            calls.finish({}, [f"the arguments are no Python literals ({error})"], source.recorded)
            return
        for key, value in arguments.items():
            calls.delta(key, value if isinstance(value, str) else repr(value))
        calls.finish(arguments, (), source.recorded)

    def _another(self, source: Source) -> Step[bool]:
        more = yield from super()._another(source)
        return more and (yield from source.ink()) not in ("", "]", "<")

    @staticmethod
    def _brackets(source: Source) -> Step[None]:
        """Use the text up to the bracket that closes the first."""
        depth, quote = 0, ""
        while True:
            while not source.rest:
                yield from source.more()
            character = source.rest[0]
            if character == "\\":
                while len(source.rest) < 2:
                    yield from source.more()
                source.advance(source.at + 2)
                continue
            if not quote and (run := _PLAIN.match(source.text, source.at)):
                source.advance(run.end())
                continue
            source.advance(source.at + 1)
            if quote:
                quote = "" if character == quote else quote
            elif character in "'\"":
                quote = character
            elif character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
                if not depth:
                    return

    def argument_segments(self, arguments: Mapping[str, Any]) -> list[Segment]:
        return [Segment(", ".join(f"{key}={_literal(value)}" for key, value in arguments.items()))]

    def arguments_rule(self, rules: gbnf.Rules, spec: ToolSpec) -> str:
        rules.raw("string", _STRING)

        def one(parameter: ParameterSpec) -> str:
            if parameter.kind == "string":
                value = "string"
            elif parameter.kind == "enum":
                value = gbnf.choices([repr(choice) for choice in parameter.choices])
            else:
                value = gbnf.scalar(parameter, boolean=("True", "False"))
            return f"{gbnf.literal(parameter.name + '=')} {value}"

        return gbnf.members(spec, one, '", "')


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("no literal stands for that number")
    return repr(value)


def _arguments(text: str) -> dict[str, Any]:
    """The keywords of ``(key=value, …)``. Raises ``ValueError``."""
    depth = deepest = 0
    for character in re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "", text, flags=re.DOTALL):
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        raise ValueError(f"nested more than {DEEPEST} deep")
    try:
        call = ast.parse("f" + _one_line(text), mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError("every argument needs its name")
        return {word.arg or "": _whole(ast.literal_eval(word.value)) for word in call.keywords}
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ValueError(reason.splitlines()[0] if reason else "unreadable") from None


def _one_line(text: str) -> str:
    """Real line breaks in strings as escapes: a slip that costs nothing to mend."""

    def escaped(string: re.Match[str]) -> str:
        return re.sub(
            r"\\.|\r\n|\n|\r", lambda m: m.group() if m.group()[0] == "\\" else repr(m.group())[1:-1], string.group()
        )

    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", escaped, text, flags=re.DOTALL)


def _whole(value: Any) -> Any:
    """Literals that JSON has too. Raises ``ValueError``."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _whole(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{type(value).__name__} is no value that a tool takes")


# --- recognising --------------------------------------------------------------------------------------------------


def recognise(samples: CallSamples) -> Syntax | None:
    """The syntax of ``samples`` where its calls are Python's."""
    one = _spans(samples.one, [samples.first])
    if one is None:
        return None
    shape = shape_of(samples, one, _spans(samples.two, [samples.first, samples.second]))
    return None if shape is None or not shape.middle.startswith("(") else PythonCalls(shape)


def _spans(text: str | None, calls: Sequence[SampleCall]) -> list[Span] | None:
    spans: list[Span] = []
    at = 0
    for call in calls:
        written = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        begin = (text or "").find(f"({written})", at) + 1
        if begin <= 0:
            return None
        name = (text or "").rfind(call.name, at, begin)
        if name < 0:
            return None
        spans.append((name, begin, begin + len(written)))
        at = spans[-1][2]
    return spans
