"""``make demo`` proves itself: it fails when any of what it shows did not happen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rig import call

READ = call("read", path="src/main.py")
EDIT = call("edit", path="src/main.py", file_tag="TAG", start_line=3, end_line=3, new='GREETING = "Good day"')


@pytest.fixture
def demo(tmp_path: Path, tiny_chat_model: Path) -> Any:
    """Run it with these replies of the model's; its exit status and its screen."""

    def run(*replies: str, model: str | None = None, prompt: str | None = None) -> tuple[int, str]:
        script = tmp_path / "script.jsonl"
        script.write_text("".join(json.dumps({"purpose": "turn", "text": reply}) + "\n" for reply in replies))
        command = [sys.executable, "-m", "ds4_lsp.cli.demo", "--model", model or str(tiny_chat_model)]
        done = subprocess.run(
            command + (["--prompt", prompt] if prompt else []),
            env=os.environ | {"DS4_LSP_SCRIPT": str(script), "XDG_STATE_HOME": str(tmp_path / "state")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


@pytest.fixture(scope="module")
def tag() -> str:
    """The file tag of the sample file."""
    from ds4_lsp.edits.text import file_tag

    path = Path(__file__).parents[2] / "examples" / "workspace" / "src" / "main.py"
    return str(file_tag(path.read_text()))


def test_a_whole_session_succeeds_and_is_shown(demo: Any, tag: str) -> None:
    status, screen = demo(READ, "It counts words.", EDIT.replace("TAG", tag), "Changed.")
    assert status == 0, screen
    assert "FAILED" not in screen
    for shown in ("It counts words.", '+GREETING = "Good day"', "read, edit", "context  ", "prompts answered: 2 of 2"):
        assert shown in screen, screen
    sample = Path(__file__).parents[2] / "examples" / "workspace" / "src" / "main.py"
    assert "Good day" not in sample.read_text(), "the repository's own copy stays as it is"


def test_without_a_tool_call_or_an_edit_it_fails_and_says_which(demo: Any) -> None:
    status, screen = demo("It counts words, I guess.", "Done!")
    assert status == 1
    assert "FAILED tools the model called: none" in screen
    assert "FAILED edits applied by the editor: 0" in screen
    assert "ok     prompts answered: 2 of 2" in screen
    status, screen = demo(READ, "It counts words.", "Done!")
    assert status == 1
    assert "ok     tools the model called: read" in screen
    assert "FAILED edits applied by the editor: 0" in screen


def test_a_refused_edit_is_no_edit(demo: Any) -> None:
    status, screen = demo(READ, "It counts words.", EDIT.replace("TAG", "00000000"), "Changed.")
    assert status == 1
    assert "FAILED edits applied by the editor: 0" in screen


def test_a_prompt_of_the_user_s_own_takes_the_place_of_the_two(demo: Any, tag: str) -> None:
    status, screen = demo(READ, EDIT.replace("TAG", tag), "Changed.", prompt="be polite")
    assert status == 0, screen
    assert "== Prompt: be polite" in screen
    assert "prompts answered: 1 of 1" in screen


def test_a_model_that_is_not_there_or_none_is_told(demo: Any, tmp_path: Path) -> None:
    status, screen = demo(model="no-such-model")
    assert status == 1
    assert "there is no file no-such-model" in screen
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"junk")
    status, screen = demo(model=str(junk))
    assert status == 1
    assert "junk.gguf is not a GGUF model" in screen
