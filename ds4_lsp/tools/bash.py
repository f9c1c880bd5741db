"""The tools ``bash``, ``bash_status`` and ``bash_stop``: commands as jobs.

Interrupting the turn stops the command that ``bash`` is waiting for, as ^C would; jobs of earlier calls, also one that
``bash_status`` is waiting for, go on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pydantic import Field

from ds4_lsp.ports import Editor
from ds4_lsp.protocol.errors import Cancelled, InvalidRequest
from ds4_lsp.tools import output_file
from ds4_lsp.tools.base import UNTAUGHT, Call, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.jobs import Jobs
from ds4_lsp.tools.jobs_state import Job
from ds4_lsp.tools.output import HEAD_BYTES, Stream
from ds4_lsp.tools.permissions import Gate

COMMAND_SHOWN = 200
"""Characters of its command that name a job."""


class BashArguments(ToolArguments):
    command: str = Field(description="Shell command; it gets no input.")
    timeout_sec: int = Field(120, ge=1, le=86400, description="Seconds until it is killed.")
    refresh_sec: int = Field(60, ge=0, le=3600, description="Seconds until you get its output so far.")


class StatusArguments(ToolArguments):
    job: int = Field(ge=1)
    refresh_sec: int = Field(
        10, ge=0, le=3600, json_schema_extra=UNTAUGHT, description="Most seconds to wait for it to end."
    )


class StopArguments(ToolArguments):
    job: int = Field(ge=1)
    refresh_sec: int = Field(
        0, ge=0, le=3600, json_schema_extra=UNTAUGHT, description="Seconds to let it end by itself first."
    )


class Bash(Tool[BashArguments]):
    name = "bash"
    description = "Run a command in the workspace folder. After refresh_sec it goes on as a job."
    Arguments = BashArguments
    changes = True

    def __init__(self, jobs: Jobs, editor: Editor, gate: Gate) -> None:
        self._jobs = jobs
        self._editor = editor
        self._gate = gate

    async def run(self, arguments: BashArguments, call: Call) -> ToolResult:
        """Errors: ``InvalidRequest`` (empty, no folder, cannot start), ``Denied``, ``Cancelled``, ``Busy``,
        ``StorageFailed``."""
        command = arguments.command.strip()
        if not command:
            raise InvalidRequest("The command is empty: say what to run.")
        cwd = self._folder()
        await self._gate.check("bash", detail=command, key=command, call=call)
        if call.cancel.is_set:
            raise Cancelled("Not run: the user interrupted the turn.")
        job = await self._jobs.start(command, cwd, arguments.timeout_sec, call_id=call.call_id, cancel=call.cancel)
        await _watch(self._jobs, job, arguments.refresh_sec, call)
        note = ""
        if call.cancel.is_set and job.running:
            await self._jobs.stop(job)
            note = "The user interrupted the turn, and the command was stopped."
        return await _result(self._jobs, job, note, ok=job.state in ("running", "exited"))

    def _folder(self) -> Path:
        folder = self._editor.current_root or next(iter(self._editor.roots), None)
        if folder is None:
            raise InvalidRequest("No workspace folder is open, so commands have no place to run in. Tell the user.")
        return folder


class BashStatus(Tool[StatusArguments]):
    name = "bash_status"
    description = "Show what a job printed since the last look."
    Arguments = StatusArguments

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def run(self, arguments: StatusArguments, call: Call) -> ToolResult:
        """Errors: ``NotFound``."""
        job = self._jobs.get(arguments.job)
        await _watch(self._jobs, job, arguments.refresh_sec, call)
        return await _result(self._jobs, job, ok=job.state not in ("lost", "elsewhere"))


class BashStop(Tool[StopArguments]):
    name = "bash_stop"
    description = "End a job."
    Arguments = StopArguments
    changes = True

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def run(self, arguments: StopArguments, call: Call) -> ToolResult:
        """Errors: ``NotFound``."""
        job = self._jobs.get(arguments.job)
        await _watch(self._jobs, job, arguments.refresh_sec, call)
        await self._jobs.stop(job)
        return await _result(self._jobs, job, ok=not job.running)


async def _watch(jobs: Jobs, job: Job, refresh_sec: float, call: Call) -> None:
    """Wait for the job, and show the user what it prints meanwhile."""
    stream = Stream()
    position = job.seen

    def forward(limit: int = 8 * HEAD_BYTES, *, last: bool = False) -> None:
        nonlocal position
        raw = b"" if stream.full else output_file.read(job.path, position, limit)
        position += len(raw)
        if text := stream.feed(raw, last=last):
            call.progress(text)

    await jobs.wait(job, refresh_sec, call.cancel, forward)
    forward(last=True)


async def _result(jobs: Jobs, job: Job, note: str = "", *, ok: bool) -> ToolResult:
    text = await jobs.look(job)
    lines = [line for line in (note, _state(job), _background(job)) if line]
    body = text or ("(no new output)" if job.running or job.seen else "(no output)")
    data: dict[str, Any] = {
        "command": job.command,
        "job": job.number,
        "state": job.state,
        "exitStatus": job.exit_status,
    }
    return ToolResult("\n".join([*lines, "", body]), ok=ok, data=data)


def _state(job: Job) -> str:
    match job.state:
        case "running":
            return (
                f"job {job.number} is still running after {job.info.elapsed:.0f} s ({_name(job)}). Look again with "
                f"bash_status job={job.number}, end it with bash_stop job={job.number}."
            )
        case "exited":
            return f"exit status {job.exit_status}"
        case "killed":
            return f"job {job.number} was stopped ({_name(job)})"
        case "timeout":
            return (
                f"killed: it did not end within its timeout_sec ({_name(job)}). If it needs longer, run it again with "
                "a larger timeout_sec."
            )
        case "lost":
            return f"job {job.number} was lost: nothing is known of how it ended ({_name(job)}). Check what it did."
        case "elsewhere":
            return f"job {job.number} belongs to the session that this one is a copy of, not to it ({_name(job)})."


def _background(job: Job) -> str:
    if job.leftovers == 0:
        return ""
    return (
        f"Processes that it left in the background: {job.leftovers}. They are killed by bash_stop job={job.number}, "
        f"or when timeout_sec is over, in {max(0.0, job.expires - time.monotonic()):.0f} s."
    )


def _name(job: Job) -> str:
    command = " ".join(job.command.split())
    return command if len(command) <= COMMAND_SHOWN else command[: COMMAND_SHOWN - 1] + "…"
