"""The commands of a session: started, watched, timed, stopped, and never left behind.

Each runs under a supervisor process of its own (``supervisor.py``), which kills the command and everything it started
when the server is gone, however that happened. Everything here runs on one event loop.

A job is ``running`` until its command has ended: then ``exited``, or ``killed`` or ``timeout`` when it was ended from
here, or ``lost`` when nobody could see how it ended. In a fork, what its original had running is ``elsewhere``.
Processes that a command leaves in the background go on: they are counted in ``leftovers``, ended by :meth:`Jobs.stop`
and by the job's timeout, and die with the server like every other.

A supervisor can be stopped (SIGSTOP) or killed by the command that it runs. Where it does not act in time, its
processes and it are killed from here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import JobInfo
from ds4_lsp.protocol.errors import Busy, Cancelled, Ds4Error, InvalidRequest, NotFound, StorageFailed
from ds4_lsp.tools import output, output_file, scrub, supervisor_link
from ds4_lsp.tools.jobs_state import Job, State
from ds4_lsp.tools.supervisor import limits

log = logging.getLogger("ds4_lsp.jobs")

OUTPUT_CAP = 64 * 1024 * 1024
"""Bytes of output kept per job."""
MAX_RUNNING = 32
START_SECONDS = 30.0
"""What a supervisor gets to start its command: far more than it needs on a busy machine."""
TERM_SECONDS = 1.0
"""What a job gets between SIGTERM and SIGKILL."""
KILL_SECONDS = 3.0
"""What a supervisor gets to kill its job: more than it gives itself (``supervisor.KILL_DEADLINE``)."""
CLOSE_SECONDS = 0.5


class Jobs:
    """A session's jobs. ``on_event`` gets ``job/started`` and ``job/ended`` with the data that the session log keeps.

    ``directory`` is where output files go; it is created when needed. ``earlier``: the jobs of a session that was
    opened again; their numbers are not used anew.
    """

    def __init__(
        self,
        directory: Callable[[], Path],
        on_event: Callable[[str, dict[str, Any]], None],
        *,
        earlier: Sequence[JobInfo] = (),
        cap: int = OUTPUT_CAP,
    ) -> None:
        self._directory = directory
        self._on_event = on_event
        self._cap = cap
        self._jobs: dict[int, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        for info in earlier:
            state: State = "lost" if info.state == "running" else info.state
            self._jobs[info.job] = Job(
                info.job,
                info.command,
                directory() / _file_name(info.job),
                pid=info.pid,
                state=state,
                exit_status=info.exit_status,
                elapsed=info.elapsed,
            )

    async def start(
        self, command: str, cwd: Path, timeout: float, *, call_id: str = "", cancel: Cancel | None = None
    ) -> Job:
        """Run ``command`` in a shell, it and what it leaves in the background for at most ``timeout`` seconds.

        Errors: ``InvalidRequest`` (cannot be run at all), ``Busy`` (too many at once, or the machine does not get it
        started), ``StorageFailed`` (no place for the output, or the start could not be logged), ``Cancelled``. The
        command is killed then.
        """
        if self._closed:
            raise InvalidRequest("The session is closing: no command is started any more.")
        if sum(job.link is not None for job in self._jobs.values()) >= MAX_RUNNING:
            raise Busy(f"{MAX_RUNNING} commands are running already: stop one with bash_stop, or wait for one to end.")
        job, descriptor = self._new_job(command, call_id)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            job.link = supervisor_link.start(
                command,
                cwd=cwd,
                environment=scrub.environment(os.environ) | {supervisor_link.MARKER: job.marker},
                shell=shutil.which("bash") or "/bin/sh",
                output=descriptor,
                cap=self._cap,
                on_line=lambda line: self._hear(job, line, begun),
                on_end=lambda: self._end(job, begun),
            )
        except (OSError, ValueError) as error:
            raise InvalidRequest(f"The command cannot be started in {cwd}: {error}.") from error
        finally:
            os.close(descriptor)
        self._jobs[job.number] = job
        await self._begin(job, begun, cancel or Cancel())
        if job.link is not None:
            job.expires = time.monotonic() + timeout
            job.timer = asyncio.get_running_loop().call_later(timeout, self._expire, job)
        return job

    async def _begin(self, job: Job, begun: asyncio.Future[None], cancel: Cancel) -> None:
        late = Busy(f"The command did not start within {START_SECONDS:.0f} s: try again when the machine is less busy.")
        timer = asyncio.get_running_loop().call_later(START_SECONDS, _fail, begun, late)
        forget = cancel.on_set(
            lambda: _fail(begun, Cancelled("The command was stopped as it started: the user interrupted the turn."))
        )
        try:
            await begun
        except Ds4Error:
            job.verdict = "killed"
            if job.link:
                await job.link.destroy()
            raise
        except asyncio.CancelledError:
            job.verdict = "killed"
            if job.link:
                job.link.hang_up()
            raise
        finally:
            timer.cancel()
            forget()

    def get(self, number: int) -> Job:
        """Errors: ``NotFound``, naming the jobs there are."""
        try:
            return self._jobs[number]
        except KeyError:
            known = ", ".join(map(str, self._jobs)) or "none"
            raise NotFound(f"There is no job {number}. Jobs of this session: {known}.") from None

    def list(self) -> list[JobInfo]:
        return [job.info for job in self._jobs.values()]

    async def wait(
        self, job: Job, refresh_sec: float, cancel: Cancel, on_output: Callable[[], None] = lambda: None
    ) -> None:
        """Until the command has ended, ``refresh_sec`` have passed, or ``cancel`` is set. ``on_output`` is called at
        first and whenever there may be more output."""
        over = asyncio.Event()

        def changed() -> None:
            on_output()
            if not job.running:
                over.set()

        forget = cancel.on_set(over.set)
        job.watchers.append(changed)
        try:
            changed()
            async with asyncio.timeout(refresh_sec):
                await over.wait()
        except TimeoutError:
            return
        finally:
            job.watchers.remove(changed)
            forget()

    async def look(self, job: Job) -> str:
        """What the model is shown of the output now: the beginning at the first look, later the end of what is new."""
        done = not job.running
        # What lies beyond the kept beginning moves while more is dropped: it is new at every look.
        start = min(job.seen, limits(self._cap)[0]) if job.dropped else job.seen
        sample = await asyncio.to_thread(output_file.sample, job.path, start, growing=job.running)
        look = output.later_look if job.seen else output.first_look
        job.seen = start + sample.size
        text = look(sample, done=done, path=str(job.path))
        if job.dropped:
            text += (
                f"\n[{job.dropped:,} bytes from the middle of the output are not kept: it passed {self._cap:,} bytes]"
            )
        return f"{text}\n[output was lost: {job.trouble}]" if job.trouble else text

    async def stop(self, job: Job) -> JobInfo:
        """End the command and all that it started: SIGTERM, and SIGKILL after a second. Returns when they are gone."""
        await self._stop(job, "killed")
        return job.info

    async def close(self) -> None:
        """Kill everything at once; returns within half a second, and a second later where a supervisor does not act."""
        self._closed = True
        links = [(job, job.link) for job in self._jobs.values() if job.link]
        for job, link in links:
            job.verdict = job.verdict or "killed"
            link.hang_up()
        for task in self._tasks:
            task.cancel()
        waits = [asyncio.create_task(link.ended.wait()) for _, link in links]
        if waits:
            _, late = await asyncio.wait(waits, timeout=CLOSE_SECONDS)
            for wait in late:
                wait.cancel()
            await asyncio.gather(*(link.destroy() for _, link in links if not link.ended.is_set()))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _new_job(self, command: str, call_id: str) -> tuple[Job, int]:
        number = max(self._jobs, default=0) + 1
        try:
            directory = self._directory()
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            while True:
                path = directory / _file_name(number)
                try:
                    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                    return Job(number, command, path, call_id), descriptor
                except FileExistsError:
                    number += 1
        except OSError as error:
            raise StorageFailed(f"There is no place for the command's output: {error}.") from error

    def _hear(self, job: Job, line: str, begun: asyncio.Future[None]) -> None:
        match line.split(" ", 1):
            case ["started", pid]:
                job.pid = int(pid)
                try:
                    self._on_event("job/started", self._event(job) | {"pid": job.pid, "command": job.command})
                except Exception as error:
                    # What is not in the log must not go on running.
                    _fail(begun, error)
                else:
                    job.recorded = True
                    _settle(begun)
            case ["size", sizes]:
                job.total, job.dropped = map(int, sizes.split())
                self._changed(job)
            case ["lost", why]:
                job.trouble = why
            case ["exited", rest]:
                status, job.leftovers = map(int, rest.split())
                self._finish(job, job.verdict or "exited", status)

    def _end(self, job: Job, begun: asyncio.Future[None]) -> None:
        job.link = None
        if job.timer:
            job.timer.cancel()
        if job.running or job.leftovers:
            # The supervisor may have been killed itself, and its orphans are ours to find.
            supervisor_link.sweep(job.marker)
        job.leftovers = 0
        if job.running:
            self._finish(job, job.verdict or "lost", None)
        _settle(begun)

    def _finish(self, job: Job, state: State, status: int | None) -> None:
        job.state, job.exit_status = state, status
        job.elapsed = time.monotonic() - job.started
        if job.recorded:
            try:
                self._on_event("job/ended", self._event(job) | {"state": state, "exitStatus": status})
            except Exception:
                log.exception("the end of job %d could not be recorded", job.number)
        self._changed(job)

    def _event(self, job: Job) -> dict[str, Any]:
        return {"job": job.number, "callId": job.call_id}

    def _changed(self, job: Job) -> None:
        for watcher in tuple(job.watchers):
            watcher()

    def _expire(self, job: Job) -> None:
        self._spawn(self._stop(job, "timeout"))

    async def _stop(self, job: Job, verdict: State) -> None:
        link = job.link
        if link is None:
            return
        job.verdict = job.verdict or verdict
        for word, seconds in (("term", TERM_SECONDS), ("kill", KILL_SECONDS)):
            link.send(word)
            try:
                async with asyncio.timeout(seconds):
                    await link.ended.wait()
                    return
            except TimeoutError:
                continue
        await link.destroy()
        if link.ended.is_set():
            log.warning("the supervisor of job %d did not act, and was killed with its job", job.number)
            return
        log.warning("processes of job %d did not end after SIGKILL", job.number)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _file_name(number: int) -> str:
    return f"job-{number}.txt"


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
