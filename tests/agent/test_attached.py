"""What goes along with a prompt, and who is told of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from rig import call

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import PromptArguments

pytestmark = pytest.mark.asyncio(loop_scope="session")

APP = "def total(values):\n    return sum(values)\n"


@pytest.fixture
def ws(stage: Any) -> Path:
    """The stage's workspace, empty."""
    root: Path = stage.root / "ws"
    for path in root.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    stage.editor.trusted = True
    stage.new_session()
    return root


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def shown(stage: Any) -> str:
    """The last prompt as the model read it."""
    [*_, data] = [event.data for event in stage.events("user/message") if event.data["kind"] == "prompt"]
    return "\n\n".join([data.get("preface", ""), *(place["text"] for place in data["context"]), data["text"]])


async def test_a_named_file_is_shown_and_can_be_edited_at_once(stage: Any, ws: Path) -> None:
    path = write(ws, "src/app.py", APP)
    stage.script(call("edit", path="src/app.py", old="sum(values)", new="sum(values, 0)"), "Done.")
    result = await stage.prompt("Give sum a start in app.py.")
    assert [one.ok for one in result.tool_calls] == [True]
    assert "sum(values, 0)" in path.read_text()
    assert "lines 1-2 of 2\n1 def total(values):\n2     return sum(values)" in shown(stage)
    [event] = stage.listener.of(1, "context")
    assert event["items"] == [
        {"name": "src/app.py", "uri": path.as_uri(), "form": "lines", "count": 2},
        {"name": "", "uri": "", "form": "overview", "count": 1},
    ]


async def test_a_line_is_shown_with_what_is_around_it(stage: Any, ws: Path) -> None:
    write(ws, "long.py", "".join(f"x{number} = {number}\n" for number in range(1, 201)))
    stage.script("Yes.")
    await stage.prompt("What is long.py:100?")
    assert "lines 92-108 of 200\n92 x92 = 92\n" in shown(stage)


async def test_a_file_that_is_too_large_comes_as_its_declarations(stage: Any, ws: Path) -> None:
    write(ws, "big.py", "".join(f"def f{number}():\n" + "    pass  # and so on\n" * 40 for number in range(20)))
    stage.script("Yes.")
    await stage.prompt("What is in big.py?")
    assert "[Too long to show: what it declares." in shown(stage)
    assert "42 def f1():\n83 def f2():" in shown(stage)
    assert stage.listener.of(1, "context")[0]["items"][0]["form"] == "symbols"


async def test_what_was_shown_already_and_is_unchanged_is_not_shown_again(stage: Any, ws: Path) -> None:
    path = write(ws, "app.py", APP)
    stage.script("Yes.", "Yes.", "Yes.")
    await stage.prompt("What is app.py?")
    await stage.prompt("And what else is app.py?")
    assert "file_tag" not in shown(stage)
    path.write_text("changed = 1\n")
    await stage.prompt("And now, app.py?")
    assert "1 changed = 1" in shown(stage)


async def test_the_open_file_goes_along_and_so_does_the_selection(stage: Any, ws: Path) -> None:
    path = write(ws, "app.py", APP)
    stage.script("Yes.", "Yes.")
    for place in (
        {"uri": path.as_uri()},
        {"uri": path.as_uri(), "range": {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 5}}},
    ):
        stage.new_session()
        arguments = PromptArguments.model_validate({"text": "What is this?", "context": [place]})
        await stage.agent.command("ds4.prompt", arguments, Cancel())
        assert "[The user points at app.py" in shown(stage)
        assert "2     return sum(values)" in shown(stage)
        assert stage.listener.of(1, "context")[0]["items"][0]["count"] == (1 if "range" in place else 2)


async def test_the_first_message_has_the_files_and_later_ones_do_not(stage: Any, ws: Path) -> None:
    write(ws, ".gitignore", "build/\n")
    for name in ("a.py", "lib/b.py", "build/c.py"):
        write(ws, name, "x\n")
    stage.script("Yes.", "Yes.")
    await stage.prompt("What is here?")
    assert shown(stage).startswith("[Files of the workspace: 3]\na.py, .gitignore\nlib/: b.py\n")
    await stage.prompt("And there?")
    assert "Files of the workspace" not in shown(stage)


async def test_instructions_of_the_project_nearest_first_and_none_where_the_workspace_is_not_trusted(
    stage: Any, ws: Path
) -> None:
    write(ws, "AGENTS.md", "Use tabs.\n")
    write(ws, "lib/AGENTS.md", "Use spaces.\n")
    write(ws, "CLAUDE.md", "Never read.\n")
    write(ws, "lib/b.py", "x\n")
    stage.script("Yes.", "Yes.")
    await stage.prompt("What is b.py?")
    text = shown(stage)
    assert 0 < text.index("from lib/AGENTS.md]\nUse spaces.") < text.index("from AGENTS.md]\nUse tabs.")
    assert "Never read" not in text
    names = [item["name"] for item in stage.listener.of(1, "context")[0]["items"] if item["form"] == "instructions"]
    assert names == ["lib/AGENTS.md", "AGENTS.md"]
    stage.new_session()
    stage.editor.trusted = False
    await stage.prompt("What is b.py?")
    assert "Use " not in shown(stage)


async def test_other_tools_instructions_count_where_there_is_no_agents_file(stage: Any, ws: Path) -> None:
    write(ws, ".github/copilot-instructions.md", "Be brief. <|im_end|>\n")
    stage.script("Yes.")
    await stage.prompt("Hello.")
    assert "from .github/copilot-instructions.md]\nBe brief. <|im_end|>" in shown(stage)


async def test_instructions_that_lead_out_of_the_workspace_are_not_read(stage: Any, ws: Path) -> None:
    (stage.root / "secret").write_text("secret\n")
    (ws / "AGENTS.md").symlink_to(stage.root / "secret")
    stage.script("Yes.")
    await stage.prompt("Hello.")
    assert "secret" not in shown(stage)


async def test_what_goes_along_keeps_to_its_share(stage: Any, ws: Path) -> None:
    for number in range(8):
        write(ws, f"f{number}.py", "value = 1  # some words\n" * 30)
    stage.script("Yes.")
    await stage.prompt("Compare " + ", ".join(f"f{number}.py" for number in range(8)))
    [*_, data] = [event.data for event in stage.events("user/message")]
    text = "\n\n".join(place["text"] for place in data["context"])
    assert 0 < len(text) < 4096 // 10 * 8
