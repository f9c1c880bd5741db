"""The bash tools over real processes, a real gate, and a folder for an editor."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.ports import Answer, Cancel, Question
from ds4_lsp.protocol.settings import Settings
from ds4_lsp.tools.base import Call, ToolResult
from ds4_lsp.tools.bash import Bash, BashStatus, BashStop
from ds4_lsp.tools.dispatch import Toolbox
from ds4_lsp.tools.jobs import Jobs
from ds4_lsp.tools.permissions import Gate


@dataclass
class Folders:
    """As much of the editor as commands need."""

    roots: tuple[Path, ...]
    current_root: Path | None = None


@dataclass
class Bench:
    folders: Folders
    jobs: Jobs
    answers: list[Answer] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    cancel: Cancel = field(default_factory=Cancel)
    interrupt_at: str = ""
    """Output at which the user interrupts the turn."""

    def __post_init__(self) -> None:
        gate = Gate(Settings, self.ask, lambda _name, _data: None)
        self.tools = Toolbox([Bash(self.jobs, self.folders, gate), BashStatus(self.jobs), BashStop(self.jobs)])

    async def ask(self, question: Question, _cancel: Cancel) -> Answer:
        self.questions.append(question)
        return self.answers.pop(0) if self.answers else "once"

    async def run(self, name: str, **arguments: Any) -> ToolResult:
        return await self.tools.run(name, arguments, Call("s", 1, "c1", self.cancel, self.show))

    def show(self, text: str) -> None:
        self.shown.append(text)
        if self.interrupt_at and text.endswith(self.interrupt_at):
            self.cancel.set()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    work = tmp_path / "work"
    work.mkdir()
    bench = Bench(Folders((work, tmp_path)), Jobs(lambda: tmp_path / "jobs", lambda _name, _data: None))
    yield bench
    await bench.jobs.close()


async def test_a_finished_command_gives_status_output_and_data(bench: Bench) -> None:
    result = await bench.run("bash", command=" echo hi; exit 3 ")
    assert result == ToolResult(
        "exit status 3\n\nhi",
        data={"command": "echo hi; exit 3", "job": 1, "state": "exited", "exitStatus": 3},
    )
    assert (await bench.run("bash", command="true")).text == "exit status 0\n\n(no output)"
    assert "".join(bench.shown) == "hi\n"


async def test_commands_run_in_the_sessions_folder_or_the_first(bench: Bench, tmp_path: Path) -> None:
    assert (await bench.run("bash", command="pwd")).text.endswith(f"\n{tmp_path / 'work'}")
    bench.folders.current_root = tmp_path
    assert (await bench.run("bash", command="pwd")).text.endswith(f"\n{tmp_path}")


async def test_without_a_folder_or_a_command_nothing_runs(bench: Bench) -> None:
    assert "empty" in (await bench.run("bash", command=" \n ")).text
    bench.folders.roots = ()
    result = await bench.run("bash", command="touch x")
    assert (result.ok, result.data) == (False, {"code": "invalid"})
    assert (bench.questions, bench.jobs.list()) == ([], [])


async def test_a_denied_command_does_not_run(bench: Bench, tmp_path: Path) -> None:
    bench.answers = ["deny"]
    result = await bench.run("bash", command="touch made")
    assert (result.ok, result.data) == (False, {"code": "denied"})
    assert [question.detail for question in bench.questions] == ["touch made"]
    assert bench.jobs.list() == []
    assert not (tmp_path / "work" / "made").exists()


async def test_a_slow_command_becomes_a_job_to_look_at_and_to_stop(bench: Bench, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "work" / "go")
    result = await bench.run("bash", command="echo begun; read x < go; echo more; sleep 300", refresh_sec=2)
    assert result.ok
    assert result.text.startswith("job 1 is still running after 2 s (echo begun; read x < go; echo more; sleep 300).")
    assert "bash_status job=1" in result.text
    assert result.text.endswith("\n\nbegun")
    assert (result.data["state"], result.data["exitStatus"]) == ("running", None)
    assert (await bench.run("bash_status", job=1, refresh_sec=0)).text.endswith("\n\n(no new output)")
    (tmp_path / "work" / "go").write_text("\n")
    assert (await bench.run("bash_status", job=1, refresh_sec=2)).text.endswith("\n\nmore")
    assert "".join(bench.shown) == "begun\nmore\n"
    result = await bench.run("bash_stop", job=1)
    assert result.ok
    assert result.text.startswith("job 1 was stopped")
    assert result.data["state"] == "killed"


async def test_status_returns_as_soon_as_the_job_ends(bench: Bench, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "work" / "go")
    await bench.run("bash", command="read x < go; exit 4", refresh_sec=0)
    waiting = asyncio.create_task(bench.run("bash_status", job=1, refresh_sec=3600))
    await asyncio.to_thread((tmp_path / "work" / "go").write_text, "\n")
    result = await asyncio.wait_for(waiting, 60)
    assert result.text == "exit status 4\n\n(no output)"


async def test_a_timeout_is_said_with_the_output_so_far(bench: Bench) -> None:
    result = await bench.run("bash", command="echo partly; sleep 300", timeout_sec=1)
    assert not result.ok
    assert result.text.startswith("killed: it did not end within its timeout_sec")
    assert result.text.endswith("\n\npartly")
    assert result.data["state"] == "timeout"


async def test_an_interrupt_stops_the_command_in_front_and_no_other(bench: Bench) -> None:
    await bench.run("bash", command="sleep 300", refresh_sec=0)
    bench.interrupt_at = "so far\n"
    result = await asyncio.wait_for(bench.run("bash", command="echo so far; sleep 300"), 60)
    assert not result.ok
    assert "interrupted" in result.text
    assert result.text.endswith("\n\nso far")
    assert [info.state for info in bench.jobs.list()] == ["running", "killed"]
    await bench.run("bash_status", job=1)
    assert [info.state for info in bench.jobs.list()] == ["running", "killed"]


async def test_an_interrupted_turn_starts_nothing(bench: Bench) -> None:
    bench.cancel.set()
    result = await bench.run("bash", command="true")
    assert (result.ok, result.data, bench.jobs.list()) == (False, {"code": "cancelled"}, [])


async def test_background_processes_are_told_of(bench: Bench) -> None:
    result = await bench.run("bash", command="sleep 300 & echo started", timeout_sec=3600)
    first, background, *output = result.text.split("\n")
    assert (first, output) == ("exit status 0", ["", "started"])
    told = r"Processes that it left in the background: 1\. They are killed by bash_stop job=1, or .* in 3[0-9]{3} s\."
    assert re.fullmatch(told, background)
    assert (await bench.run("bash_stop", job=1)).text == "exit status 0\n\n(no new output)"


@pytest.mark.parametrize("name", ["bash_status", "bash_stop"])
async def test_an_unknown_job_is_named_with_those_there_are(bench: Bench, name: str) -> None:
    await bench.run("bash", command="true")
    result = await bench.run(name, job=7)
    assert (result.ok, result.text) == (False, "There is no job 7. Jobs of this session: 1.")
