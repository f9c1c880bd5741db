"""Jobs with real processes. A process counts as gone when its pidfd says so, however the test machine reaps it."""

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
from ds4_lsp.protocol.commands import JobInfo
from ds4_lsp.protocol.errors import Busy, InvalidRequest, NotFound, StorageFailed
from ds4_lsp.tools import jobs as jobs_module
from ds4_lsp.tools import supervisor
from ds4_lsp.tools.jobs import Jobs
from ds4_lsp.tools.jobs_state import Job
from ds4_lsp.tools.supervisor import Sink

# A daemon as daemons do it: a session of its own, and no parent left; its pid is printed.
DAEMON = "(setsid bash -c 'echo pid $$; exec sleep 300' &)"
STUBBORN_DAEMON = """(setsid bash -c 'trap "" TERM; echo pid $$; while :; do sleep 300; done' &)"""

PATIENCE = 60.0
"""Seconds until what does not come counts as missing."""

Events = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def events() -> Events:
    return []


@pytest.fixture
async def jobs(tmp_path: Path, events: Events) -> AsyncIterator[Jobs]:
    jobs = Jobs(lambda: tmp_path / "jobs", lambda name, data: events.append((name, data)))
    yield jobs
    await jobs.close()


async def finished(jobs: Jobs, command: str, cwd: Path, timeout: float = 30) -> tuple[Job, str]:
    job = await jobs.start(command, cwd, timeout)
    await jobs.wait(job, PATIENCE, Cancel())
    return job, job.path.read_text()


async def printed(jobs: Jobs, job: Job, pids: int) -> list[int]:
    """Wait until the job has printed so many lines ``pid N``."""

    def found() -> list[int]:
        lines = job.path.read_text().splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("pid ")]

    enough = Cancel()
    await jobs.wait(job, PATIENCE, enough, lambda: enough.set() if len(found()) >= pids else None)
    assert len(found()) >= pids, job.path.read_text()
    return found()


def watch(pids: Sequence[int]) -> Callable[[float], bool]:
    """A function that says whether all of ``pids``, alive now, are gone within so many seconds."""
    handles = [os.pidfd_open(pid) for pid in pids]

    def gone(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        ready = [bool(select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]) for handle in handles]
        for handle in handles:
            os.close(handle)
        return all(ready)

    return gone


async def test_output_of_both_streams_and_exit_status_are_kept_and_logged(
    jobs: Jobs, events: Events, tmp_path: Path
) -> None:
    job = await jobs.start("echo out; echo err >&2; exit 3", tmp_path, 30, call_id="c1")
    await jobs.wait(job, 30, Cancel())
    assert (job.state, job.exit_status, job.path.read_text()) == ("exited", 3, "out\nerr\n")
    assert events == [
        ("job/started", {"job": 1, "callId": "c1", "pid": job.pid, "command": "echo out; echo err >&2; exit 3"}),
        ("job/ended", {"job": 1, "callId": "c1", "state": "exited", "exitStatus": 3}),
    ]
    assert job.path.stat().st_mode & 0o777 == 0o600


async def test_a_command_has_no_input_no_terminal_and_its_folder(jobs: Jobs, tmp_path: Path) -> None:
    job, text = await finished(jobs, "cat; pwd; (: < /dev/tty) 2>/dev/null || echo none; tty", tmp_path)
    assert text == f"{tmp_path}\nnone\nnot a tty\n"
    assert job.exit_status == 1


async def test_a_command_gets_no_descriptor_of_the_server(jobs: Jobs, tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        last = max(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
        assert file.fileno() <= last
        _, text = await finished(
            jobs, f"for fd in {{0..{last}}}; do [ -e /proc/$$/fd/$fd ] && echo $fd; done", tmp_path
        )
    assert text.split() == ["0", "1", "2"]


async def test_signals_are_at_their_defaults_in_a_command(jobs: Jobs, tmp_path: Path) -> None:
    reserved = 0b11 << 31  # 32 and 33 are glibc's own: no program can set them, whoever started it may have
    _, text = await finished(
        jobs, "yes | head -1 >/dev/null; echo ${PIPESTATUS[0]}; grep SigIgn /proc/$$/status", tmp_path
    )
    broken_pipe, _, ignored = text.split()
    assert (broken_pipe, int(ignored, 16) & ~reserved) == ("141", 0)


async def test_death_by_signal_is_128_plus_its_number(jobs: Jobs, tmp_path: Path) -> None:
    job, _ = await finished(jobs, "kill -SEGV $$", tmp_path)
    assert (job.state, job.exit_status) == ("exited", 128 + signal.SIGSEGV)


async def test_secrets_stay_out_of_a_command(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HUB_TOKEN", "api_key", "MY_SECRET_1", "DB_PASSWORD", "DS4_LSP_SCRIPT"):
        monkeypatch.setenv(name, "hidden-value")
    monkeypatch.setenv("HARMLESS", "shown-value")
    _, text = await finished(jobs, "env; cat /proc/$PPID/environ", tmp_path)
    assert "hidden-value" not in text
    assert "HARMLESS=shown-value" in text
    assert "GIT_TERMINAL_PROMPT=0" in text


async def test_output_written_right_before_the_end_is_complete(jobs: Jobs, tmp_path: Path) -> None:
    _, text = await finished(jobs, "head -c 60000 /dev/zero | tr '\\0' x; echo end", tmp_path)
    assert text == "x" * 60000 + "end\n"


async def test_stop_lets_a_command_clean_up(jobs: Jobs, events: Events, tmp_path: Path) -> None:
    job = await jobs.start("trap 'echo bye; exit 7' TERM; echo pid $$; while :; do sleep 0.1; done", tmp_path, 30)
    await printed(jobs, job, 1)
    info = await jobs.stop(job)
    assert (info.state, info.exit_status) == ("killed", 7)
    assert job.path.read_text().endswith("bye\n")
    assert events[-1] == ("job/ended", {"job": 1, "callId": "", "state": "killed", "exitStatus": 7})


async def test_stop_kills_the_whole_tree_even_where_it_ignores_term(jobs: Jobs, tmp_path: Path) -> None:
    job = await jobs.start(
        f"trap '' TERM; {STUBBORN_DAEMON}; {DAEMON}; sleep 300 & echo pid $!; echo pid $$; wait", tmp_path, 30
    )
    gone = watch(await printed(jobs, job, 4))
    began = time.monotonic()
    info = await jobs.stop(job)
    assert gone(0)
    assert (info.state, info.exit_status) == ("killed", 137)
    assert time.monotonic() - began >= jobs_module.TERM_SECONDS


async def test_what_a_command_leaves_in_the_background_does_not_hold_it_up_and_can_be_stopped(
    jobs: Jobs, tmp_path: Path
) -> None:
    daemon = "(setsid bash -c 'echo pid $$; echo > up; exec sleep 300' &)"
    job, text = await finished(jobs, f"mkfifo up; {daemon}; sleep 300 & echo pid $!; read x < up", tmp_path)
    assert (job.state, job.exit_status, job.leftovers) == ("exited", 0, 2)
    gone = watch(await printed(jobs, job, 2))
    assert not gone_now(text)
    assert (await jobs.stop(job)).state == "exited"
    assert gone(0)
    assert job.leftovers == 0


def gone_now(text: str) -> bool:
    pids = [int(line.split()[1]) for line in text.splitlines() if line.startswith("pid ")]
    return watch(pids)(0)


async def test_a_timeout_kills_everything(jobs: Jobs, tmp_path: Path) -> None:
    job = await jobs.start(f"{STUBBORN_DAEMON}; echo pid $$; sleep 300", tmp_path, 1)
    gone = watch(await printed(jobs, job, 2))
    await jobs.wait(job, PATIENCE, Cancel())
    assert job.state == "timeout"
    assert await asyncio.to_thread(gone, PATIENCE)


async def test_close_kills_at_once_and_records_it(jobs: Jobs, events: Events, tmp_path: Path) -> None:
    command = f"trap 'echo > asked' TERM; {STUBBORN_DAEMON}; echo pid $$; while :; do sleep 300 & wait; done"
    started = [await jobs.start(command, tmp_path, 30) for _ in range(3)]
    pids = [pid for job in started for pid in await printed(jobs, job, 2)]
    gone = watch(pids)
    await jobs.close()
    assert await asyncio.to_thread(gone, PATIENCE)
    assert not (tmp_path / "asked").exists(), "there is no time to ask it first"
    assert [data["state"] for name, data in events if name == "job/ended"] == ["killed"] * 3
    with pytest.raises(InvalidRequest):
        await jobs.start("true", tmp_path, 30)


SERVER = """
import asyncio, pathlib, sys
from ds4_lsp.tools.jobs import Jobs

async def main(folder, command):
    jobs = Jobs(lambda: folder, lambda name, data: None)
    for _ in range(2):
        job = await jobs.start(command, folder, 300)
        print(job.path, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
"""


def test_jobs_die_with_a_server_that_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pids")
    command = f"{{ {STUBBORN_DAEMON}; echo pid $PPID; echo pid $$; sleep 300 & echo pid $!; }} > pids; wait"
    server = subprocess.Popen([sys.executable, "-c", SERVER, tmp_path, command], stdout=subprocess.PIPE)
    try:
        with (tmp_path / "pids").open() as fifo, (tmp_path / "pids").open("w"):
            pids = [int(fifo.readline().split()[1]) for _ in range(8)]
        gone = watch(pids)
        assert not gone_now(f"pid {pids[0]}")
    finally:
        server.kill()
        server.communicate()
    assert gone(PATIENCE)


STARTER = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), "1000", "/bin/sh", "sleep 300"])
time.sleep(300)
"""


def test_jobs_die_with_a_server_whose_pipe_is_held_open_by_another() -> None:
    command = [sys.executable, "-c", STARTER, supervisor.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        gone = watch([int(server.stdout.readline().split()[1])])
        server.kill()
        assert gone(PATIENCE)


async def test_a_killed_supervisor_leaves_nothing_behind(jobs: Jobs, events: Events, tmp_path: Path) -> None:
    job = await jobs.start(f"{DAEMON}; echo supervisor $PPID; echo pid $$; sleep 300", tmp_path, 30)
    gone = watch(await printed(jobs, job, 2))
    [pid] = [int(line.split()[1]) for line in job.path.read_text().splitlines() if line.startswith("sup")]
    os.kill(pid, signal.SIGKILL)
    await jobs.wait(job, PATIENCE, Cancel())
    assert (job.state, job.exit_status) == ("lost", None)
    assert gone(PATIENCE)
    assert events[-1][1]["state"] == "lost"


async def test_output_over_the_cap_keeps_both_ends_and_never_blocks_the_command(tmp_path: Path) -> None:
    cap = 20_000
    jobs = Jobs(lambda: tmp_path, lambda _name, _data: None, cap=cap)
    job, text = await finished(jobs, "seq 1 200000; echo last", tmp_path)
    assert (job.state, job.exit_status) == ("exited", 0)
    assert len(text) <= cap
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("\n200000\nlast\n")
    total = sum(len(f"{i}\n") for i in range(1, 200_001)) + 5
    note = f"\n[... {job.dropped} bytes not kept ...]\n"
    assert job.total == total == len(text) - len(note) + job.dropped
    assert note in text
    look = await jobs.look(job)
    assert f"{job.dropped:,} bytes from the middle of the output are not kept" in look
    await jobs.close()


def test_a_full_disk_loses_output_and_not_the_command() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    sink = Sink(descriptor, 1000)
    sink.write(b"x" * 5000)
    sink.flush()
    os.close(descriptor)
    assert (sink.total, sink.failure) == (5000, "No space left on device")


async def test_wait_ends_at_refresh_and_at_a_cancel_while_the_job_goes_on(jobs: Jobs, tmp_path: Path) -> None:
    job = await jobs.start("sleep 300", tmp_path, 300)
    await jobs.wait(job, 0.05, Cancel())
    assert job.running
    cancel = Cancel()
    asyncio.get_running_loop().call_later(0.05, cancel.set)
    began = time.monotonic()
    await jobs.wait(job, 60, cancel)
    await jobs.wait(job, 60, cancel)
    assert job.running
    assert time.monotonic() - began < 60, "neither waited to its end"


async def test_later_looks_show_only_what_is_new(jobs: Jobs, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    job = await jobs.start("echo pid 1; read x < go; seq 1 9; echo pid 2; read x < go; seq 1 90", tmp_path, 30)
    await printed(jobs, job, 1)
    assert await jobs.look(job) == "pid 1"
    assert await jobs.look(job) == ""
    (tmp_path / "go").write_text("\n")
    await printed(jobs, job, 2)
    text = await jobs.look(job)
    assert text.endswith("]\n7\n8\n9\npid 2")
    assert f"10 lines, 24 bytes since the last look, the last lines follow; all of it is in {job.path}" in text
    (tmp_path / "go").write_text("\n")
    await jobs.wait(job, PATIENCE, Cancel())
    assert (await jobs.look(job)).endswith("]\n" + "\n".join(map(str, range(71, 91))))


async def test_jobs_run_side_by_side(jobs: Jobs, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "meet")
    writer = await jobs.start("echo hello > meet", tmp_path, 30)
    reader = await jobs.start("cat meet", tmp_path, 30)
    for job in (writer, reader):
        await jobs.wait(job, PATIENCE, Cancel())
    assert [info.state for info in jobs.list()] == ["exited", "exited"]
    assert reader.path.read_text() == "hello\n"


async def test_too_many_jobs_are_refused(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "MAX_RUNNING", 1)
    job = await jobs.start("sleep 300", tmp_path, 300)
    with pytest.raises(Busy, match="bash_stop"):
        await jobs.start("true", tmp_path, 30)
    await jobs.stop(job)
    assert (await finished(jobs, "true", tmp_path))[0].state == "exited"


async def test_an_opened_session_reports_running_jobs_as_lost_and_goes_on_counting(tmp_path: Path) -> None:
    earlier = [
        JobInfo(job=1, pid=1, command="a", state="exited", exit_status=0, elapsed=1.0),
        JobInfo(job=4, pid=2, command="b", state="running", exit_status=None, elapsed=2.0),
    ]
    (tmp_path / "job-5.txt").write_text("of a job that the log does not know")
    jobs = Jobs(lambda: tmp_path, lambda _name, _data: None, earlier=earlier)
    assert [(info.job, info.state) for info in jobs.list()] == [(1, "exited"), (4, "lost")]
    job, _ = await finished(jobs, "true", tmp_path)
    assert job.number == 6
    assert (tmp_path / "job-5.txt").read_text() == "of a job that the log does not know"
    assert (await jobs.stop(jobs.get(4))).state == "lost"
    assert await jobs.look(jobs.get(4)) == ""
    with pytest.raises(NotFound, match="1, 4, 6"):
        jobs.get(2)
    await jobs.close()


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800", "echo " + "x" * 3_000_000])
async def test_a_command_that_cannot_be_passed_on_is_refused(jobs: Jobs, tmp_path: Path, command: str) -> None:
    with pytest.raises(InvalidRequest):
        await jobs.start(command, tmp_path, 30)
    assert jobs.list() == []


async def test_a_folder_that_is_gone_is_refused(jobs: Jobs, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="gone"):
        await jobs.start("true", tmp_path / "gone", 30)


async def test_no_place_for_output_is_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    jobs = Jobs(lambda: tmp_path / "file", lambda _name, _data: None)
    with pytest.raises(StorageFailed):
        await jobs.start("true", tmp_path, 30)


async def test_a_start_that_cannot_be_logged_does_not_run_on(tmp_path: Path) -> None:
    pids: list[int] = []

    def record(name: str, data: dict[str, Any]) -> None:
        if name == "job/started":
            pids.append(data["pid"])
            raise StorageFailed("disk full")

    jobs = Jobs(lambda: tmp_path, record)
    with pytest.raises(StorageFailed, match="disk full"):
        await jobs.start("sleep 300", tmp_path, 30)
    [info] = jobs.list()
    await jobs.wait(jobs.get(info.job), 10, Cancel())
    assert (jobs.list()[0].state, jobs.list()[0].pid) == ("killed", pids[0])
    await jobs.close()
