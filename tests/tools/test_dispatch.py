from __future__ import annotations

import logging
from typing import Any, Literal

import pytest
from pydantic import Field

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import StaleFileTag
from ds4_lsp.tools.base import Call, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.dispatch import Toolbox


class EchoArguments(ToolArguments):
    text: str = Field(description="What to say.")
    times: int = Field(1, ge=1, le=9, description="How often.")
    how: Literal["plain", "error", "crash"] = Field("plain", description="What happens.")


class Echo(Tool[EchoArguments]):
    name = "echo"
    description = "Say it."
    Arguments = EchoArguments

    async def run(self, arguments: EchoArguments, call: Call) -> ToolResult:
        match arguments.how:
            case "error":
                raise StaleFileTag("The tag is stale: read the file again.", expected="a")
            case "crash":
                raise ZeroDivisionError("by nought")
        return ToolResult(arguments.text * arguments.times)


class Touch(Echo):
    name = "touch"
    changes = True


CALL = Call("s", 1, "c1", Cancel())


@pytest.fixture
def toolbox() -> Toolbox:
    return Toolbox([Echo(), Touch()])


async def test_text_values_are_coerced_to_the_parameters_types(toolbox: Toolbox) -> None:
    assert await toolbox.run("echo", {"text": "ab", "times": "2"}, CALL) == ToolResult("abab")


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({}, ["parameter text is missing"]),
        ({"text": "a", "time": 2}, ["no parameter time", "did you mean times?"]),
        ({"text": "a", "times": 0}, ["parameter times:", "greater than or equal to 1", "(it was 0)"]),
        ({"text": "a", "times": "many"}, ["parameter times:", "'many'"]),
        ({"text": ["a"], "how": "x" * 500}, ["parameter text:", "parameter how:", "'plain'"]),
    ],
)
async def test_invalid_arguments_name_the_parameter_and_nothing_runs(
    toolbox: Toolbox, arguments: dict[str, Any], texts: list[str]
) -> None:
    result = await toolbox.run("echo", arguments, CALL)
    assert not result.ok
    assert "nothing was done" in result.text
    assert result.text.endswith("Its parameters: text, times (optional), how (optional).")
    assert len(result.text) < 600
    for text in texts:
        assert text in result.text


async def test_an_unknown_tool_is_answered_with_those_there_are(toolbox: Toolbox) -> None:
    result = await toolbox.run("ecko", {}, CALL)
    assert (result.ok, result.text) == (
        False,
        "There is no tool 'ecko'. Did you mean echo? The tools are: echo, touch.",
    )


async def test_a_refusal_becomes_text_with_its_code(toolbox: Toolbox) -> None:
    result = await toolbox.run("echo", {"text": "a", "how": "error"}, CALL)
    assert result == ToolResult("The tag is stale: read the file again.", ok=False, data={"code": "staleFileTag"})


async def test_a_crash_becomes_text_and_its_traceback_is_logged(
    toolbox: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "ds4_lsp.tools"):
        result = await toolbox.run("echo", {"text": "a", "how": "crash"}, CALL)
    assert not result.ok
    assert "ZeroDivisionError: by nought" in result.text
    assert "Traceback" in caplog.text
    assert "c1" in caplog.text


def test_specs_keep_the_order_and_changes_are_known(toolbox: Toolbox) -> None:
    assert [spec.name for spec in toolbox.specs()] == ["echo", "touch"]
    assert [toolbox.changes(name) for name in ("echo", "touch", "none")] == [False, True, False]


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        Toolbox([Echo(), Echo()])
