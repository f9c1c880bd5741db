"""Calls whose parameters stand one by one between marks: XML-like, key and value pairs, typed or not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4_lsp.ports import ParameterSpec, Segment, ToolSpec
from ds4_lsp.syntax import gbnf
from ds4_lsp.syntax.arguments import Written
from ds4_lsp.syntax.block import TOOL_NAME, MadeCall, Syntax, markers, words
from ds4_lsp.syntax.calls import Calls
from ds4_lsp.syntax.marks import NAME, SPACE, Marker, marker
from ds4_lsp.syntax.samples import CallSamples, SampleCall
from ds4_lsp.syntax.shape import ID, KEY, TOOL, Shape, Span, flexible, shape_of
from ds4_lsp.syntax.source import Ended, Fault, Source, Step

_BARE_VALUE = re.compile(r"[^,{}\[\]<>\s]+")


@dataclass(frozen=True)
class Parameters:
    """One of ``kinds`` (with a hole for the key), the value, ``closing``; ``between`` parameters. The kinds open texts,
    integers and truth values, and are alike where the syntax writes no types."""

    between: str
    kinds: tuple[str, str, str]
    closing: str
    closing_bare: str
    """Closes what is no text."""
    booleans: tuple[str, str]

    @property
    def typed(self) -> bool:
        return self.kinds[0] != self.kinds[1]


class TaggedCalls(Syntax):
    """``<function=NAME><parameter=KEY>VALUE</parameter></function>`` and its like."""

    name = "tagged"
    hints = ("Values are taken as they are: no quotes, no escapes.",)

    def __init__(self, shape: Shape, parameters: Parameters, empty: str | None = None) -> None:
        super().__init__(shape, shape.before, shape.after)
        self.parameters = parameters
        self._empty = empty
        self._after = markers(words(shape.after))
        self._middle = markers(words(shape.middle))
        self._between = markers(words(parameters.between))
        forms = list(zip(parameters.kinds, (True, False, False), strict=True))
        self._openings: dict[Marker, bool | None] = {}
        for kind, is_text in forms:
            if (opening := _opening(kind)) is not None:
                self._openings.setdefault(opening, is_text if parameters.typed else None)

    # --- reading --------------------------------------------------------------------------------------------------

    def read_call(self, source: Source, calls: Calls) -> Step[None]:
        if not (yield from source.ink()):
            raise Ended
        name = yield from source.word(TOOL_NAME)
        if not name:
            raise Fault("expected the name of a tool")
        calls.start(name)
        yield from self._skip(source, self._middle)
        openings = tuple(self._openings)
        try:
            while (found := (yield from source.tag((*openings, *self._after, *self._between)))) is not None:
                marker, match = found
                if marker in self._after:
                    break
                if marker in openings:
                    yield from self._value(source, calls, match.group("key"), self._openings[marker])
            else:
                if not calls.written:
                    raise Fault(f"in the call of {calls.name} expected a parameter")
        except Ended:
            # What closes the call is missing at the reply's end: forgiven where nothing else is.
            if source.rest.strip() or not source.complete:
                raise
        calls.finish_written(source.recorded)

    def _value(self, source: Source, calls: Calls, key: str, is_text: bool | None) -> Step[None]:
        parameters = self.parameters
        closing = parameters.closing if is_text is not False else parameters.closing_bare
        if not closing.strip():
            yield from source.ink()
            word = yield from source.word(_BARE_VALUE)
            calls.delta(key, word)
            calls.written.append(Written(key, word, False))
            return
        yield from self._line_break(source, parameters.kinds[0])
        value: list[str] = []

        def take(text: str) -> None:
            value.append(text)
            calls.delta(key, text)

        if (yield from source.until(_closings(closing, key), take)) is None:
            raise Ended
        calls.written.append(Written(key, "".join(value), is_text))

    @staticmethod
    def _line_break(source: Source, opening: str) -> Step[None]:
        """The line break that belongs to the opening mark."""
        if not opening.endswith("\n"):
            return
        while not source.rest:
            yield from source.more()
        if source.rest[0] == "\n":
            source.advance(source.at + 1)

    # --- writing --------------------------------------------------------------------------------------------------

    def segments(self, calls: Sequence[MadeCall], *, text_precedes: bool = False) -> list[Segment]:
        if self._empty is None or len(calls) != 1 or calls[0][1]:
            return super().segments(calls, text_precedes=text_precedes)
        name, _, call_id = calls[0]
        text = self._empty.lstrip() if text_precedes else self._empty
        before, _, after = self.shape.fill(text, call_id=call_id, name="\0").partition("\0")
        gap = self.shape.gap if text_precedes else ""
        return [Segment(gap + before, special=True), Segment(name), Segment(after.replace("\0", name), special=True)]

    def argument_segments(self, arguments: Mapping[str, Any]) -> list[Segment]:
        parameters = self.parameters
        segments: list[Segment] = []
        for key, value in arguments.items():
            opening = self._kind(value).replace(KEY, key)
            closing = parameters.closing if isinstance(value, str) else parameters.closing_bare
            between = parameters.between if segments else ""
            segments += [Segment(between + opening, special=True), Segment(self.render_value(key, value))]
            segments.append(Segment(closing.replace(KEY, key), special=True))
        return segments

    def _kind(self, value: Any) -> str:
        text, integer, boolean = self.parameters.kinds
        return text if isinstance(value, str) else (boolean if isinstance(value, bool) else integer)

    def render_value(self, key: str, value: Any) -> str:
        if isinstance(value, bool):
            return self.parameters.booleans[0 if value else 1]
        if not isinstance(value, str):
            return json.dumps(value, ensure_ascii=False, allow_nan=False)
        mark = self.parameters.closing.replace(KEY, key).strip()
        # These marks have no escape: one in a value is broken, so that it cannot end it.
        return value.replace(mark, mark[0] + " " + mark[1:]) if mark else value

    # --- grammar --------------------------------------------------------------------------------------------------

    def arguments_rule(self, rules: gbnf.Rules, spec: ToolSpec) -> str:
        parameters = self.parameters
        between = gbnf.literal(parameters.between) if parameters.between else ""
        return gbnf.members(spec, lambda parameter: self._parameter_rule(rules, parameter), between)

    def _parameter_rule(self, rules: gbnf.Rules, spec: ParameterSpec) -> str:
        parameters = self.parameters
        text, integer, boolean = (gbnf.literal(kind.replace(KEY, spec.name)) for kind in parameters.kinds)
        closing = parameters.closing.replace(KEY, spec.name)
        if spec.kind == "string":
            kind = "text" if KEY not in parameters.closing else f"text-{re.sub('[^a-z0-9]', '-', spec.name)}"
            # The line break before the closing mark is the model's to write: a mark without it closes as well.
            return f"{text} {rules.until(kind, closing.strip())}"
        if spec.kind == "enum":
            return f"{text} {gbnf.choices(spec.choices)} {gbnf.literal(closing)}"
        bare = gbnf.literal(parameters.closing_bare.replace(KEY, spec.name)) if parameters.closing_bare else ""
        opening = boolean if spec.kind == "boolean" else integer
        return f"{opening} {gbnf.scalar(spec, boolean=parameters.booleans)} {bare}"


def _opening(kind: str) -> Marker | None:
    before, _, after = kind.partition(KEY)
    parts: list[str | tuple[str]] = []
    for index, word in enumerate(before.split()):
        parts += [(SPACE,), word] if index else [word]
    if parts and before[-1:].isspace():
        parts.append((SPACE,))
    parts.append((f"(?P<key>{NAME[1:-1]})",))
    if after[:1].isspace():
        parts.append((SPACE,))
    for index, word in enumerate(after.split()):
        parts += [(SPACE,), word] if index else [word]
    return marker(*parts)


def _closings(closing: str, key: str) -> tuple[Marker, ...]:
    """The closing mark, first with the line break that belongs to it."""
    plain = flexible(closing, key=key)
    assert plain is not None
    if not closing.startswith("\n"):
        return (plain,)
    words_of = closing.replace(KEY, key).split()
    parts: list[str | tuple[str]] = ["\n"]
    for index, word in enumerate(words_of):
        parts += [(SPACE,), word] if index else [word]
    return marker(*parts), plain


# --- recognising --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Found:
    span: Span
    gaps: tuple[str, str, str, str]
    """Before the first key, between values and keys, after the last value."""
    kinds: tuple[str, str, str]
    """Between keys and values."""
    values: tuple[str, str, str]


def recognise(samples: CallSamples) -> Syntax | None:
    """The syntax of ``samples`` where parameters stand one by one."""
    if samples.one is None:
        return None
    found = _find(samples.one, samples.first, 0)
    if found is None:
        return None
    parameters, begin, end = _parameters(found, samples.first)
    one = [(found.span[0], found.span[1] + begin, found.span[2] + end)]
    two = _spans(samples, begin, end) if samples.two is not None else None
    shape = shape_of(samples, one, two)
    return None if shape is None else TaggedCalls(shape, parameters, _empty(samples))


def _spans(samples: CallSamples, begin: int, end: int) -> list[Span] | None:
    spans: list[Span] = []
    at = 0
    for call in (samples.first, samples.second):
        found = _find(samples.two or "", call, at)
        if found is None:
            return None
        spans.append((found.span[0], found.span[1] + begin, found.span[2] + end))
        at = found.span[2]
    return spans


def _find(text: str, call: SampleCall, at: int) -> _Found | None:
    keys = list(call.arguments)
    values = [_written(value) for value in call.arguments.values()]
    first_key = text.find(keys[0], at)
    name = text.rfind(call.name, at, first_key) if first_key >= 0 else -1
    if name < 0:
        return None
    begin = position = name + len(call.name)
    gaps: list[str] = []
    kinds: list[str] = []
    written: list[str] = []
    for index, (key, spellings) in enumerate(zip(keys, values, strict=True)):
        key_at = text.find(key, position)
        if key_at < 0:
            return None
        # The key before may stand once more in its closing mark.
        gap = text[position:key_at]
        gaps.append(gap.replace(keys[index - 1], KEY) if index else gap)
        places = [(place, word) for word in spellings if (place := text.find(word, key_at + len(key))) >= 0]
        if not places:
            return None
        value_at, word = min(places)
        kinds.append(text[key_at + len(key) : value_at])
        written.append(word)
        position = value_at + len(word)
    gaps.append(text[position:].replace(keys[-1], KEY))
    return _Found(
        (name, begin, position),
        (gaps[0], gaps[1], gaps[2], gaps[3]),
        (kinds[0], kinds[1], kinds[2]),
        (written[0], written[1], written[2]),
    )


def _written(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("true", "True") if value else ("false", "False")
    return (str(value),)


def _parameters(found: _Found, call: SampleCall) -> tuple[Parameters, int, int]:
    """The marks of a parameter; how much of what precedes the first key is no part of them, and how much of what
    follows the last value is."""
    first, text_gap, integer_gap, _ = found.gaps
    opening = _common_end(first, _common_end(text_gap, integer_gap))
    closing_text = text_gap[: len(text_gap) - len(opening)]
    closing_bare = integer_gap[: len(integer_gap) - len(opening)]
    between = _common_end(closing_text, closing_bare) if closing_text != closing_bare else _loose_end(closing_text)
    closing_text = closing_text[: len(closing_text) - len(between)]
    closing_bare = closing_bare[: len(closing_bare) - len(between)]
    true = found.values[2]
    parameters = Parameters(
        between=between,
        kinds=(
            opening + KEY + found.kinds[0],
            opening + KEY + found.kinds[1],
            opening + KEY + found.kinds[2],
        ),
        closing=closing_text,
        closing_bare=closing_bare,
        booleans=("True", "False") if true[0] in "TF" else ("true", "false"),
    )
    last_key = list(call.arguments)[-1]
    return parameters, len(first) - len(opening), len(closing_bare.replace(KEY, last_key))


def _common_end(a: str, b: str) -> str:
    """What two marks end with alike, in whole words."""
    left, right = words_and_space(a), words_and_space(b)
    count = 0
    while count < min(len(left), len(right)) and left[-1 - count] == right[-1 - count]:
        count += 1
    return "".join(left[len(left) - count :])


def _loose_end(closing: str) -> str:
    """The white space behind a closing mark: it parts parameters."""
    return closing[len(closing.rstrip()) :] if closing.strip() else closing


def words_and_space(mark: str) -> list[str]:
    return re.findall(r"<[^<>\s]*>?|\s+|[^\s<]+", mark)


def _empty(samples: CallSamples) -> str | None:
    """A whole call without arguments, where the template writes it otherwise than by leaving them out."""
    if samples.empty is None:
        return None
    text = samples.empty.replace(samples.first.name, TOOL)
    return text.replace(samples.first.call_id, ID) if samples.first.call_id else text
