"""The tool section teaches what the parser reads."""

from __future__ import annotations

import pytest

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax.events import CallsEnd, ToolCall
from ds4_lsp.syntax.prompt import tool_instructions
from ds4_lsp.syntax.registry import named

SYNTAX = named("dsml")


def example_of(section):
    start = section.index(SYNTAX.open)
    return section[start : section.index(SYNTAX.close) + len(SYNTAX.close)]


def test_the_example_is_a_call_that_runs(tools, parse):
    events = parse(example_of(tool_instructions(tools)))
    assert [(event.name, event.error) for event in events if isinstance(event, ToolCall)] == [("read", None)]
    assert events[-1] == CallsEnd()


def test_the_example_shows_a_text_and_a_number(tools):
    example = example_of(tool_instructions(tools[::-1]))
    assert 'name="path" string="true">path/to/file<' in example
    assert 'name="start_line" string="false">1<' in example


def test_a_tools_own_example_is_preferred(parse):
    plain = ToolSpec("list", "", (ParameterSpec("path", "string", "", False),))
    shown = ToolSpec("read", "", (ParameterSpec("path", "string", "", True),), examples=({"path": "docs/x.md"},))
    [call] = [e for e in parse(example_of(tool_instructions([plain, shown]))) if isinstance(e, ToolCall)]
    assert (call.name, call.arguments) == ("read", {"path": "docs/x.md"})


def test_every_tool_and_parameter_is_listed_with_its_kind(tools):
    section = tool_instructions(tools)
    for tool in tools:
        assert f"## {tool.name}: {tool.description}" in section
    assert "- path*: file to read" in section
    assert "- max_lines (integer): most lines" in section
    assert "- mode (literal or regex)" in section


def test_there_is_one_block_and_no_thinking_mark_in_the_section(tools):
    section = tool_instructions(tools)
    assert section.count(SYNTAX.open) == 1
    assert "<think>" not in section
    assert "</think>" not in section


def test_no_tools_no_section():
    assert tool_instructions([]) == ""


def test_a_value_that_json_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        SYNTAX.render_call("t", {"x": float("nan")})
