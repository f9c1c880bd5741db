"""What the parser makes of well-formed, sloppy, broken and cut-off replies."""

from __future__ import annotations

import pytest

from ds4_lsp.syntax.events import (
    CallsEnd,
    DroppedCall,
    Malformed,
    ParameterDelta,
    Text,
    Thinking,
    ToolCall,
    ToolStart,
)
from ds4_lsp.syntax.parser import StreamParser

READ = (
    '<｜DSML｜invoke name="read">\n<｜DSML｜parameter name="path" string="true">a.py</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="start_line" string="false">40</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
)
BLOCK = f"<｜DSML｜tool_calls>\n{READ}</｜DSML｜tool_calls>"
READ_EVENTS = [
    ToolStart(0, "read"),
    ParameterDelta(0, "read", "path", "a.py"),
    ParameterDelta(0, "read", "start_line", "40"),
    ToolCall(0, "read", {"path": "a.py", "start_line": 40}, None),
]


def calls(events):
    return [event for event in events if isinstance(event, ToolCall)]


def faults(events):
    return [event for event in events if isinstance(event, Malformed)]


def test_a_block_gives_text_then_start_deltas_call_and_end(parse):
    assert parse(f"I look.\n\n{BLOCK}\n") == [Text("I look.\n\n"), *READ_EVENTS, CallsEnd(), Text("\n")]


def test_several_calls_of_a_block_are_numbered(parse):
    assert [call.index for call in calls(parse(f"<｜DSML｜tool_calls>{READ}{READ}</｜DSML｜tool_calls>{BLOCK}"))] == [
        0,
        1,
        2,
    ]


def test_an_opening_without_its_first_bar_is_accepted(parse):
    assert parse(BLOCK.replace("<｜DSML｜tool_calls>", "<DSML｜tool_calls>")) == [*READ_EVENTS, CallsEnd()]


@pytest.mark.parametrize(
    "closing",
    ["</｜DSML｜{} >", "</ ｜DSML｜{}>", "</｜｜DSML｜{}>", "</｜DSML｜｜{}>", "</｜DSML｜{}｜>", "</｜ DSML ｜ {}\n>"],
)
def test_white_space_and_an_extra_bar_in_closing_tags_are_accepted(parse, closing):
    sloppy = BLOCK
    for name in ("parameter", "invoke", "tool_calls"):
        sloppy = sloppy.replace(f"</｜DSML｜{name}>", closing.format(name))
    assert parse(sloppy) == [*READ_EVENTS, CallsEnd()]


def test_text_values_are_raw_and_json_values_are_parsed(parse):
    [call] = calls(
        parse(
            '<｜DSML｜tool_calls><｜DSML｜invoke name="search"><｜DSML｜parameter name="query" string="true">'
            ' "a" &lt; <b> \\n\n</｜DSML｜parameter><｜DSML｜parameter name="mode" string="false">"regex"'
            "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>"
        )
    )
    assert call.arguments == {"query": ' "a" &lt; <b> \\n\n', "mode": "regex"}
    assert call.error is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('<｜DSML｜invoke name="reed"></｜DSML｜invoke>', ["reed", "read, search"]),
        ('<｜DSML｜invoke name="read"></｜DSML｜invoke>', ['"path" is missing']),
        (READ.replace("40", "forty"), ["start_line", "not valid JSON", 'string="true"']),
        (READ.replace("40", "NaN"), ["start_line", "not valid JSON"]),
        (READ.replace("40", "[" * 100_000), ["start_line", "not valid JSON"]),
        (READ.replace("40", "1" * 5000), ["start_line", "not valid JSON"]),
        (READ.replace("start_line", "line"), ['no parameter "line"', "start_line"]),
        (READ.replace("start_line", "path"), ['"path" is given twice']),
    ],
)
def test_a_call_of_the_wrong_content_is_a_call_with_an_error_that_names_it(parse, body, words):
    [call] = calls(parse(f"<｜DSML｜tool_calls>{body}</｜DSML｜tool_calls>"))
    assert call.error is not None
    for word in words:
        assert word in call.error


@pytest.mark.parametrize(
    "body",
    [
        '<｜DSML｜invoke name="list"/></｜DSML｜invoke>',
        '<｜DSML｜invoke name="list" path="."></｜DSML｜invoke>',
        "list .",
        "<invoke>",
        '<｜DSML｜invoke name="">',
        f'<｜DSML｜invoke name="{"x" * 65}">',
        '<｜DSML｜parameter name="path" string="true">.</｜DSML｜parameter>',
    ],
)
def test_a_fault_between_calls_is_told_with_its_text_and_the_block_still_ends(parse, body):
    events = parse(f"<｜DSML｜tool_calls>\n{body}\n</｜DSML｜tool_calls>after")
    [fault] = faults(events)
    assert fault.text == body + "\n"
    assert fault.index is None
    assert 'invoke name="TOOL"' in fault.message
    assert events == [fault, CallsEnd(), Text("after")]


@pytest.mark.parametrize(
    "inner",
    [
        '<｜DSML｜parameter name="path" string="."/>',
        '<｜DSML｜parameter name="path">.</｜DSML｜parameter>',
        "path=.",
        "",
    ],
)
def test_a_fault_in_a_call_names_the_started_call_and_spares_those_before(parse, inner):
    events = parse(f'<｜DSML｜tool_calls>\n{READ}<｜DSML｜invoke name="list">{inner}</｜DSML｜tool_calls>')
    assert events[:4] == READ_EVENTS
    assert events[4] == ToolStart(1, "list")
    assert events[5:] == [Malformed(events[5].message, inner, 1), CallsEnd()]
    assert "list" in events[5].message


def test_a_call_after_a_fault_gets_a_fresh_index(parse):
    events = parse(f'<｜DSML｜tool_calls><｜DSML｜invoke name="list">x</｜DSML｜tool_calls>{BLOCK}')
    assert [event.index for event in events if isinstance(event, ToolStart)] == [0, 1]
    assert calls(events)[0].index == 1


def test_an_empty_block_is_told(parse):
    [fault, end] = parse("<｜DSML｜tool_calls>\n</｜DSML｜tool_calls>")
    assert "no call" in fault.message
    assert end == CallsEnd()


@pytest.mark.parametrize("length", range(len("<｜DSML｜tool_calls>"), len(BLOCK)))
def test_a_block_cut_off_anywhere_is_unfinished_and_does_not_end(parse, length):
    events = parse(BLOCK[:length], broken_off=True)
    assert isinstance(events[-1], Malformed)
    assert "Unfinished" in events[-1].message
    assert CallsEnd() not in events
    complete = len(calls(events)) == 1
    assert (events[-1].index is None) == (complete or ToolStart(0, "read") not in events)


@pytest.mark.parametrize("closing", ["", "</｜DSML｜invoke>", "</｜DSML｜invoke>\n"])
def test_closing_tags_that_are_missing_at_a_replys_own_end_are_forgiven(parse, closing):
    head = BLOCK[: BLOCK.index("</｜DSML｜invoke>")]
    assert parse(head + closing) == [*READ_EVENTS, CallsEnd()]
    assert isinstance(parse(head + closing, broken_off=True)[-1], Malformed)


def test_a_value_without_its_closing_tag_is_not_forgiven(parse):
    events = parse(BLOCK[: BLOCK.index(".py") + 3])
    assert "path of read was not closed" in events[-1].message


def test_calls_inside_thinking_are_dropped_told_and_shown_as_thinking(parse):
    dropped, *rest = parse(f"hm {BLOCK} hm</think>Done.{BLOCK}", thinking=True)[1:]
    assert isinstance(dropped, DroppedCall)
    assert "thinking" in dropped.message
    assert rest == [Thinking(BLOCK[len("<｜DSML｜tool_calls>") :] + " hm"), Text("Done."), *READ_EVENTS, CallsEnd()]


def test_the_models_own_think_tag_opens_thinking_anywhere_unless_it_is_quoted(parse):
    assert parse(f"\n <think>{BLOCK}</think>ok") == [
        Text("\n "),
        Thinking("<｜DSML｜tool_calls>"),
        parse(f"<think>{BLOCK}")[1],
        Thinking(BLOCK[len("<｜DSML｜tool_calls>") :]),
        Text("ok"),
    ]
    assert parse("say <think>x</think>") == [Text("say "), Thinking("x")]
    assert parse("the tag `<think>` opens") == [Text("the tag `<think>` opens")]
    assert not calls(parse(f"<think>a</think>b <think>{BLOCK}"))


def test_thinking_that_never_ends_runs_nothing(parse):
    assert not calls(parse(BLOCK, thinking=True))


@pytest.mark.parametrize(
    "tag",
    [
        '<｜DSML｜invoke name="read">',
        "<|DSML|tool_calls>",
        "<｜DSML｜tool_calls >",
        "<｜DSML｜function_calls>",
        "<DSML|invoke",
    ],
)
def test_a_tag_out_of_place_at_a_lines_start_is_told_once_and_stays_text(parse, tag):
    text = f"Well.\n  {tag}\n{tag}\n"
    events = parse(text)
    assert len(faults(events)) == 1
    assert "tool_calls" in faults(events)[0].message
    assert "".join(event.delta for event in events if isinstance(event, Text)) == text


def test_a_tag_quoted_in_the_middle_of_a_line_is_just_text(parse):
    text = "The tag `<｜DSML｜invoke` opens a call, `</｜DSML｜tool_calls>` ends the block."
    assert parse(text) == [Text(text)]


def test_bytes_split_inside_a_character_are_joined_and_bad_ones_replaced(parse):
    data = BLOCK.encode()
    assert parse(*(data[i : i + 1] for i in range(len(data)))) == [*READ_EVENTS, CallsEnd()]
    assert parse(b"a\xffb", b"\xef\xbd") == [Text("a�b�")]


def test_only_a_possible_beginning_of_a_mark_is_held_back(specs):
    parser = StreamParser(specs, thinking=False)
    assert (
        parser.feed("abc <")
        == [
            Text("abc "),
        ]
        and parser.held == "<"
    )
    assert parser.feed("｜DSML｜to") == [] and parser.held == "<｜DSML｜to"
    assert parser.feed("!") == [Text("<｜DSML｜to!")] and parser.held == ""


def test_feeding_a_finished_reply_is_refused(specs):
    parser = StreamParser(specs, thinking=False)
    assert parser.finish() == []
    assert parser.finish() == []
    with pytest.raises(ValueError, match="finished"):
        parser.feed("x")
