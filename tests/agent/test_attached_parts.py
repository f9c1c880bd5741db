"""The pure parts of what goes along with a prompt."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from ds4_lsp.agent.mentions import Mention, mentions
from ds4_lsp.agent.overview import overview
from ds4_lsp.agent.symbols import symbols
from ds4_lsp.tools.inventory import Inventory


def inventory(*names: str) -> Inventory:
    return Inventory(tuple((Path("/w"), PurePosixPath(name)) for name in names))


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("What does app.py do?", [Mention("app.py")]),
        ("Fix src/app.py:12, please.", [Mention("src/app.py", 12)]),
        ("See `lib\\util.c` and ./Makefile.", [Mention("lib/util.c"), Mention("Makefile")]),
        ("look at (README.md#L3-L9)", [Mention("README.md", 3)]),
        ("rename `total` in 'a b.txt'", [Mention("total"), Mention("b.txt")]),
        ("app.py, then app.py:3", [Mention("app.py", 3)]),
        ("https://example.org/x.html is not meant, nor 3.11, nor 1:2", []),
        ("Was macht größe.py?", [Mention("größe.py")]),
    ],
)
def test_what_a_prompt_may_name(prompt: str, found: list[Mention]) -> None:
    assert mentions(prompt) == found


def test_a_long_prompt_names_a_bounded_number() -> None:
    assert len(mentions(" ".join(f"f{number}.py" for number in range(1000)))) == 40


def test_the_overview_groups_by_folder_and_what_the_prompt_speaks_of_comes_first() -> None:
    found = inventory("a/x.py", "b/parser.py", "b/logo.png", "README.md")
    assert overview(found, 400) == "[Files of the workspace: 4]\nREADME.md\na/: x.py\nb/: parser.py, logo.png"
    assert overview(found, 400, "mend the parser").splitlines()[1] == "b/: parser.py, logo.png"


def test_the_overview_keeps_to_its_room_and_says_what_is_left_out() -> None:
    found = inventory(*(f"dir{number % 20}/file{number}.py" for number in range(500)))
    for room in (150, 300, 1000):
        text = overview(found, room)
        assert len(text) <= room
        assert "more: `list` and `search` show them]" in text


def test_the_overview_shows_no_name_that_could_forge_what_stands_around_it() -> None:
    assert overview(inventory("a\nb.py", "c\x1b[31m.py"), 400) == ""
    assert overview(inventory(), 400) == ""


def test_declarations_of_several_languages() -> None:
    text = """\
import os
LIMIT = 3
class A:
    def run(self):
        return self.x(1)
async def go(a, b):
int main(int argc, char **argv) {
  printf("x");
function add(a, b) {
export const sum = (a, b) => a + b;
pub fn parse(input: &str) -> u8 {
func (s *Server) Run() error {
# Title
[section]
x = call(y)"""
    shown, numbers = symbols(text.split("\n"))
    assert numbers == (2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14)
    assert shown.splitlines()[1] == "3 class A:"


def test_a_long_line_and_a_long_list_of_declarations_are_cut() -> None:
    shown, numbers = symbols(["def f(" + "a, " * 60 + "):", *(f"def f{number}():" for number in range(500))])
    assert shown.startswith("1 def f(a, a,")
    assert 1 not in numbers
    assert len(shown.splitlines()) == 121
