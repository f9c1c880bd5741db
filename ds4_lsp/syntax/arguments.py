"""From what was written to a call's arguments, and what is wrong with them. Types are the tool's own business."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4_lsp.ports import ParameterSpec, ToolSpec

DEEPEST = 32
"""Brackets within brackets in a value. No tool needs three; hundreds break what reads the log."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
_WORDS = {"True": "true", "False": "false", "None": "null"}
_WORD = re.compile(r"\b(?:True|False|None)\b")


@dataclass(frozen=True)
class Written:
    """A parameter as written. ``is_text``: raw text; not so: JSON; None: the tool's specification decides."""

    name: str
    value: str
    is_text: bool | None


def resolve(
    specs: Mapping[str, ToolSpec], tool: str, parameters: Sequence[Written]
) -> tuple[dict[str, Any], str | None]:
    """The arguments, and every fault in one text, or None. Of a repeated parameter the first counts."""
    arguments: dict[str, Any] = {}
    faults: list[str] = []
    spec = specs.get(tool)
    kinds = {parameter.name: parameter for parameter in spec.parameters} if spec else {}
    for parameter in parameters:
        if parameter.name in arguments:
            faults.append(f'the parameter "{parameter.name}" is given twice')
            continue
        try:
            arguments[parameter.name] = _value(parameter, kinds.get(parameter.name))
        except ValueError as error:
            arguments[parameter.name] = parameter.value
            hint = '; plain text needs string="true"' if parameter.is_text is False else ""
            faults.append(f'the value of "{parameter.name}" is not valid JSON ({error}){hint}')
    return arguments, check(specs, tool, arguments, faults)


def check(
    specs: Mapping[str, ToolSpec], tool: str, arguments: Mapping[str, Any], faults: Sequence[str] = ()
) -> str | None:
    """What is wrong with a call, with the ``faults`` that are known already, in one text; or None."""
    spec = specs.get(tool)
    if spec is None:
        return "; ".join([f'there is no tool "{tool}"; the tools are {", ".join(specs)}', *faults])
    known = [parameter.name for parameter in spec.parameters]
    unknown = [
        f'{tool} has no parameter "{name}"; it takes {", ".join(known) or "none"}'
        for name in arguments
        if name not in known
    ]
    missing = [
        f'the parameter "{parameter.name}" is missing'
        for parameter in spec.parameters
        if parameter.required and parameter.name not in arguments
    ]
    return "; ".join([*faults, *unknown, *missing]) or None


def _value(parameter: Written, spec: ParameterSpec | None) -> Any:
    if parameter.is_text is None:
        return coerce(parameter.value, spec)
    return parameter.value if parameter.is_text else parse_json(parameter.value)


def coerce(text: str, spec: ParameterSpec | None) -> Any:
    """The value of a parameter whose type the syntax does not write. What does not fit its kind stays text: the tool
    says what it wants."""
    word = text.strip()
    if spec is None or spec.kind == "string":
        return text
    if spec.kind == "integer":
        return int(word) if re.fullmatch(r"[+-]?\d{1,18}", word) else text
    if spec.kind == "boolean":
        return {"true": True, "false": False}.get(word.lower(), text)
    return word


def plain_name(name: str) -> str:
    """A tool's name without what some models put around it: ``functions.read:0`` is ``read``."""
    return re.sub(r":\d+$", "", name).removeprefix("functions.")


def parse_json(text: str) -> Any:
    """JSON, with the slips of models: a trailing comma, a real line break in a string, Python's words. No NaN, no
    number beyond a float, no half of a surrogate pair. Raises ``ValueError`` with a reason of one line."""
    if _too_deep(text):
        raise ValueError(f"nested more than {DEEPEST} deep")
    try:
        return _load(text)
    except json.JSONDecodeError as error:
        mended = _mend(text)
        if mended != text:
            try:
                return _load(mended)
            except json.JSONDecodeError:
                pass
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None


def _load(text: str) -> Any:
    return _whole(json.loads(text, parse_constant=_refuse, parse_float=_finite, strict=False))


def _mend(text: str) -> str:
    """Outside of strings: no comma before a closing bracket, Python's words as JSON's."""
    pieces: list[str] = []
    at = 0
    for string in _STRING.finditer(text):
        pieces += [_WORD.sub(lambda word: _WORDS[word.group()], text[at : string.start()]), string.group()]
        at = string.end()
    pieces.append(_WORD.sub(lambda word: _WORDS[word.group()], text[at:]))
    # A comma and its bracket are never parted by a string: both lie in one piece.
    return "".join(_TRAILING_COMMA.sub(r"\1", piece) if index % 2 == 0 else piece for index, piece in enumerate(pieces))


def _too_deep(text: str) -> bool:
    depth = deepest = 0
    for character in _STRING.sub("", text):
        depth += (character in "[{") - (character in "]}")
        deepest = max(deepest, depth)
    return deepest > DEEPEST


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {whole_text(key): _whole(item) for key, item in value.items()}
    return value


def whole_text(text: str) -> str:
    """``text`` with U+FFFD for halves of surrogate pairs, which no file and no log can hold."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
