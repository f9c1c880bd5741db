"""gpt-oss's channels: thoughts, text and calls are told apart wherever the model writes the call's name."""

from __future__ import annotations

import json

import pytest
from syntax.samples import FIRST, TEXT

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax import registry
from ds4_lsp.syntax.events import CallsEnd, DroppedCall, Malformed, Text, Thinking, ToolCall
from ds4_lsp.syntax.parser import StreamParser
from ds4_lsp.syntax.samples import CallSamples
from ds4_lsp.syntax.thinking import Marks

ARGUMENTS = json.dumps(FIRST.arguments)
ONE = f" to=functions.{FIRST.name}<|channel|>commentary json<|message|>{ARGUMENTS}<|call|>"
EMPTY = ONE.replace(ARGUMENTS, "{}")
SYNTAX = registry.recognise(CallSamples(FIRST, FIRST, TEXT, ONE, None, None, EMPTY))
MARKS = Marks(
    pairs=(("<|channel|>analysis<|message|>", "<|end|>"),),
    hidden=("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>"),
)
SPECS = {
    FIRST.name: ToolSpec(
        FIRST.name,
        "",
        (
            ParameterSpec("alphaqx", "string", "", True),
            ParameterSpec("betaqy", "integer", "", False),
            ParameterSpec("gammaqz", "boolean", "", False),
        ),
    )
}


def read(*pieces, join):
    parser = StreamParser(SPECS, False, registry.understood(SYNTAX), MARKS)
    return join([event for piece in pieces for event in parser.feed(piece)] + parser.finish())


def test_it_is_recognised_and_written_as_the_template_does():
    assert SYNTAX.name == "harmony"
    assert SYNTAX.render([(FIRST.name, FIRST.arguments, "")]) == ONE
    assert SYNTAX.stops == ()


@pytest.mark.parametrize(
    "head",
    [
        " to=functions.{}<|channel|>commentary json<|message|>",
        "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>",
        "<|channel|>analysis to=functions.{} <|constrain|>json<|message|>",
        "<|start|>assistant<|channel|>commentary to=functions.{}<|message|>",
        "<|start|>assistant to=functions.{}<|channel|>commentary <|constrain|>json<|message|>",
    ],
)
def test_a_call_is_read_behind_a_thought_wherever_its_name_stands(head, join):
    thought = "<|channel|>analysis<|message|>I look.<|end|>"
    text = thought + head.format(FIRST.name) + ARGUMENTS + "<|call|>"
    for pieces in ([text], list(text)):
        events = read(*pieces, join=join)
        assert events[0] == Thinking("I look.")
        [call] = [event for event in events if isinstance(event, ToolCall)]
        assert (call.name, call.arguments, call.error) == (FIRST.name, FIRST.arguments, None)
        assert events[-1] == CallsEnd()
        assert not [event for event in events if isinstance(event, Malformed)]
        assert "".join(event.delta for event in events if isinstance(event, Text)).strip() == ""


def test_channels_names_are_not_shown(join):
    text = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>First this.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Done."
    )
    for pieces in ([text], list(text)):
        events = read(*pieces, join=join)
        assert events[0] == Thinking("Hm.")
        assert "Done." in events[-1].delta
        assert "First this." in events[1].delta
        assert "channel" not in "".join(event.delta for event in events)


def test_a_call_in_a_thought_is_dropped_and_told(join):
    text = f"<|channel|>analysis<|message|>I could to=functions.{FIRST.name} now.<|end|>"
    events = read(text, join=join)
    assert [type(event) for event in events] == [Thinking, DroppedCall, Thinking]
