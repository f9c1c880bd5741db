"""The system prompt's tool section, and calls written as the parser reads them.

The section is short because a CPU evaluates it at 100 to 200 tokens a second, and shows one whole example because
small models copy better than they follow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax.marks import (
    DSML,
    INVOKE_CLOSE,
    PARAMETER_CLOSE,
    PARAMETER_CLOSING,
    TOOL_CALLS_CLOSE,
    TOOL_CALLS_OPEN,
)

_SECTION = """\
# Tools

You know nothing of the workspace but what tools show you. These are the tools (* = required; text unless marked):

{tools}

# How to call a tool

End your reply with a block like this, and stop:

{example}

- Copy the tags exactly. One parameter per tag; string="true" for text, string="false" for numbers and true/false.
- Text is taken as it is: no quotes, no escapes, no code fences.
- Only such a block runs, and only outside of thinking. Never show a call as an example.
- The user's next messages give the results. Never write results yourself.
- When no tool is needed, answer in plain text.
"""


def tool_instructions(specs: Iterable[ToolSpec]) -> str:
    """The tool section for the system prompt; empty without tools. It contains DSML marks: it is for a segment that is
    tokenised with specials."""
    tools = tuple(specs)
    if not tools:
        return ""
    sample = next((spec for spec in tools if spec.examples), None) or min(tools, key=_unlike_an_example)
    arguments = sample.examples[0] if sample.examples else _sample_arguments(sample)
    listing = "\n".join(_describe(spec) for spec in tools)
    return _SECTION.format(example=render_calls([(sample.name, arguments)]), tools=listing)


def render_calls(calls: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """A whole block of calls."""
    return "\n".join([TOOL_CALLS_OPEN, *(render_call(name, arguments) for name, arguments in calls), TOOL_CALLS_CLOSE])


def render_call(name: str, arguments: Mapping[str, Any]) -> str:
    """One ``invoke``: what the parser turns back into ``name`` and ``arguments``. A text that holds a closing tag is
    written as JSON with its ``<`` escaped. Raises ``ValueError`` for a value that JSON cannot hold."""
    lines = [f'<{DSML}invoke name="{name}">']
    for key, value in arguments.items():
        is_text = isinstance(value, str) and PARAMETER_CLOSING.full.search(value) is None
        text = value if is_text else json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
        lines.append(f'<{DSML}parameter name="{key}" string="{"true" if is_text else "false"}">{text}{PARAMETER_CLOSE}')
    return "\n".join([*lines, INVOKE_CLOSE])


def _describe(spec: ToolSpec) -> str:
    lines = [f"## {spec.name}: {spec.description}", *(_describe_parameter(p) for p in spec.parameters)]
    if spec.one_of:
        lines.append(f"Give exactly one of: {', or '.join(' with '.join(names) for names in spec.one_of)}.")
    return "\n".join(lines)


def _describe_parameter(spec: ParameterSpec) -> str:
    kind = {"string": "", "enum": f" ({' or '.join(spec.choices)})"}.get(spec.kind, f" ({spec.kind})")
    about = f": {spec.description}" if spec.description else ""
    return f"- {spec.name}{'*' if spec.required else ''}{kind}{about}"


def _unlike_an_example(spec: ToolSpec) -> tuple[bool, int]:
    """Least for what is easiest to show: it needs a path, and little else."""
    required = [parameter.name for parameter in spec.parameters if parameter.required]
    return "path" not in required, len(required)


def _sample_arguments(spec: ToolSpec) -> dict[str, Any]:
    """The required parameters, and one number for its ``string="false"``."""
    samples = {"string": "path/to/file", "integer": 1, "boolean": True}
    number = next((parameter for parameter in spec.parameters if parameter.kind == "integer"), None)
    return {
        parameter.name: parameter.choices[0] if parameter.kind == "enum" else samples[parameter.kind]
        for parameter in spec.parameters
        if parameter.required or parameter is number
    }
