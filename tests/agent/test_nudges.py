"""Replies that leave the user with nothing, and those that say the same over and over: the pure parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4_lsp.agent.nudges import Nudges, silent_or_announced
from ds4_lsp.agent.repetition import Repetition, period


@pytest.mark.parametrize(
    "said",
    [
        "I will now read the file.",
        "Let me look at app.py.",
        "The name is wrong. I'll fix it.",
        "First, I need to list the files",
        "Okay, let's search for it:",
        "I am going to change line 3...",
        "Here is the plan:",
    ],
)
def test_an_announcement_is_no_answer(said: str) -> None:
    assert silent_or_announced(said) == "announced"


@pytest.mark.parametrize(
    "said",
    [
        "Done.",
        "It prints 3 (app.py line 2).",
        "Let me know if you need more.",
        "I will not change that: the file is generated.",
        "Shall I go on?",
        "I changed line 3 so that the sum starts at 0.",
        "The function will read the file.",
        "I'll explain: it adds the values. The result is 3.",
    ],
)
def test_an_answer_is_taken_as_one(said: str) -> None:
    assert silent_or_announced(said) is None


def test_each_is_told_once() -> None:
    nudges = Nudges()
    assert [nudges.judge(said) for said in ("", " \n", "I will read it.", "I will read it.", "Done.")] == [
        "silent",
        None,
        "announced",
        None,
        None,
    ]


@given(st.text("ab", min_size=1, max_size=60))
def test_the_period_is_the_shortest_piece_that_gives_the_text(text: str) -> None:
    pieces = (size for size in range(1, len(text) + 1) if text.startswith(text[size:]))
    assert period(text) == next(pieces)


def feed(text: str, size: int) -> int | None:
    """Code points after which the text was found to repeat itself."""
    watch = Repetition()
    for at in range(0, len(text), size):
        if watch.feed(text[at : at + size]):
            return at + size
    return None


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("piece", ["ha ", "The same line again.\n", "A longer piece of text, " * 8 + "with an end.\n"])
def test_a_text_that_repeats_itself_is_found_soon(piece: str, size: int) -> None:
    at = feed("It begins as any other text. " + piece * (40_000 // len(piece)), size)
    assert at is not None
    assert at < 9000


def test_what_people_write_is_no_repetition() -> None:
    table = "| name | value |\n|------|-------|\n" + "".join(f"| row {n} | {n * 7} |\n" for n in range(400))
    zeros = "".join(f"x{n} = [{'0, ' * 40}]\n" for n in range(60))
    rule = f"{'-' * 400}\nTitle\n{'=' * 400}\n"
    grid = ("0, " * 20 + "\n") * 40
    for text in (table, zeros, rule, grid):
        assert feed(text, 5) is None


@pytest.mark.parametrize(
    ("said", "prompt"),
    [
        ("The constant has been renamed to LIMIT.", "rename it"),
        ("I updated line 3 of app.py.", "x"),
        ("I have successfully fixed the bug.", "x"),
        ("Updated app.py: the sum starts at 0.", "x"),
        ("Here is the code:\n```python\nx = 1\n```", "Change x to 1"),
    ],
)
def test_a_change_that_was_not_made_is_seen(said: str, prompt: str) -> None:
    assert Nudges(prompt).judge(said, changed=False) == "claimed"
    assert Nudges(prompt).judge(said, changed=True) is None


@pytest.mark.parametrize(
    ("said", "prompt"),
    [
        ("The file was last changed by make.", "What is it?"),
        ("It adds two numbers, and is called from main.py line 3.", "What does it do?"),
        ("```python\nx = 1\n```", "Show me an example"),
        ("The key is not there, so nothing can be replaced.", "Replace the key"),
    ],
)
def test_what_is_no_claim_is_taken_as_none(said: str, prompt: str) -> None:
    assert Nudges(prompt).judge(said, changed=False) is None


def test_a_call_that_could_not_be_read_is_no_answer() -> None:
    broken = '{"name": "edit", "arguments": {"path": "a.py", "old": "x = "y"", "new": ""}}'
    assert Nudges().judge(broken) == "unread"
    assert Nudges().judge("The call is " + broken) is None
