"""Invariants of the parser over any text, any bytes and any chunking."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.syntax.events import Text, Thinking, ToolCall
from ds4_lsp.syntax.parser import StreamParser
from ds4_lsp.syntax.prompt import render_calls
from ds4_lsp.syntax.registry import named

INK = "é"
"""A character that no mark contains: it may get lost nowhere."""
FRAGMENTS = st.sampled_from(
    [
        *'<>/｜ \n"=aé',
        "DSML",
        "<｜DSML｜tool_calls>",
        "<DSML｜tool_calls>",
        "</｜DSML｜tool_calls>",
        "</ ｜｜DSML ｜tool_calls｜>",
        '<｜DSML｜invoke name="read">',
        '<｜DSML｜invoke name="é">',
        "</｜DSML｜invoke>",
        '<｜DSML｜parameter name="path" string="true">',
        '<｜DSML｜parameter name="é" string="false">',
        "</｜DSML｜parameter>",
        "</｜DSML｜parameter >",
        "<|DSML|invoke",
        "<think>",
        "</think>",
        "éé",
        "40",
    ]
)
REPLIES = st.lists(FRAGMENTS | st.text(max_size=5), max_size=30).map("".join)
SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(), SCALARS, max_size=3) | REPLIES
NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
CALLS = st.lists(st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=4)), min_size=1, max_size=3)
LONGEST_MARK = 150


def pieces_of(data, text):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def ink(value) -> int:
    return str(value).count(INK) if isinstance(value, str) else 0


@settings(deadline=None)
@given(st.data(), REPLIES, st.booleans())
def test_any_chunking_gives_the_same_events(parse, data, reply, thinking):
    whole = parse(reply, thinking=thinking)
    assert parse(*pieces_of(data, reply), thinking=thinking) == whole
    assert parse(*reply, thinking=thinking) == whole


@settings(deadline=None)
@given(st.data(), st.binary(max_size=60) | REPLIES.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_in_any_pieces_give_the_events_of_their_text(parse, data, raw):
    assert parse(*pieces_of(data, raw)) == parse(raw.decode("utf-8", "replace"))


@settings(deadline=None)
@given(REPLIES, st.booleans())
def test_nothing_that_is_not_syntax_is_lost_or_said_twice(parse, reply, thinking):
    events = parse(reply, thinking=thinking)
    names = {"delta", "text"}
    said = sum(ink(getattr(event, field.name)) for event in events for field in fields(event) if field.name in names)
    tags = 'invoke name="é">', 'parameter name="é"'
    in_tags = sum(reply.count(tag) for tag in tags)
    assert ink(reply) - in_tags <= said <= ink(reply)


@settings(deadline=None)
@given(st.text(), st.booleans())
def test_text_without_marks_passes_unchanged(parse, text, thinking):
    text = text.replace("<", "(")
    assert parse(text, thinking=thinking) == ([(Thinking if thinking else Text)(text)] if text else [])


@settings(deadline=None)
@given(st.data(), REPLIES, st.booleans())
def test_what_is_held_back_is_short_and_begins_like_a_mark(specs, data, reply, thinking):
    parser = StreamParser(specs, thinking)
    for piece in pieces_of(data, reply):
        parser.feed(piece)
        assert len(parser.held) <= LONGEST_MARK
        assert parser.held[:1] in ("", *"<[◁")


@settings(deadline=None)
@given(CALLS)
def test_rendered_calls_parse_back_to_themselves(specs, calls):
    parser = StreamParser(specs, thinking=False)
    events = [*parser.feed(render_calls(calls)), *parser.finish()]
    assert [(e.name, e.arguments) for e in events if isinstance(e, ToolCall)] == calls


@settings(deadline=None)
@given(NAMES, st.dictionaries(NAMES, VALUES, min_size=1, max_size=3))
def test_a_rendered_call_contains_one_closing_tag_per_parameter(name, arguments):
    assert named("dsml").render_call(name, arguments).count("</｜DSML｜parameter>") == len(arguments)


def test_a_long_value_full_of_possible_marks_comes_through_whole(parse):
    value = "< " * 50_000
    reply = render_calls([("read", {"path": value})])
    for pieces in ([reply], list(reply)):
        [call] = [event for event in parse(*pieces) if isinstance(event, ToolCall)]
        assert call.arguments == {"path": value}
