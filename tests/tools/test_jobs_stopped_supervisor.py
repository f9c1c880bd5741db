"""Jobs whose supervisor does not act: stopped by its own command, by chance or on purpose, or killed."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import Busy, Cancelled
from ds4_lsp.tools import jobs as jobs_module
from ds4_lsp.tools.jobs import Jobs

HIDDEN = "(env -i setsid bash -c 'echo $$ >&3; exec sleep 300' &)"
"""Without the job's mark in its environment, without a parent, in a session of its own."""
BEGIN = f"exec 3> pids; echo $PPID >&3; echo $$ >&3; {HIDDEN}; "
STOPPED = BEGIN + "kill -STOP $PPID; echo 0 >&3; exec 3>&-; sleep 300"
STOPPED_AGAIN_AND_AGAIN = BEGIN + "kill -STOP $PPID; echo 0 >&3; exec 3>&-; while :; do kill -STOP $PPID; done"

Events = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def events() -> Events:
    return []


@pytest.fixture
async def jobs(tmp_path: Path, events: Events) -> AsyncIterator[Jobs]:
    os.mkfifo(tmp_path / "pids")
    jobs = Jobs(lambda: tmp_path / "jobs", lambda name, data: events.append((name, data)))
    yield jobs
    await jobs.close()


def pids_in(fifo: Path) -> list[int]:
    """The supervisor, the shell, the hidden process: once the supervisor is stopped."""
    with fifo.open() as lines:
        pids = [int(lines.readline()) for _ in range(4)]
    return [pid for pid in pids if pid]


def watch(pids: Sequence[int]) -> Callable[[float], bool]:
    """A function that says whether all of ``pids``, alive now, are gone within so many seconds, and kills the rest."""
    handles = [os.pidfd_open(pid) for pid in pids]

    def gone(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        ready = [bool(select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]) for handle in handles]
        for handle, over in zip(handles, ready, strict=True):
            if not over:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)
        return all(ready)

    return gone


@pytest.mark.parametrize("command", [STOPPED, STOPPED_AGAIN_AND_AGAIN])
async def test_a_timeout_kills_everything_also_where_the_supervisor_is_stopped(
    jobs: Jobs, events: Events, tmp_path: Path, command: str
) -> None:
    job = await jobs.start(command, tmp_path, 1)
    gone = watch(await asyncio.to_thread(pids_in, tmp_path / "pids"))
    await jobs.wait(job, 20, Cancel())
    assert await asyncio.to_thread(gone, 2)
    assert job.state == "timeout"
    assert events[-1][1]["state"] == "timeout"


async def test_a_stopped_supervisor_goes_on_for_the_stop_of_its_job_and_lets_it_clean_up(
    jobs: Jobs, tmp_path: Path
) -> None:
    job = await jobs.start(f"trap 'echo bye; exit 7' TERM; {STOPPED} & wait", tmp_path, 60)
    gone = watch(await asyncio.to_thread(pids_in, tmp_path / "pids"))
    info = await jobs.stop(job)
    assert (info.state, info.exit_status) == ("killed", 7)
    assert job.path.read_text().endswith("bye\n")
    assert await asyncio.to_thread(gone, 2)


@pytest.mark.parametrize("command", [STOPPED, STOPPED_AGAIN_AND_AGAIN])
async def test_close_leaves_nothing_of_a_job_whose_supervisor_is_stopped(
    jobs: Jobs, events: Events, tmp_path: Path, command: str
) -> None:
    await jobs.start(command, tmp_path, 60)
    gone = watch(await asyncio.to_thread(pids_in, tmp_path / "pids"))
    await jobs.close()
    assert await asyncio.to_thread(gone, 1)
    assert events[-1][1]["state"] == "killed"


SERVER = """
import asyncio, pathlib, sys
from ds4_lsp.tools.jobs import Jobs

async def main(folder, command):
    await Jobs(lambda: folder, lambda name, data: None).start(command, folder, 300)
    await asyncio.Event().wait()

asyncio.run(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
"""


def test_a_stopped_supervisor_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    server = subprocess.Popen([sys.executable, "-c", SERVER, tmp_path, STOPPED])
    try:
        gone = watch(pids_in(tmp_path / "pids"))
    finally:
        server.kill()
        server.wait()
    assert gone(60)


async def test_a_command_that_stops_its_supervisor_at_once_has_been_started_all_the_same(
    jobs: Jobs, events: Events, tmp_path: Path
) -> None:
    for number in range(1, 6):
        job = await asyncio.wait_for(jobs.start("kill -STOP $PPID; sleep 300", tmp_path, 60), 20)
        assert events[-1] == (
            "job/started",
            {"job": number, "callId": "", "pid": job.pid, "command": "kill -STOP $PPID; sleep 300"},
        )


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Supervisors that are stopped before they say anything; the fifo in which they leave their pid."""
    fifo = tmp_path / "stuck"
    os.mkfifo(fifo)
    script = tmp_path / "interpreter"
    script.write_text(f"#!/bin/sh\necho $$ > {fifo}\nkill -STOP $$\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    return fifo


async def test_a_start_that_does_not_come_about_can_be_cancelled(
    jobs: Jobs, events: Events, tmp_path: Path, stuck: Path
) -> None:
    cancel = Cancel()
    starting = asyncio.create_task(jobs.start("true", tmp_path, 60, cancel=cancel))
    gone = watch([int(await asyncio.to_thread(stuck.read_text))])
    cancel.set()
    with pytest.raises(Cancelled):
        await asyncio.wait_for(starting, 50)
    assert gone(0)
    assert [info.state for info in jobs.list()] == ["killed"]
    assert [name for name, _ in events] == []


async def test_a_start_that_does_not_come_about_is_given_up(
    jobs: Jobs, tmp_path: Path, stuck: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "START_SECONDS", 0.5)
    starting = asyncio.create_task(jobs.start("true", tmp_path, 60))
    gone = watch([int(await asyncio.to_thread(stuck.read_text))])
    with pytest.raises(Busy, match="did not start"):
        await asyncio.wait_for(starting, 50)
    assert gone(0)


async def test_a_supervisor_killed_by_what_its_command_left_behind_leaves_nothing(jobs: Jobs, tmp_path: Path) -> None:
    command = "exec 3> pids; echo $PPID >&3; (trap '' HUP; echo $BASHPID >&3; exec 3>&-; read x < go; sleep 300) &"
    os.mkfifo(tmp_path / "go")
    job = await jobs.start(command, tmp_path, 60)
    with (tmp_path / "pids").open() as fifo:
        supervisor_pid, left = (int(line) for line in await asyncio.to_thread(fifo.readlines))
    await jobs.wait(job, 10, Cancel())
    assert (job.state, job.leftovers) == ("exited", 1)
    gone = watch([supervisor_pid, left])
    os.kill(supervisor_pid, signal.SIGKILL)
    assert await asyncio.to_thread(gone, 5)
    assert (job.state, job.leftovers) == ("exited", 0)


async def test_a_timeout_kills_also_what_an_ended_command_has_left_in_the_background(
    jobs: Jobs, tmp_path: Path
) -> None:
    job = await jobs.start("exec 3> pids; (echo $BASHPID >&3; exec 3>&-; exec sleep 300) & sleep 0", tmp_path, 1)
    with (tmp_path / "pids").open() as fifo:
        gone = watch([int(line) for line in await asyncio.to_thread(fifo.readlines)])
    await jobs.wait(job, 10, Cancel())
    assert job.exit_status == 0
    assert await asyncio.to_thread(gone, 10)
    await jobs.stop(job)
    assert (job.state, job.leftovers) == ("exited", 0)
