"""What the terminal's user sees of each kind of death: three lines, and no others but those of the progress."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from memory_limit import limit

PATIENCE = 240.0
SLOW = "one two three four five six seven eight nine ten " * 20
ENGINES_BYTES = 48 << 20
"""See ``test_engine_deaths``."""


@pytest.fixture
def chat(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a chat of one prompt with a model; its reply is slow."""
    script = tmp_path / "replies.jsonl"
    script.write_text(json.dumps({"purpose": "turn", "text": SLOW, "delay_ms": 50}) + "\n")

    def start(model: Path, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "ds4_lsp", "chat", "--prompt", "hello", "--model", str(model)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=os.environ
            | {"DS4_LSP_SCRIPT": str(script), "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONUNBUFFERED": "1"}
            | environment,
        )

    return start


OTHERS = re.compile(r"(Loading model|DS4)\b.*(%|: [\w ]+)$|with: ")
"""Lines of progress, and of what goes along with the prompt."""


def told(process: subprocess.Popen[str], status: int = 1) -> list[list[str]]:
    """The messages of deaths, in lines. There are no other lines, but for those of progress."""
    _, shown = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    messages: list[list[str]] = []
    for line in shown.splitlines():
        if line.startswith(("error: ", "ds4-lsp: ")):
            messages.append([])
        if OTHERS.match(line):
            continue
        assert messages, shown
        messages[-1].append(line)
    assert messages, shown
    assert all(len(message) <= 3 for message in messages), shown
    return messages


def test_an_illegal_instruction(chat: Callable[..., subprocess.Popen[str]], tiny_model: Path) -> None:
    [what, remedy, _] = told(chat(tiny_model, DS4_LSP_FAULT="decode:ill"))[-1]
    assert "SIGILL" in what
    assert remedy.endswith(" install LLAMA_CPP_NATIVE=off")


def test_a_truncated_model(chat: Callable[..., subprocess.Popen[str]], tiny_model: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    shutil.copyfile(tiny_model, model)
    process = chat(model)
    assert process.stdout is not None
    # The reply has begun.
    assert process.stdout.read(1)
    os.truncate(model, 4096)
    [what, remedy, _] = told(process)[-1]
    assert "SIGBUS" in what
    assert f"{model} was changed while it was in use" in what
    assert remedy.startswith("Put the whole file back")


def test_memory_that_runs_out(chat: Callable[..., subprocess.Popen[str]], small_model: Path) -> None:
    with limit(ENGINES_BYTES) as joining:
        process = chat(small_model)
        joining.write_text(str(engine_of(process)))
        # The first engine died; the prompt was answered by the second.
        messages = told(process, status=0)
    [what, remedy, _] = messages[0]
    assert "memory ran out" in what
    assert "needs about" in what
    assert "ds4.model.contextSize" in remedy


def engine_of(process: subprocess.Popen[str]) -> int:
    """The engine's id, as soon as there is one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                if "ds4_lsp.engine" in child.cmdline():
                    return child.pid
            except psutil.Error:
                continue
    raise AssertionError("no engine was started")
