"""When JSON without marks, or a call in a code fence, is a call, and when it is only shown."""

from __future__ import annotations

import json

import pytest

from ds4_lsp.syntax import registry
from ds4_lsp.syntax.events import CallsEnd, Malformed, ParameterDelta, Text, ToolCall, ToolStart
from ds4_lsp.syntax.parser import StreamParser

CALL = json.dumps({"name": "read", "arguments": {"path": "a.py", "start_line": 4}})
HERMES = registry.named("hermes")
MARKED = HERMES.render([("read", {"path": "a.py", "start_line": 4}, "")])


@pytest.fixture
def read(specs, join):
    def run(*pieces, syntax=HERMES, quoted=lambda text: False):
        parser = StreamParser(specs, False, registry.understood(syntax), quoted=quoted)
        events = [event for piece in pieces for event in parser.feed(piece)]
        return join([*events, *parser.finish()])

    return run


def calls(events):
    return [(event.name, event.arguments, event.error) for event in events if isinstance(event, ToolCall)]


def said(events):
    return "".join(event.delta for event in events if isinstance(event, Text))


RUN = [("read", {"path": "a.py", "start_line": 4}, None)]


@pytest.mark.parametrize("syntax", ["hermes", "dsml", "xml"])
@pytest.mark.parametrize(
    "reply",
    [
        CALL,
        f"\n{CALL}\n",
        f"I look.\n\n{CALL}",
        f"I look:\n```json\n{CALL}\n```\n",
        f"```\n{CALL}\n```",
        f"```json\n{CALL}",
        f"```tool_call\n[{CALL}]\n```",
        CALL.replace('"arguments"', '"parameters"'),
        CALL.replace('"read"', '"functions.read"'),
        json.dumps(json.loads(CALL), indent=2),
        CALL[:-1],
        f"{CALL}\n</tool_call>",
        json.dumps({"name": "read", "arguments": json.dumps({"path": "a.py", "start_line": 4})}),
    ],
)
def test_json_that_names_a_tool_and_ends_the_reply_is_a_call(read, syntax, reply):
    for pieces in ([reply], list(reply)):
        events = read(*pieces, syntax=registry.named(syntax))
        assert calls(events) == RUN
        assert "read" not in said(events)


def test_its_parameters_are_told_like_any(read):
    assert read(CALL) == [
        ToolStart(0, "read"),
        ParameterDelta(0, "read", "path", "a.py"),
        ParameterDelta(0, "read", "start_line", "4"),
        ToolCall(0, "read", {"path": "a.py", "start_line": 4}, None),
        CallsEnd(),
    ]


def test_several_in_a_row_are_calls(read):
    assert calls(read(f"{CALL}\n{CALL}")) == RUN * 2
    assert calls(read(f"```json\n[{CALL},\n{CALL}]\n```")) == RUN * 2


@pytest.mark.parametrize(
    "reply",
    [
        f"So: {CALL}",
        json.dumps({"name": "some-package", "arguments": {}, "version": "1.0"}),
        json.dumps({"name": "some-package", "version": "1.0"}, indent=2),
        f"```json\n{{\n  // a comment\n  {CALL}\n```",
        f"```python\nx = 1\n{CALL}\n```",
        '{"name": "read", "path',
        "[1, 2, 3]",
        "{}",
    ],
)
def test_other_json_is_text(read, reply):
    for pieces in ([reply], list(reply)):
        events = read(*pieces)
        assert calls(events) == []
        assert said(events) == reply


@pytest.mark.parametrize("reply", [f"{CALL}\nThat reads it.", f"```json\n{CALL}\n```\nThe file has two lines."])
def test_a_call_that_more_text_follows_is_shown_and_the_model_is_told(read, reply):
    for pieces in ([reply], list(reply)):
        events = read(*pieces)
        assert calls(events) == []
        assert said(events) == reply
        [fault] = [event for event in events if isinstance(event, Malformed)]
        assert "last thing" in fault.message
        assert "<tool_call>" in fault.message


def test_a_marked_call_among_other_text_in_a_fence_is_shown_and_the_model_is_told(read):
    reply = f"The file has:\n```\n# usage\n{MARKED}\n```\n"
    for pieces in ([reply], list(reply)):
        events = read(*pieces)
        assert calls(events) == []
        assert said(events) == reply
        assert [type(event) for event in events if not isinstance(event, Text)] == [Malformed]


def test_a_marked_call_that_a_fence_only_surrounds_is_a_call(read):
    for reply in (f"```xml\n{MARKED}\n```", f"So.\n```\n{MARKED}"):
        assert calls(read(reply)) == RUN


DSML = registry.named("dsml").render([("list", {}, "")])


@pytest.mark.parametrize("reply", [CALL, f"```json\n{CALL}\n```", MARKED, DSML])
def test_a_call_that_was_read_somewhere_is_not_run_in_any_syntax(read, reply):
    asked = []

    def quoted(text):
        asked.append(text)
        return True

    [(name, _, error)] = calls(read(reply, quoted=quoted))
    assert "not run" in error
    assert name in asked[0]


@pytest.mark.parametrize("tag", ["<thinking>", "<think>", "[THINK]", "<reasoning>", "◁think▷"])
def test_no_call_runs_in_thinking_of_any_spelling(read, tag):
    for call in (MARKED, DSML, CALL):
        for lead in ("", "Well.\n"):
            assert calls(read(f"{lead}{tag}\n{call}\n")) == []
