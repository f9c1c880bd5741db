"""Which texts are commands, and which merely look like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4_lsp.agent.slash import HELP, NAMES, Slash, parse
from ds4_lsp.protocol.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/compact", Slash("compact", "")),
        ("/compact  \n", Slash("compact", "")),
        ("/compact\nkeep the ports", Slash("compact", "keep the ports")),
        ("/fork 12", Slash("fork", "12")),
        ("/send #12", Slash("send", "#12")),
        ("/requeue 12 say it otherwise", Slash("requeue", "12 say it otherwise")),
        ("/export jsonl", Slash("export", "jsonl")),
        ("/compact keep the\nport numbers", Slash("compact", "keep the\nport numbers")),
        ("/new", Slash("new", "")),
        ("/new A title", Slash("new", "A title")),
        ("/switch 3f", Slash("switch", "3f")),
        ("/history", Slash("history", "")),
        ("/history 12", Slash("history", "12")),
        ("/list", Slash("list", "")),
        ("/save", Slash("save", "")),
        ("/help", Slash("help", "")),
    ],
)
def test_a_text_that_is_wholly_a_command(text: str, command: Slash) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "please /compact",
        "  /compact",
        " /undoo",
        "/etc/passwd is readable, why?",
        "/",
        "//compact",
        "/ compact",
        "/usr/bin",
        "/help\nwith this function",
        "/include <stdio.h>\nint main() {}",
        "/* a comment */",
        "compact",
        "",
    ],
)
def test_a_text_that_is_a_prompt(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/compactify", "/compact?"),
        ("/Compact", "/compact?"),
        ("/undoo", "/undo?"),
        ("/statuss now", "/status?"),
        ("/zzz", "/help lists them"),
        ("/help me with this function", "/help"),
        ("/list the files of src", "/list"),
        ("/history of this file", "/history [N]"),
        ("/history -1", "/history [N]"),
        ("/history 1.5", "/history [N]"),
        ("/history 99999999", "/history [N]"),
        ("/history ٣", "/history [N]"),
        ("/switch", "/switch ID"),
        ("/kill", "/kill JOB"),
        ("/requeue 12", "/requeue NUMBER TEXT"),
    ],
)
def test_a_slip_is_refused_with_what_was_meant(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match="begin it with a space") as refused:
        parse(text)
    assert said in refused.value.message


@given(st.text() | st.from_regex(r"/[a-z]{1,8}( .{0,8})?", fullmatch=True))
def test_any_text_is_a_command_of_those_named_a_prompt_or_refused(text: str) -> None:
    try:
        command = parse(text)
    except InvalidRequest:
        assert text.startswith("/")
        return
    assert command is None or (command.name in NAMES and text.startswith(f"/{command.name}"))


def test_the_help_names_every_command() -> None:
    assert [line.split()[0].removeprefix("/") for line in HELP.splitlines()] == list(NAMES)
