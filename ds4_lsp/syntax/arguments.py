"""From written parameters to a call's arguments, and what is wrong with them. Types are the tool's own business."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4_lsp.ports import ToolSpec


@dataclass(frozen=True)
class Written:
    """A parameter as written; ``is_text``: raw text rather than JSON."""

    name: str
    value: str
    is_text: bool


def resolve(
    specs: Mapping[str, ToolSpec], tool: str, parameters: Sequence[Written]
) -> tuple[dict[str, Any], str | None]:
    """The arguments, and every fault in one text, or None. Of a repeated parameter the first counts."""
    arguments: dict[str, Any] = {}
    faults: list[str] = []
    for parameter in parameters:
        if parameter.name in arguments:
            faults.append(f'the parameter "{parameter.name}" is given twice')
            continue
        try:
            arguments[parameter.name] = parameter.value if parameter.is_text else parse_json(parameter.value)
        except ValueError as error:
            arguments[parameter.name] = parameter.value
            faults.append(
                f'the value of "{parameter.name}" is not valid JSON ({error}); plain text needs string="true"'
            )
    spec = specs.get(tool)
    if spec is None:
        faults.insert(0, f'there is no tool "{tool}"; the tools are {", ".join(specs)}')
        return arguments, "; ".join(faults)
    known = [parameter.name for parameter in spec.parameters]
    faults += [
        f'{tool} has no parameter "{name}"; it takes {", ".join(known) or "none"}'
        for name in arguments
        if name not in known
    ]
    faults += [
        f'the parameter "{parameter.name}" is missing'
        for parameter in spec.parameters
        if parameter.required and parameter.name not in arguments
    ]
    return arguments, "; ".join(faults) or None


def parse_json(text: str) -> Any:
    """Strict JSON (no NaN, no Infinity). Raises ``ValueError`` with a reason of one line."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
