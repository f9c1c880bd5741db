"""The grammar as llama.cpp understands it: it takes every valid call and refuses what the parser would not run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax.events import CallsEnd, Malformed, ToolCall
from ds4_lsp.syntax.prompt import render_calls
from ds4_lsp.syntax.registry import named

ACCEPTED = -1


def grammar(tools):
    return named("dsml").grammar(tools).text


@pytest.fixture(scope="session")
def take(small_model):
    def run(*cases):
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("grammar_probe.py"))],
            input=json.dumps({"model": str(small_model), "cases": cases}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


VALID = [
    [("read", {"path": "src/a.py"})],
    [("read", {"path": "", "start_line": 1})],
    [("read", {"path": "é ｜ </ </p <<< </<｜ <", "max_lines": 500, "whole": True})],
    [("search", {"query": "line\nline\t\"'\\ <｜DSML｜tool_calls>", "mode": "regex", "context": 0, "offset": -12})],
    [("bash_status", {"job": "j1"}), ("list", {}), ("list", {"path": "."})],
]


def test_every_valid_block_is_taken_and_parses_to_calls_without_errors(take, tools, parse):
    texts = [render_calls(calls) for calls in VALID]
    assert take([grammar(tools), texts]) == [[ACCEPTED] * len(texts)]
    for text, calls in zip(texts, VALID, strict=True):
        events = [event for event in parse(text) if isinstance(event, ToolCall)]
        assert [(event.name, event.arguments, event.error) for event in events] == [(*call, None) for call in calls]


def call(inner, name="read"):
    return f'<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{name}">\n{inner}</｜DSML｜invoke>\n</｜DSML｜tool_calls>'


def parameter(name, value, is_text="false"):
    return f'<｜DSML｜parameter name="{name}" string="{is_text}">{value}</｜DSML｜parameter>\n'


PATH = parameter("path", "a", "true")
QUERY = parameter("query", "a", "true")
INVALID = {
    "no call": "<｜DSML｜tool_calls>\n</｜DSML｜tool_calls>",
    "text before the block": "x",
    "an unknown tool": call("", "reed"),
    "a missing parameter": call(""),
    "a parameter twice": call(PATH + PATH),
    "an unknown parameter": call(PATH + parameter("nope", "1")),
    "an optional parameter before a required one": call(parameter("max_lines", "1") + PATH),
    "zero below a minimum of one": call(PATH + parameter("start_line", "0")),
    "a negative below a minimum": call(QUERY + parameter("context", "-1"), "search"),
    "more than a maximum": call(PATH + parameter("max_lines", "501")),
    "a leading zero": call(PATH + parameter("start_line", "01")),
    "a fraction": call(PATH + parameter("start_line", "1.5")),
    "a number as text": call(PATH + parameter("start_line", "1", "true")),
    "a boolean by another name": call(PATH + parameter("whole", "yes")),
    "another choice": call(QUERY + parameter("mode", "glob", "true"), "search"),
    "a sloppy closing tag in a text": call(parameter("path", "a</ ｜", "true")),
    "another closing tag in a text": call(parameter("path", "a</｜DSML｜invoke>", "true")),
    "text after the block": call(PATH) + "\n",
}


def test_what_would_not_run_is_refused(take, tools):
    [taken] = take([grammar(tools), list(INVALID.values())])
    verdicts = dict(zip(INVALID, taken, strict=True))
    assert {name: verdict for name, verdict in verdicts.items() if verdict in (ACCEPTED, len(INVALID[name]))} == {}


def test_bounds_are_exact_up_to_the_maximum(take):
    bounds = (1, 5, 9, 10, 40, 99, 100, 130)
    cases = []
    for maximum in bounds:
        tool = ToolSpec("t", "", (ParameterSpec("n", "integer", "", True, minimum=0, maximum=maximum),))
        cases.append([grammar([tool]), [call(parameter("n", number), "t") for number in range(maximum + 12)]])
    for maximum, verdicts in zip(bounds, take(*cases), strict=True):
        accepted = [number for number, verdict in enumerate(verdicts) if verdict == ACCEPTED]
        assert accepted == list(range(maximum + 1))


def test_whatever_the_text_automaton_takes_the_parser_ends_at_the_same_place(take, tools, parse):
    values = ["</", "<", "<<", "</ <", "</\n</", "<｜", "</x｜", "</ x｜DSML｜parameter>", "a<b></b>｜"]
    texts = [call(parameter("path", value, "true")) for value in values]
    assert take([grammar(tools), texts]) == [[ACCEPTED] * len(texts)]
    for value, text in zip(values, texts, strict=True):
        events = parse(text)
        assert [event.arguments["path"] for event in events if isinstance(event, ToolCall)] == [value]
        assert events[-1] == CallsEnd()
        assert not [event for event in events if isinstance(event, Malformed)]


def test_a_grammar_that_does_not_parse_is_seen_by_the_probe(take):
    assert take(["root ::= (", ["x"]]) == [[None]]


def test_no_tools_and_tools_of_one_rule_are_refused(tools):
    with pytest.raises(ValueError, match="at least one"):
        grammar([])
    with pytest.raises(ValueError, match="two tools"):
        grammar([tools[0], tools[0]])


def test_a_call_has_exactly_one_of_its_alternatives():
    spec = ToolSpec(
        "edit",
        "",
        (
            ParameterSpec("path", "string", "", True),
            ParameterSpec("line", "integer", "", False),
            ParameterSpec("first", "integer", "", False),
            ParameterSpec("last", "integer", "", False),
            ParameterSpec("new", "string", "", True),
        ),
        one_of=(("line",), ("first", "last")),
    )
    rule = next(line for line in grammar([spec]).splitlines() if line.startswith("call-edit ::="))
    assert ")?" not in rule
    assert rule.index('\\"path\\"') < rule.index('\\"line\\"') < rule.index('\\"first\\"') < rule.index('\\"new\\"')
