"""The system prompt's tool section in our own words, for any syntax; a template's own section takes its place.

The section is short because a CPU evaluates it at 100 to 200 tokens a second, and shows one whole example because
small models copy better than they follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax.block import Syntax
from ds4_lsp.syntax.registry import named

_SECTION = """\
# Tools

You know nothing of the workspace but what tools show you. These are the tools (* = required; text unless marked):

{tools}

# How to call a tool

End your reply with a block like this, and stop:

{example}

{hints}
- Only such a block runs, and only outside of thinking. Never show a call as an example.
- The user's next messages give the results. Never write results yourself.
- When no tool is needed, answer in plain text.
"""


def tool_instructions(specs: Iterable[ToolSpec], syntax: Syntax | None = None) -> str:
    """The tool section for the system prompt; empty without tools. ``syntax``: DSML if None. It contains its marks: it
    is for a segment that is tokenised with specials."""
    tools = tuple(specs)
    if not tools:
        return ""
    syntax = syntax or named("dsml")
    sample = next((spec for spec in tools if spec.examples), None) or min(tools, key=_unlike_an_example)
    arguments = sample.examples[0] if sample.examples else _sample_arguments(sample)
    return _SECTION.format(
        example=render_calls([(sample.name, arguments)], syntax),
        hints="\n".join(f"- {hint}" for hint in syntax.hints),
        tools="\n".join(_describe(spec) for spec in tools),
    )


def render_calls(calls: Iterable[tuple[str, Mapping[str, Any]]], syntax: Syntax | None = None) -> str:
    """A whole block of calls. ``syntax``: DSML if None."""
    made = [(name, arguments, f"call{number:05}") for number, (name, arguments) in enumerate(calls)]
    return (syntax or named("dsml")).render(made).strip()


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
