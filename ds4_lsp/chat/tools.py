"""The tools' section of a model's own template: tools as JSON schemas, rendered where the template puts them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ds4_lsp.chat.cut import gaps
from ds4_lsp.chat.frames import Frames, Wrap
from ds4_lsp.chat.split import APART, SYSTEM, USER
from ds4_lsp.chat.template import Message, Render, render_apart
from ds4_lsp.ports import ModelInfo, ParameterSpec, ToolSpec


def schemas(specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as chat templates want them."""
    return [
        {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": _description(spec),
                "parameters": {
                    "type": "object",
                    "properties": {parameter.name: _schema(parameter) for parameter in spec.parameters},
                    "required": [parameter.name for parameter in spec.parameters if parameter.required],
                },
            },
        }
        for spec in specs
    ]


def with_tools(
    info: ModelInfo, frames: Frames, specs: Sequence[ToolSpec], render: Render = render_apart
) -> Frames | None:
    """``frames`` with the tools in their head; None where the template has no place for them.

    Where the template writes them behind the system text, the head ends inside the first user's message, which what
    describes the machine then begins: the head stays the same in every workspace.
    """
    tools = schemas(specs)
    head: list[Message] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}]
    way = replace(frames.way, tools=tools, mood={**frames.way.mood, "functions": json.dumps(tools)})
    if frames.way.system:
        [text] = render(info.chat_template or "", [way.job(head, info.bos, info.eos, opens=True)])
    else:
        merged: list[Message] = [{"role": "user", "content": f"{SYSTEM}{APART}{USER}"}]
        [text] = render(info.chat_template or "", [way.job(merged, info.bos, info.eos, opens=True)])
    found = gaps(text or "", [SYSTEM, USER])
    if found is None:
        return None
    before, between, behind = found
    shown = [spec.name in before for spec in specs], [spec.name in between for spec in specs]
    if not behind.startswith(frames.user.after) or not (all(shown[0]) or all(shown[1])):
        return None
    in_first = not all(shown[0]) or not between.endswith(frames.user.before) or frames.merges_system
    after = between if in_first else between.removesuffix(frames.user.before)
    return replace(
        frames,
        system=Wrap(before.removeprefix(frames.start), after),
        merges_system=in_first,
        environment_in_user=all(shown[1]) and not all(shown[0]),
    )


def _description(spec: ToolSpec) -> str:
    if not spec.one_of:
        return spec.description
    return f"{spec.description} Give exactly one of: {', or '.join(' with '.join(names) for names in spec.one_of)}."


def _schema(spec: ParameterSpec) -> Mapping[str, Any]:
    schema: dict[str, Any] = {"type": "string" if spec.kind == "enum" else spec.kind, "description": spec.description}
    if spec.choices:
        schema["enum"] = list(spec.choices)
    if spec.minimum is not None:
        schema["minimum"] = spec.minimum
    if spec.maximum is not None:
        schema["maximum"] = spec.maximum
    return schema
