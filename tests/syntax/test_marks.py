"""The patterns that the engine gets agree with the parser's marks."""

from __future__ import annotations

import re

import pytest

from ds4_lsp.syntax import marks

MARKERS = [
    *marks.CALLS_OPENINGS,
    marks.CALLS_CLOSING,
    marks.INVOKE_OPENING,
    marks.INVOKE_CLOSING,
    marks.PARAMETER_TEXT_OPENING,
    marks.PARAMETER_JSON_OPENING,
    marks.PARAMETER_CLOSING,
    marks.THINK_OPENING,
    marks.THINK_CLOSING,
]
SPELLINGS = [
    marks.TOOL_CALLS_OPEN,
    "<DSML｜tool_calls>",
    marks.TOOL_CALLS_CLOSE,
    "</ ｜｜ DSML ｜｜ tool_calls ｜ >",
    '<｜DSML｜invoke name="bash_stop">',
    marks.INVOKE_CLOSE,
    '<｜DSML｜parameter name="old" string="true">',
    '<｜DSML｜parameter name="line" string="false">',
    marks.PARAMETER_CLOSE,
    marks.THINK_OPEN,
    marks.THINK_CLOSE,
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_beginning_of_a_mark_is_seen_as_one(spelling):
    [marker] = [marker for marker in MARKERS if marker.full.fullmatch(spelling)]
    for length in range(1, len(spelling)):
        assert marker.may_begin(spelling[:length], 0)
        assert marker.at(spelling[:length], 0) is None


@pytest.mark.parametrize("close", ["</｜DSML｜tool_calls>", "</｜DSML｜tool_calls >", "</｜｜DSML｜tool_calls>"])
def test_the_stop_of_a_block_is_what_the_parser_closes_at(close):
    assert re.search(marks.CALLS_STOP.pattern, f"x{close}y").group() == close
    assert marks.CALLS_STOP.keep


@pytest.mark.parametrize(
    "mark", ["</think>", "<｜DSML｜tool_calls>", "<DSML｜tool_calls>", "</｜DSML｜invoke>", "<|DSML|x", "< ｜DSML｜"]
)
def test_a_summary_stops_before_any_mark(mark):
    found = [re.search(rule.pattern, f"so {mark}") for rule in marks.SUMMARY_STOPS]
    assert [match.start() for match in found if match] == [3]
    assert not any(rule.keep for rule in marks.SUMMARY_STOPS)


@pytest.mark.parametrize("text", ["a < b", "<div>", "the DSML syntax", "｜"])
def test_a_summary_does_not_stop_at_ordinary_text(text):
    assert not any(re.search(rule.pattern, text) for rule in marks.SUMMARY_STOPS)
