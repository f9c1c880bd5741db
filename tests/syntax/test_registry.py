"""Every encoding is recognised from what a template writes, is written as the template does, and is read back."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syntax.samples import FIRST, SAMPLES, SECOND, TEXT

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax import registry
from ds4_lsp.syntax.events import CallsEnd, Malformed, Text, Thinking, ToolCall
from ds4_lsp.syntax.parser import StreamParser
from ds4_lsp.syntax.samples import CallSamples

ONE = (FIRST.name, FIRST.arguments, FIRST.call_id)
TWO = (SECOND.name, SECOND.arguments, SECOND.call_id)
EMPTY = (FIRST.name, {}, FIRST.call_id)
SPECS = {
    name: ToolSpec(
        name,
        "",
        (
            ParameterSpec("alphaqx", "string", "", False),
            ParameterSpec("betaqy", "integer", "", False),
            ParameterSpec("gammaqz", "boolean", "", False),
        ),
    )
    for name in (FIRST.name, SECOND.name)
}
SYNTAXES = {name: registry.recognise(samples) for name, samples in SAMPLES.items()}
every = pytest.mark.parametrize("name", SAMPLES)


def read(syntax, *pieces, specs=SPECS, broken_off=False, strict=False):
    parser = StreamParser(specs, False, registry.understood(syntax, strict=strict))
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.finish(broken_off=broken_off)


def calls(events):
    return [(event.name, event.arguments, event.error) for event in events if isinstance(event, ToolCall)]


def said(events):
    return "".join(event.delta for event in events if isinstance(event, Text | Thinking))


@every
def test_calls_are_written_as_the_template_writes_them(name):
    samples, syntax = SAMPLES[name], SYNTAXES[name]
    assert syntax.render([ONE]) == samples.one
    assert syntax.render([ONE, TWO]) == samples.two
    assert syntax.render([EMPTY]) == samples.empty
    assert TEXT + syntax.render([ONE], text_precedes=True) == samples.after_text


@every
def test_what_a_template_writes_is_read_however_it_is_cut(name):
    samples, syntax = SAMPLES[name], SYNTAXES[name]
    wanted = [(FIRST.name, FIRST.arguments, None), (SECOND.name, SECOND.arguments, None)]
    for text, expected in (
        (samples.one, wanted[:1]),
        (samples.two, wanted),
        (samples.after_text, wanted[:1]),
        (samples.empty, [(FIRST.name, {}, None)]),
    ):
        for pieces in ([text], list(text)):
            events = read(syntax, *pieces)
            assert calls(events) == expected
            assert not [event for event in events if isinstance(event, Malformed)]
            assert said(events).strip() == (TEXT if text == samples.after_text else "")


def test_nothing_is_recognised_in_what_is_no_call():
    assert registry.recognise(CallSamples(FIRST, SECOND, TEXT, "nothing", None, None, None)) is None
    assert registry.recognise(CallSamples(FIRST, SECOND, TEXT, None, None, None, None)) is None


def test_a_template_that_writes_one_call_only_is_recognised():
    one = json.dumps({"name": FIRST.name, "parameters": FIRST.arguments})
    syntax = registry.recognise(CallSamples(FIRST, SECOND, TEXT, one, None, one, None))
    assert syntax.render([ONE]) == one
    assert calls(read(syntax, one)) == [(FIRST.name, FIRST.arguments, None)]
    assert syntax.grammar(list(SPECS.values())) is None


# --- any calls, any text ------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["a\nb", '"quoted" \\ \\n', "{}[]", "</tool_cal", "<think>", "été ✓", "x = {'a': 1}\n", "\ttab\n\nend"]
)
ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"alphaqx": TEXTS, "betaqy": st.integers(-(10**6), 10**6), "gammaqz": st.booleans()}
)
CALLS = st.lists(st.tuples(st.sampled_from([FIRST.name, SECOND.name]), ARGUMENTS), min_size=1, max_size=3)


@every
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_rendered_calls_parse_back_to_themselves_under_any_chunking(name, data):
    syntax = SYNTAXES[name]
    made = [
        (tool, {k: v for k, v in arguments.items() if _fits(syntax, v)}, f"pqzcall0{n}")
        for n, (tool, arguments) in enumerate(data.draw(CALLS))
    ]
    text = syntax.render(made)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert calls(read(syntax, *pieces)) == [(tool, arguments, None) for tool, arguments, _ in made]


def _fits(syntax, value):
    """Whether a text can be written between marks that have no escape: it holds none, and no line break at an edge,
    where the marks have one."""
    if not isinstance(value, str) or syntax.name not in ("tagged",):
        return True
    return not any(character in value for character in "<>[]|") and value == value.strip("\r\n")


FRAGMENTS = st.sampled_from(
    [
        *"{}[]<>\"'\\,:=() \n",
        '{"name": "tool_oneqv", "arguments": {',
        '"alphaqx": "',
        "tool_oneqv",
        "<function=",
        "<parameter=alphaqx>",
        "</parameter>",
        "</function>",
        "```json\n",
        "```",
        "<think>",
        "</think>",
        "é",
    ]
)


@every
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_no_text_raises_or_depends_on_how_it_is_cut(name, data, join):
    samples, syntax = SAMPLES[name], SYNTAXES[name]
    marks = st.sampled_from([*(syntax.marks or ("<x>",)), samples.one, samples.two[: len(samples.two) // 2]])
    text = "".join(data.draw(st.lists(FRAGMENTS | marks | st.text(max_size=4), max_size=20)))
    whole = join(read(syntax, text))
    assert join(read(syntax, *text)) == whole
    cut = data.draw(st.integers(0, len(text)))
    assert join(read(syntax, text[:cut], text[cut:])) == whole


@every
@settings(deadline=None, max_examples=60)
@given(text=st.text(st.characters(exclude_characters="<[{`|>▁◁"), max_size=80).filter(lambda t: "to=" not in t))
def test_text_without_marks_passes_unchanged(name, text):
    assert said(read(SYNTAXES[name], *text)) == text


# --- slips --------------------------------------------------------------------------------------------------------


@every
def test_closing_marks_that_are_missing_at_a_replys_own_end_are_forgiven(name):
    samples, syntax = SAMPLES[name], SYNTAXES[name]
    closing = syntax.shape.fill(syntax.shape.after + syntax.shape.tail, call_id=FIRST.call_id)
    text = samples.one.removesuffix(closing)
    assert text != samples.one or not closing
    assert calls(read(syntax, text)) == [(FIRST.name, FIRST.arguments, None)]


@every
def test_a_reply_that_is_broken_off_runs_no_half_call(name):
    samples, syntax = SAMPLES[name], SYNTAXES[name]
    half = samples.one[: samples.one.index("4711") + 2]
    assert calls(read(syntax, half, broken_off=True)) == []


def json_syntaxes():
    return [name for name, syntax in SYNTAXES.items() if syntax.name in ("json", "named-json") and name != "keyed"]


@pytest.mark.parametrize("name", json_syntaxes())
def test_slips_in_json_are_forgiven(name):
    samples, syntax = SAMPLES[name], SYNTAXES[name]
    wanted = [(FIRST.name, FIRST.arguments | {"alphaqx": "Val\nonesx"}, None)]
    for slip in (
        samples.one.replace("Valonesx", "Val\nonesx"),
        samples.one.replace("Valonesx", "Val\\nonesx").replace(": true", ": True"),
        samples.one.replace("Valonesx", "Val\\nonesx").replace(": true", ": true,", 1),
        samples.one.replace("Valonesx", "Val\\nonesx").replace('"arguments"', '"parameters"'),
        samples.one.replace("Valonesx", "Val\\nonesx").replace(FIRST.name, f"functions.{FIRST.name}"),
    ):
        assert calls(read(syntax, slip)) == wanted


@pytest.mark.parametrize("name", json_syntaxes())
@pytest.mark.parametrize(
    "value", ["[" * 400 + "]" * 400, '{"a":' * 400 + "1" + "}" * 400, "1e999", "NaN", "-Infinity", "[1,,2]", "1" * 5000]
)
def test_a_value_that_json_or_the_log_cannot_hold_is_a_call_with_an_error(name, value):
    events = read(SYNTAXES[name], SAMPLES[name].one.replace("4711", value))
    [(tool, arguments, error)] = calls(events)
    assert tool == FIRST.name
    assert "not valid JSON" in error
    json.dumps(arguments, allow_nan=False)


def test_half_a_surrogate_pair_becomes_a_replacement_character():
    text = SAMPLES["hermes"].one.replace("Valonesx", "a\\ud83d b\\ud83d\\ude00")
    for pieces in ([text], list(text)):
        assert calls(read(SYNTAXES["hermes"], *pieces))[0][1]["alphaqx"] == "a\ufffd b😀"


def test_the_opening_mark_of_xml_may_be_left_out():
    text = SAMPLES["xml"].one.removeprefix("<tool_call>\n")
    assert calls(read(SYNTAXES["xml"], f"I look.\n\n{text}")) == [(FIRST.name, FIRST.arguments, None)]


@every
def test_a_call_of_another_syntax_is_understood_or_answered(name):
    for other in ("hermes", "xml"):
        events = read(SYNTAXES[name], SAMPLES[other].one)
        assert calls(events) or [event for event in events if isinstance(event, Malformed)]
    events = read(SYNTAXES[name], registry.named("dsml").render([ONE]))
    assert calls(events) == [(FIRST.name, FIRST.arguments, None)]


# --- the grammar --------------------------------------------------------------------------------------------------

ACCEPTED = -1


@pytest.fixture(scope="module")
def taken(small_model):
    """Per syntax, how far llama.cpp takes some texts by its grammar."""
    cases = {}
    for name, syntax in SYNTAXES.items():
        grammar = syntax.grammar(list(SPECS.values()))
        texts = [
            syntax.render([ONE]),
            syntax.render([ONE, TWO]),
            syntax.render([EMPTY]),
            syntax.render([(FIRST.name, {"gammaqz": False, "alphaqx": "a b"}, "pqzcall01")]),
            syntax.render([("unknown", {}, "pqzcall01")]),
            syntax.render([(FIRST.name, {"unknown": "x"}, "pqzcall01")]),
        ]
        begun = [text[text.index(grammar.triggers[0]) :].strip() for text in texts]
        cases[name] = grammar.text, begun
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("grammar_probe.py"))],
        input=json.dumps({"model": str(small_model), "cases": list(cases.values())}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, zip([c[1] for c in cases.values()], json.loads(done.stdout), strict=True), strict=True))


@every
def test_the_grammar_takes_what_templates_write_and_no_other_tool_or_parameter(name, taken):
    texts, verdicts = taken[name]
    assert verdicts[:4] == [ACCEPTED] * 4, texts
    for text, verdict in zip(texts[4:], verdicts[4:], strict=True):
        assert verdict not in (ACCEPTED, len(text))


@every
def test_marks_end_a_reply_only_behind_its_last_call(name):
    samples, syntax = SAMPLES[name], SYNTAXES[name]
    for stop in syntax.stops:
        found = re.search(stop.pattern, samples.two)
        assert found is not None
        assert found.end() == len(samples.two.rstrip())
    assert CallsEnd() in read(syntax, samples.two)
