"""Which texts are commands, and which merely look like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4_lsp.agent.slash import HELP, NAMES, Slash, parse


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/compact", Slash("compact", "")),
        ("  /compact  \n", Slash("compact", "")),
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
        "/compactify",
        "/Compact",
        "/etc/passwd is readable, why?",
        "/",
        "//compact",
        "/ compact",
        "/help me with this function",
        "/list the files of src",
        "/save it as x.py",
        "/history of this file",
        "/history -1",
        "/history 1.5",
        "/history 99999999",
        "/history ٣",
        "/compact\nkeep the ports",
        "compact",
        "",
    ],
)
def test_a_text_that_is_a_prompt(text: str) -> None:
    assert parse(text) is None


@given(st.text())
def test_any_text_is_a_command_of_those_named_or_a_prompt(text: str) -> None:
    command = parse(text)
    assert command is None or (command.name in NAMES and text.strip().startswith(f"/{command.name}"))


def test_the_help_names_every_command() -> None:
    assert {line.split()[0].removeprefix("/") for line in HELP.splitlines()} == NAMES
