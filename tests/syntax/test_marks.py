"""The patterns that the engine gets agree with the parser's marks."""

from __future__ import annotations

import re

import pytest

from ds4_lsp.syntax import dsml
from ds4_lsp.syntax.registry import named
from ds4_lsp.syntax.stops import summary_stops

SYNTAX = named("dsml")
MARKERS = [
    *SYNTAX.openings,
    SYNTAX.closing,
    dsml.INVOKE_OPENING,
    dsml.INVOKE_CLOSING,
    dsml.TEXT_OPENING,
    dsml.JSON_OPENING,
    dsml.PARAMETER_CLOSING,
]
SPELLINGS = [
    SYNTAX.open,
    "<DSML｜tool_calls>",
    SYNTAX.close,
    "</ ｜｜ DSML ｜｜ tool_calls ｜ >",
    '<｜DSML｜invoke name="bash_stop">',
    dsml.INVOKE_CLOSE,
    '<｜DSML｜parameter name="old" string="true">',
    '<｜DSML｜parameter name="line" string="false">',
    dsml.PARAMETER_CLOSE,
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_beginning_of_a_mark_is_seen_as_one(spelling):
    [marker] = [marker for marker in MARKERS if marker.full.fullmatch(spelling)]
    for length in range(1, len(spelling)):
        assert marker.may_begin(spelling[:length], 0)
        assert marker.at(spelling[:length], 0) is None


@pytest.mark.parametrize("close", ["</｜DSML｜tool_calls>", "</｜DSML｜tool_calls >", "</｜｜DSML｜tool_calls>"])
def test_the_stop_of_a_block_is_what_the_parser_closes_at(close):
    [stop] = SYNTAX.stops
    assert re.search(stop.pattern, f"x{close}y").group() == close
    assert stop.keep


@pytest.mark.parametrize(
    "mark",
    [
        "</think>",
        "<tool_call>",
        "<|tool_calls|>",
        "[TOOL_CALLS]",
        "<｜tool▁calls▁begin｜>",
        "<｜DSML｜tool_calls>",
        "<DSML｜tool_calls>",
        "</｜DSML｜invoke>",
        "<|DSML|x",
        "< ｜DSML｜",
    ],
)
def test_a_summary_stops_before_any_mark(mark):
    found = [re.search(rule.pattern, f"so {mark}") for rule in summary_stops()]
    assert [match.start() for match in found if match] == [3]
    assert not any(rule.keep for rule in summary_stops())


@pytest.mark.parametrize("text", ["a < b", "<div>", "the DSML syntax", "｜"])
def test_a_summary_does_not_stop_at_ordinary_text(text):
    assert not any(re.search(rule.pattern, text) for rule in summary_stops())
