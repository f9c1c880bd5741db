"""Each slip of small models with its right outcome, from the model's tokens to the file.

Loops, announcements and claims are in ``test_turn.py``, what goes along with a prompt in ``test_attached.py``.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from rig import call

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n"
RIGHT = TEXT.replace("result = 0", "result = 1")


@pytest.fixture
def path(stage: Any) -> Path:
    """The only file of the stage's workspace."""
    root = stage.root / "ws"
    for old in root.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    made: Path = root / "sums.py"
    made.write_text(TEXT)
    stage.new_session()
    return made


READ = call("read", path="sums.py")


def text(path: Path) -> str:
    return path.read_text()


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"path": "src/sums.py", "old": "result = 0", "new": "result = 1"}, "sums.py is the only one of that name"),
        ({"path": "sums.py", "old": "2     result = 0", "new": "2     result = 1"}, "taken off"),
        ({"path": "sums.py", "line": 2, "new": "2     result = 1"}, "taken off"),
        ({"path": "sums.py", "old": "\tresult = 0", "new": "\tresult = 1"}, "indentation"),
        ({"path": "sums.py", "old": "    result = 0  ", "new": "    result = 1"}, ""),
        ({"path": "sums.py", "old": "result = 0", "new": "    result = 1"}, ""),
        ({"path": "sums.py", "old": "    result = 0\n", "new": "    result = 1"}, ""),
        ({"path": "sums.py", "file_tag": "", "old": "result = 0", "new": "result = 1"}, ""),
    ],
)
async def test_a_slip_in_an_edit_is_mended(stage: Any, path: Path, edit: dict[str, Any], said: str) -> None:
    stage.script(READ, call("edit", **edit), "Done.")
    result = await stage.prompt("start at 1")
    assert [one.ok for one in result.tool_calls] == [True, True]
    assert text(path) == RIGHT
    assert said in stage.events("tool/result")[1].data["text"]


@pytest.mark.parametrize(
    "edit",
    [
        {"path": "sums.py", "file_tag": "00000000", "old": "result = 0", "new": "result = 1"},
        {"path": "sums.py", "old": "4     result = 0", "new": "4     result = 1"},
        {"path": "sums.py", "old": "    result = 0", "new": "7     result = 1\n8     x = 2"},
        {"path": "sums.py", "old": "result", "new": "x"},
    ],
)
async def test_what_is_not_certain_is_refused_and_the_lines_are_shown(stage: Any, path: Path, edit: Any) -> None:
    stage.script(READ, call("edit", **edit), "Hm.")
    result = await stage.prompt("start at 1")
    assert [one.ok for one in result.tool_calls] == [True, False]
    assert text(path) == TEXT
    assert "2     result = 0" in stage.events("tool/result")[1].data["text"]


async def test_an_edit_of_what_was_not_shown_is_refused_and_then_right(stage: Any, path: Path) -> None:
    edit = call("edit", path="sums.py", old="result = 0", new="result = 1")
    stage.script(edit, edit, "Done.")
    result = await stage.prompt("start at 1")
    assert [one.ok for one in result.tool_calls] == [False, True]
    assert text(path) == RIGHT


async def test_a_change_of_the_user_between_is_not_lost(stage: Any, path: Path) -> None:
    stage.script(READ, "Seen.")
    await stage.prompt("look")
    await asyncio.to_thread(path.write_text, TEXT.replace("result = 0", "result = 7"))
    stage.script(call("edit", path="sums.py", old="result = 0", new="result = 1"), "Hm.")
    result = await stage.prompt("start at 1")
    assert [one.ok for one in result.tool_calls] == [False]
    assert "result = 7" in text(path)
