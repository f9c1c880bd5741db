"""From a call that the model wrote to a result that it can act on."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from ds4_lsp.ports import ToolSpec
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.tools.base import Call, Tool, ToolResult

log = logging.getLogger("ds4_lsp.tools")


class Toolbox:
    """The tools of a session, by name, in the order in which the model is told of them."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError("two tools have the same name")

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec() for tool in self._tools.values())

    def changes(self, name: str) -> bool:
        """Whether the tool has side effects, so that the log must be on disk before it runs."""
        tool = self._tools.get(name)
        return tool is not None and tool.changes

    async def run(self, name: str, arguments: Mapping[str, Any], call: Call) -> ToolResult:
        """Validate and run. Never raises: a failure is a result with ``ok`` False, a text for the model, and
        ``data["code"]``, where the failure is one of the error tree's."""
        tool = self._tools.get(name)
        if tool is None:
            return ToolResult(self._unknown(name), ok=False)
        try:
            valid = tool.Arguments.model_validate(dict(arguments))
        except ValidationError as error:
            return ToolResult(_invalid(tool, error), ok=False)
        try:
            return await tool.run(valid, call)
        except Ds4Error as error:
            told = await tool.after_refusal(valid, error, call) or ToolResult(error.message, ok=False)
            return replace(told, data={**told.data, "code": error.code})
        except Exception as error:
            log.exception("tool %s failed in call %s", name, call.call_id)
            return ToolResult(
                f"The tool {name} failed inside ({type(error).__name__}: {error}). This is a fault of the tool, not of "
                f"the call: try another way, and tell the user.",
                ok=False,
            )

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        return f"There is no tool {name!r}.{hint} The tools are: {', '.join(self._tools)}."


def _invalid(tool: Tool[Any], error: ValidationError) -> str:
    known = tool.Arguments.model_fields
    lines = []
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        match problem["type"]:
            case "missing":
                lines.append(f"parameter {name} is missing")
            case "extra_forbidden":
                close = difflib.get_close_matches(name, known, n=1)
                lines.append(f"there is no parameter {name}" + (f" (did you mean {close[0]}?)" if close else ""))
            case _ if name:
                lines.append(f"parameter {name}: {problem['msg']} (it was {_short(problem['input'])})")
            case _:
                lines.append(problem["msg"])
    names = ", ".join(key + ("" if info.is_required() else " (optional)") for key, info in known.items())
    return f"The call of {tool.name} is not valid, and nothing was done: {'; '.join(lines)}. Its parameters: {names}."


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
