"""What our frames and syntaxes write is what each model's own template writes, character for character."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.template_differences import DIFFERENCES
from benchmarks.template_page import BEGIN, END, rows

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
MUST = {"system", "user and answer"}


@pytest.fixture(scope="module")
def found():
    return rows()


def test_every_conversation_is_the_templates_own_but_for_the_known_differences(found):
    different = {(row.name, name) for row in found for name, same in row.same.items() if same is False}
    assert different == {(name, each) for name, reasons in DIFFERENCES.items() for each in reasons}
    assert [row.name for row in found if any(row.same[name] is None for name in MUST)] == []


def test_every_template_that_writes_calls_has_a_syntax(found):
    assert [row.name for row in found if row.frames.called and row.syntax is None] == []


def test_the_page_says_what_holds(found):
    table = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    told = dict(re.findall(r"^\| (\S+) \|.*\| (\d+ of \d+) \|$", table, re.MULTILINE))
    assert told == {
        row.name: f"{sum(same is True for same in row.same.values())} of "
        f"{sum(same is not None for same in row.same.values())}"
        for row in found
    }
