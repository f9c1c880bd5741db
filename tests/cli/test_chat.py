"""``ds4-lsp chat`` through the real server, on the small model or, where that shows as much, on a tiny one. Replies
are scripted."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.cli import chat

MAIN = "import sys; from ds4_lsp.cli.main import main; sys.exit(main())"
PATIENCE = 180.0
"""Seconds until a screen that does not come counts as missing."""


def call(name: str, **arguments: str) -> str:
    """A DSML block with one call whose arguments are strings."""
    bar = "\uff5c"
    parameters = "".join(
        f'<{bar}DSML{bar}parameter name="{key}" string="true">{value}</{bar}DSML{bar}parameter>\n'
        for key, value in arguments.items()
    )
    return (
        f'<{bar}DSML{bar}tool_calls>\n<{bar}DSML{bar}invoke name="{name}">\n{parameters}'
        f"</{bar}DSML{bar}invoke>\n</{bar}DSML{bar}tool_calls>"
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


Environment = Callable[..., dict[str, str]]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """The environment of a chat whose next replies are given, and whose sessions are its own."""

    def build(*replies: str, delay_ms: int = 0) -> dict[str, str]:
        script = tmp_path / "replies.jsonl"
        lines = [{"purpose": "turn", "text": text, "delay_ms": delay_ms} for text in replies]
        script.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return {**os.environ, "DS4_LSP_SCRIPT": str(script), "XDG_STATE_HOME": str(tmp_path / "state")}

    return build


def command(workspace: Path, model: Path, *options: str) -> list[str]:
    settings = ["--set", "model.contextSize=4096", "--set", "model.threads=1", "--set", "sessions.snapshots=false"]
    options = ("--workspace", str(workspace), "--model", str(model), *settings, *options)
    return [sys.executable, "-c", MAIN, "chat", *options]


def run(
    workspace: Path, model: Path, environment: dict[str, str], *options: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(workspace, model, *options), env=environment, input=stdin, capture_output=True, text=True, check=False
    )


def test_one_prompt_prints_the_reply_alone_and_exits_with_0(
    workspace: Path, small_model: Path, environment: Environment
) -> None:
    done = run(workspace, small_model, environment("The answer is 42."), "--prompt", "What is it?")
    assert (done.returncode, done.stdout) == (0, "The answer is 42.\n"), done.stderr
    assert "Loading model" in done.stderr


def test_an_edit_of_the_agent_reaches_the_file_and_is_shown(
    workspace: Path, tiny_chat_model: Path, environment: Environment
) -> None:
    replies = call("write", path="new.txt", content="made by the agent\n"), "Done."
    done = run(workspace, tiny_chat_model, environment(*replies), "--prompt", "make new.txt")
    assert done.returncode == 0, done.stderr
    assert (workspace / "new.txt").read_text() == "made by the agent\n"
    assert "▸ write path=new.txt" in done.stderr


@pytest.mark.parametrize("yes", [False, True], ids=["without --yes", "with --yes"])
def test_off_a_terminal_a_command_runs_only_with_yes(
    workspace: Path, tiny_chat_model: Path, environment: Environment, yes: bool
) -> None:
    replies = call("bash", command="touch ran"), "Done."
    options = ("--prompt", "run it", *(("--yes",) if yes else ()))
    done = run(workspace, tiny_chat_model, environment(*replies), *options)
    assert done.returncode == 0, done.stderr
    assert (workspace / "ran").exists() is yes
    assert "touch ran" in done.stderr


def test_lines_of_a_piped_stdin_are_prompts_and_local_commands(
    workspace: Path, tiny_chat_model: Path, environment: Environment
) -> None:
    done = run(workspace, tiny_chat_model, environment("First.", "Second."), stdin="a\n/status\nb\n/quit\nc\n")
    assert (done.returncode, done.stdout) == (0, "First.\nSecond.\n"), done.stderr
    assert "4096 tokens" in done.stderr


def test_a_model_that_cannot_be_loaded_is_told_and_exits_with_1(
    workspace: Path, tmp_path: Path, environment: Environment
) -> None:
    done = run(workspace, tmp_path / "missing.gguf", environment(), "--prompt", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("missing.gguf") == 1, "told once, though the server and the reply both say it"


class Terminal:
    """A chat on a pseudo-terminal."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "dumb", "COLUMNS": "100"},
            start_new_session=True,
        )
        os.close(slave)
        self.screen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def wait_for(self, text: str) -> None:
        """Read on until ``text`` appears, after what was waited for before."""
        while text not in self.screen:
            ready, _, _ = select.select([self.master], [], [], PATIENCE)
            assert ready, f"{text!r} did not appear in {self.screen!r}"
            self.screen += self._decoder.decode(os.read(self.master, 65536))
        self.screen = self.screen.split(text, 1)[1]

    def number(self) -> str:
        """The number that stands at the place which was waited for."""
        while not (found := re.match(r"(\d+)\D", self.screen)):
            self.screen += self._decoder.decode(os.read(self.master, 65536))
        return found[1]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def close(self) -> int:
        status = self.process.wait(PATIENCE)
        os.close(self.master)
        return status


def test_ctrl_c_stops_the_reply_and_the_conversation_goes_on(
    workspace: Path, tiny_chat_model: Path, environment: Environment
) -> None:
    long = "word " * 200
    terminal = Terminal(command(workspace, tiny_chat_model), environment(f"Begin {long}", "Again.", delay_ms=30))
    terminal.wait_for("› ")
    terminal.type("talk\n")
    terminal.wait_for("Begin word word")
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("[cancelled]")
    terminal.type("and now?\n")
    terminal.wait_for("Again.")
    terminal.wait_for("› ")
    terminal.type("/quit\n")
    assert terminal.close() == 0


def test_a_line_typed_while_a_turn_runs_is_queued_and_can_be_taken_back(
    workspace: Path, small_model: Path, environment: Environment
) -> None:
    terminal = Terminal(command(workspace, small_model), environment("Begin " + "word " * 200, "Second.", delay_ms=30))
    terminal.wait_for("› ")
    terminal.type("talk\n")
    terminal.wait_for("Begin word word")
    terminal.type("delete the branch\n")
    terminal.wait_for("queued #")
    number = terminal.number()
    terminal.type("second\n")
    terminal.wait_for("queued #")
    terminal.type(f"/unqueue {number}\n")
    terminal.wait_for(f"#{number} is taken back.")
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("waits for you #")
    terminal.type(f"/send {terminal.number()}\n")
    terminal.wait_for("Second.")
    terminal.wait_for("› ")
    terminal.type("/history\n")
    terminal.wait_for("user: second")
    terminal.wait_for("› ")
    terminal.type("\x04")
    assert terminal.close() == 0
    assert "delete" not in terminal.screen


def test_only_a_letter_alone_answers_an_approval(workspace: Path, small_model: Path, environment: Environment) -> None:
    replies = (call("bash", command="touch first"), call("bash", command="touch second"), "Done.")
    terminal = Terminal(command(workspace, small_model), environment(*replies))
    terminal.wait_for("› ")
    terminal.type("run them\n")
    terminal.wait_for("[N]o: ")
    terminal.type("second line of what was pasted\nyes\n")
    terminal.wait_for("no answer: second line of what was pasted")
    terminal.wait_for("no answer: yes")
    terminal.wait_for("[N]o: ")
    terminal.type("n\n")
    terminal.wait_for("touch second")
    terminal.wait_for("[N]o: ")
    terminal.type("s\n")
    terminal.wait_for("Done.")
    terminal.wait_for("› ")
    terminal.type("/quit\n")
    assert terminal.close() == 0
    assert not (workspace / "first").exists()
    assert (workspace / "second").exists()


def test_an_approval_is_asked_on_the_terminal_and_enter_means_no(
    workspace: Path, tiny_chat_model: Path, environment: Environment
) -> None:
    replies = (call("bash", command="touch first"), call("bash", command="touch second"), "Done.")
    terminal = Terminal(command(workspace, tiny_chat_model), environment(*replies))
    terminal.wait_for("› ")
    terminal.type("run them\n")
    terminal.wait_for("touch first")
    terminal.wait_for("[N]o: ")
    terminal.type("\n")
    terminal.wait_for("touch second")
    terminal.wait_for("[N]o: ")
    terminal.type("y\n")
    terminal.wait_for("Done.")
    terminal.wait_for("› ")
    terminal.type("\x04")
    assert terminal.close() == 0
    assert not (workspace / "first").exists()
    assert (workspace / "second").exists()


@pytest.mark.parametrize(
    "assignments, settings",
    [
        (["model.contextSize=8192"], {"model": {"contextSize": 8192}}),
        (["ds4.model.path=/m/x.gguf", "model.threads=2"], {"model": {"path": "/m/x.gguf", "threads": 2}}),
        (['permissions.bashAllow=["git status"]'], {"permissions": {"bashAllow": ["git status"]}}),
        (["thinking=off", "model.seed=null"], {"thinking": "off", "model": {"seed": None}}),
        (["systemPrompt=a=b"], {"systemPrompt": "a=b"}),
        ([], {}),
    ],
)
def test_assignments_become_a_settings_section(assignments: list[str], settings: dict[str, Any]) -> None:
    assert chat.parse_settings(assignments) == settings


@pytest.mark.parametrize("assignment", ["nothing", "=3"])
def test_an_assignment_without_key_or_value_is_named(assignment: str) -> None:
    with pytest.raises(ValueError, match="KEY=VALUE"):
        chat.parse_settings([assignment])


def test_the_model_is_the_option_then_the_environment_then_a_fetched_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DS4_MODEL", raising=False)
    assert chat.choose_model(None) is None
    fetched = tmp_path / "ds4-lsp" / "models" / "qwen2.5-coder-7b.gguf"
    fetched.parent.mkdir(parents=True)
    fetched.touch()
    assert chat.choose_model(None) == str(fetched)
    monkeypatch.setenv("DS4_MODEL", "env.gguf")
    assert chat.choose_model(None) == "env.gguf"
    assert chat.choose_model("own.gguf") == "own.gguf"
