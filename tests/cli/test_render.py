from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ds4_lsp.cli import render


class Screens:
    """A renderer whose two streams are kept apart."""

    def __init__(self, *, terminal: bool = False) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        out = Console(file=self.out, force_terminal=terminal, soft_wrap=True, highlight=False, color_system=None)
        info = Console(file=self.err, force_terminal=terminal, soft_wrap=True, highlight=False, color_system=None)
        self.renderer = render.Renderer(out=out, info=info)

    def play(self, *events: dict[str, Any]) -> None:
        for event in events:
            self.renderer.event({"sessionId": "s", "turn": 1, **event})


def test_off_a_terminal_stdout_holds_the_reply_and_nothing_else() -> None:
    screens = Screens()
    screens.play(
        {"kind": "turn.start", "text": "?"},
        {"kind": "thinking", "delta": "hmm"},
        {"kind": "text", "delta": "The ans"},
        {"kind": "text", "delta": "wer [bold]is[/bold] 42."},
        {"kind": "tool.call", "callId": "c1", "name": "read", "arguments": {"path": "a.py"}},
        {"kind": "tool.result", "callId": "c1", "name": "read", "ok": True, "text": "a.py: file_tag=1"},
        {"kind": "text", "delta": "Done"},
        {"kind": "turn.end", "stopReason": "end"},
    )
    assert screens.out.getvalue() == "The answer [bold]is[/bold] 42.\nDone\n"
    assert "▸ read path=a.py" in screens.err.getvalue()
    assert screens.renderer.tools == ["read"]


@pytest.mark.parametrize("reason, shown", [("cancelled", "[cancelled]"), ("error", "error: it broke"), ("end", "")])
def test_a_turn_that_did_not_end_by_itself_says_why(reason: str, shown: str) -> None:
    screens = Screens()
    screens.play({"kind": "turn.end", "stopReason": reason, "error": "it broke"})
    assert screens.err.getvalue().strip() == shown


def test_an_edit_names_file_lines_and_tag() -> None:
    screens = Screens()
    screens.play({"kind": "edit", "uri": "file:///w/a%20b.py", "fileTag": "0011aabb", "startLine": 2, "endLine": 3})
    assert screens.err.getvalue() == "✎ a b.py lines 2-3, file_tag 0011aabb\n"


def test_an_unknown_event_is_ignored() -> None:
    screens = Screens()
    screens.play({"kind": "from.the.future", "x": 1})
    assert screens.out.getvalue() == screens.err.getvalue() == ""


@given(st.text())
def test_no_control_sequence_of_a_model_or_a_file_reaches_the_terminal(text: str) -> None:
    shown = render.printable(text)
    assert len(shown) == len(text)
    assert all(c in "\n\t" or c.isprintable() or ord(c) >= 0xA0 for c in shown)
    assert "\x1b" not in shown


def test_a_call_is_shown_while_the_model_writes_it_and_not_twice() -> None:
    screens = Screens()
    delta = {"kind": "tool.delta", "callId": "c1", "name": "edit"}
    screens.play(
        {"kind": "text", "delta": "Let me see."},
        {"kind": "tool.start", "callId": "c1", "name": "edit"},
        {**delta, "parameter": "path", "delta": "a"},
        {**delta, "parameter": "path", "delta": ".py"},
        {**delta, "parameter": "new", "delta": "x\n" * 20},
        {**delta, "parameter": "new", "delta": "y" * 100},
        {**delta, "parameter": "new", "delta": "z"},
        {"kind": "tool.call", "callId": "c1", "name": "edit", "arguments": {"path": "a.py"}},
        {"kind": "tool.result", "callId": "c1", "name": "edit", "ok": True, "text": "done"},
    )
    assert screens.out.getvalue() == "Let me see.\n"
    shown = "x⏎" * 20 + "y" * (render.VALUE_WIDTH - 40) + "…"
    assert screens.err.getvalue() == f"▸ edit path=a.py new={shown}\n  done\n"
    assert screens.renderer.tools == ["edit"]


def test_long_results_are_cut_with_a_note() -> None:
    assert render.head("1\n2\n3", 3) == ["1", "2", "3"]
    assert render.head("1\n2\n3\n4\n5", 3) == ["1", "2", "3", "… 2 more lines"]


def test_arguments_stay_on_one_line() -> None:
    line = render.describe_arguments({"path": "a.py", "line": 4, "new": "x\n" * 100})
    assert "\n" not in line
    assert line.startswith("path=a.py line=4 new=x⏎x⏎")
    assert line.endswith("…")


def test_progress_off_a_terminal_is_a_few_lines_and_always_the_end() -> None:
    screens = Screens()
    show = screens.renderer.progress
    show("t", {"kind": "begin", "title": "Loading model", "percentage": 0})
    for percentage in range(101):
        show("t", {"kind": "report", "percentage": percentage, "message": "m.gguf"})
    show("t", {"kind": "end", "message": "loaded"})
    lines = screens.err.getvalue().splitlines()
    assert lines[0] == "Loading model 0 %"
    assert lines[-1] == "Loading model: loaded"
    assert len(lines) == 6


def test_progress_of_a_token_that_never_began_is_ignored() -> None:
    screens = Screens()
    screens.renderer.progress("t", {"kind": "report", "percentage": 5})
    screens.renderer.progress("t", {"kind": "end"})
    assert screens.err.getvalue() == ""


def test_on_a_terminal_text_takes_the_bar_off_the_screen() -> None:
    screens = Screens(terminal=True)
    screens.renderer.progress("t", {"kind": "begin", "title": "Reading", "percentage": 10})
    screens.play({"kind": "text", "delta": "Hello"})
    screens.renderer.progress("t", {"kind": "report", "percentage": 20})
    screens.play({"kind": "turn.end", "stopReason": "end"})
    screens.renderer.bars.pause()
    assert screens.out.getvalue() == "Hello\n"


async def test_without_anyone_to_ask_a_question_stays_unanswered() -> None:
    screens = Screens()
    assert await screens.renderer.choose("Run `rm`?", ["Allow once", "Deny"]) is None
    assert "Run `rm`?" in screens.err.getvalue()


def test_a_status_shows_state_model_context_session_and_jobs() -> None:
    job = {"job": 1, "pid": 5, "command": "make", "state": "exited", "exitStatus": 2, "elapsed": 3.2}
    lines = render.describe_status(
        {
            "state": "idle",
            "model": {"name": "M"},
            "context": {"used": 100, "size": 1000, "percent": 10.0},
            "generation": {"tokens": 5, "tokensPerSecond": 2.5},
            "session": {"sessionId": "abc"},
            "queue": [{"text": "next"}],
            "jobs": [job],
        }
    )
    text = "\n".join(lines)
    for part in ("idle", "M", "100 of 1000 tokens (10 %)", "2.5 tokens/s", "abc", "next", "exited 2, 3 s: make"):
        assert part in text
