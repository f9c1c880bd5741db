"""The agent: one engine, the workspace's sessions, and every command a client can give.

Lives on the session worker's event loop; the server calls in from there and hears through the ``Listener``.
Invariants: one operation (turn, compaction, restore, warm-up) uses the engine at a time; every operation can be
cancelled; no command waits for another session's turn unless it needs the engine.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ds4_lsp.agent import documents, slash
from ds4_lsp.agent.compactor import Compactor
from ds4_lsp.agent.file_commands import FileCommands
from ds4_lsp.agent.kv import Snapshots
from ds4_lsp.agent.meter import Meter
from ds4_lsp.agent.model import NO_MODEL, ModelHost
from ds4_lsp.agent.queue import Queue
from ds4_lsp.agent.runner import Runner
from ds4_lsp.agent.script import Script
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.session_commands import SessionCommands
from ds4_lsp.agent.sessions import Sessions
from ds4_lsp.agent.slash_commands import SlashCommands
from ds4_lsp.agent.trace import Trace
from ds4_lsp.ports import Cancel, Editor, Engine, Listener
from ds4_lsp.protocol import commands as c
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest, NoModel
from ds4_lsp.protocol.settings import Settings

log = logging.getLogger(__name__)

SNAPSHOT_SECONDS = 0.8
"""The process has to be gone two seconds after ``exit``."""

Handler = Callable[[Any, Cancel], Awaitable[c.Wire]]


@dataclass(frozen=True)
class AgentOptions:
    """What the command line and the environment say."""

    trace: Path | None = None
    script: Path | None = None
    context_is_default: bool = True

    @classmethod
    def from_environment(cls, trace: Path | None = None) -> AgentOptions:
        script = os.environ.get("DS4_LSP_SCRIPT")
        return cls(trace=trace, script=Path(script) if script else None)


class Agent:
    """What the server talks to."""

    def __init__(
        self, engine: Engine, editor: Editor, listener: Listener, settings: Settings, options: AgentOptions
    ) -> None:
        self._settings = settings
        self._context_is_default = options.context_is_default
        self._listener = listener
        model = ModelHost(
            engine,
            listener,
            lambda: self._settings.model,
            lambda: self._context_is_default,
            self._refresh,
        )
        self.services = Services(
            engine,
            editor,
            listener,
            lambda: self._settings,
            model,
            Meter(),
            Queue(),
            Script(options.script),
            Trace(options.trace),
        )
        self.snapshots = Snapshots(self.services)
        self.sessions = Sessions(self.services, self.snapshots)
        self.compactor = Compactor(self.services, self.snapshots)
        self.runner = Runner(self.services, self.sessions, self.compactor, self.snapshots)
        files = FileCommands(self.services, self.sessions)
        sessions = SessionCommands(self.services, self.sessions, self.runner, self.snapshots)
        self._handlers: dict[str, Handler] = {
            "ds4.prompt": self._prompt,
            "ds4.compact": self._compact,
            "ds4.interrupt": self._interrupt,
            "ds4.dequeue": self._dequeue,
            "ds4.editQueued": self._edit_queued,
            "ds4.releaseQueued": self._release_queued,
            "ds4.status": self._status,
            "ds4.loadModel": self._load_model,
            "ds4.unloadModel": self._unload_model,
            "ds4.listJobs": self._list_jobs,
            "ds4.stopJob": self._stop_job,
            **sessions.handlers,
            **files.handlers,
        }
        self._slashes = SlashCommands(self.command)
        self.sessions.on_restored = self.runner.restore

    # --- lifecycle ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Resume the workspace's last session, and load the model in the background where the settings say so."""
        self._refresh()
        self.runner.start()
        with suppress(Ds4Error):
            self.sessions.resume()
        if self._settings.model.preload and self.services.model.path is not None:
            self.runner.preload()

    def update_settings(self, settings: Settings, *, context_is_default: bool = True) -> None:
        """Takes effect at once, except what a model is loaded with: that waits for the next load."""
        before, self._settings = self._settings, settings
        if before.model.path != settings.model.path:
            self.services.model.override = None
        self._context_is_default = context_is_default
        self._refresh()
        self.services.model.tell_of_changes()
        if self.services.model.path is None or self.services.engine.info is not None:
            return
        if before.model != settings.model and settings.model.preload:
            self.runner.preload()

    def stop(self) -> None:
        """Cancel what runs, whoever asked for it, and begin nothing any more; what is queued stays in the log."""
        self.runner.halt()

    async def shutdown(self) -> None:
        """Stop everything: the turn, the jobs, the engine; flush and release the sessions. Idempotent.

        The current session's snapshot is written where that takes no longer than ``SNAPSHOT_SECONDS``.
        """
        await self.runner.stop()
        if self.sessions.current is not None:
            with suppress(TimeoutError, Ds4Error):
                async with asyncio.timeout(SNAPSHOT_SECONDS):
                    await self.snapshots.save(self.sessions.current)
                    await self.snapshots.settle()
        await self.sessions.close()
        await self.services.engine.close()
        self.services.trace.close()

    # --- what the server asks -------------------------------------------------------------------------------------

    async def command(self, name: str, arguments: c.Arguments, cancel: Cancel) -> c.Wire:
        """Run one command of ``COMMANDS``. Raises the tree of ``protocol.errors``."""
        return await self._handlers[name](arguments, cancel)

    async def document(self, uri: str) -> str:
        """The text of a ``ds4:`` URI: a session's transcript, or a checkpoint beside what it shadows."""
        return documents.render(self.sessions, uri)

    def cancel_progress(self, key: str) -> None:
        """The user pressed the cancel button of the progress ``key``."""
        if key == "compaction":
            self.compactor.cancel_running()
            return
        if key == "load":
            if self.services.model.loading is not None:
                self.services.model.loading.set()
            return
        self.runner.cancel_running()

    @property
    def health(self) -> tuple[Literal["ok", "warning", "error"], bool, str | None]:
        """(health, quiescent, message) for ``experimental/serverStatus``."""
        state = self.services.meter.state
        if state == "noModel":
            return "warning", True, NO_MODEL
        if state == "error":
            return "error", True, self.services.model.error
        return "ok", state == "idle", None

    # --- commands -------------------------------------------------------------------------------------------------

    async def _prompt(self, arguments: c.PromptArguments, cancel: Cancel) -> c.Wire:
        command = slash.parse(arguments.text)
        if command is not None:
            return await self._slash(command, arguments, cancel)
        if not arguments.text.strip():
            raise InvalidRequest("text: the prompt is empty. Type what the agent should do.")
        if self.services.model.path is None:
            raise NoModel(NO_MODEL)
        runtime = self.sessions.get_or_create(arguments.session_id)
        context = [place.model_dump(mode="json") for place in arguments.context]
        pending = self.runner.submit(runtime, arguments.text, context, waited=arguments.wait)
        if not arguments.wait:
            return c.PromptResult(
                session_id=runtime.id, turn=self.runner.expected_turn(pending), queued=self.runner.is_behind(pending)
            )
        forget = cancel.on_set(lambda: self.runner.cancel(pending))
        try:
            return await asyncio.shield(pending.done)
        finally:
            forget()

    async def _slash(self, command: slash.Slash, arguments: c.PromptArguments, cancel: Cancel) -> c.Wire:
        work = self._acted(command, arguments.session_id, cancel)
        if arguments.wait:
            return await work
        self.runner.tell_later(work)
        runtime = self.sessions.current
        return c.PromptResult(
            session_id=arguments.session_id or (runtime.id if runtime else ""),
            turn=runtime.turn if runtime else 0,
            queued=False,
        )

    async def _acted(self, command: slash.Slash, session_id: str | None, cancel: Cancel) -> c.PromptResult:
        text, about = await self._slashes.act(command, session_id, cancel)
        current = self.sessions.current
        return c.PromptResult(
            session_id=about or session_id or (current.id if current else ""),
            turn=current.turn if current else 0,
            stop_reason="end",
            text=text,
            usage=c.Usage(),
        )

    async def _compact(self, arguments: c.CompactArguments, cancel: Cancel) -> c.Wire:
        runtime = self.sessions.get(arguments.session_id)
        return await self.runner.compact(runtime, arguments.instructions, cancel)

    async def _interrupt(self, arguments: c.InterruptArguments, cancel: Cancel) -> c.Wire:
        session_id = None if arguments.session_id is None else self.sessions.get(arguments.session_id).id
        return c.InterruptResult(interrupted=self.runner.interrupt(session_id, arguments.send_queued))

    async def _dequeue(self, arguments: c.QueuedArguments, cancel: Cancel) -> c.Wire:
        removed = self.runner.dequeue(self.sessions.get(arguments.session_id), arguments.seq)
        return c.DequeueResult(removed=removed)

    async def _edit_queued(self, arguments: c.EditQueuedArguments, cancel: Cancel) -> c.Wire:
        if not arguments.text.strip():
            raise InvalidRequest("text: the prompt is empty. Take it back with ds4.dequeue instead.")
        if slash.parse(arguments.text) is not None:
            raise InvalidRequest(
                "text: a command cannot wait in the queue. Take the prompt back, and send the command."
            )
        self.runner.edit(self.sessions.get(arguments.session_id), arguments.seq, arguments.text)
        return c.EditQueuedResult(seq=arguments.seq)

    async def _release_queued(self, arguments: c.QueuedArguments, cancel: Cancel) -> c.Wire:
        released = self.runner.release(self.sessions.get(arguments.session_id), arguments.seq)
        return c.ReleaseQueuedResult(released=released)

    async def _status(self, arguments: c.NoArguments, cancel: Cancel) -> c.Wire:
        services, meter = self.services, self.services.meter
        runtime, info = self.sessions.current, services.engine.info
        size = info.context_size if info else self._settings.model.context_size
        used = 0 if runtime is None else services.used(runtime)
        return c.StatusResult(
            state=meter.state,
            model=services.model.describe(self._settings),
            context=c.ContextUse(used=used, size=size, percent=round(100 * used / size, 1)),
            prefill=meter.prefill,
            generation=meter.generation,
            session=None if runtime is None else self.sessions.describe(runtime),
            queue=[
                {"sessionId": item.session_id, "text": item.text, "seq": item.seq, "held": item.held}
                for item in services.queue.waiting()
            ],
            jobs=[] if runtime is None else runtime.jobs.list(),
            error=services.model.error,
        )

    async def _load_model(self, arguments: c.LoadModelArguments, cancel: Cancel) -> c.Wire:
        await self.runner.load_model(arguments.path, cancel)
        return c.ModelResult(model=self.services.model.describe(self._settings))

    async def _unload_model(self, arguments: c.NoArguments, cancel: Cancel) -> c.Wire:
        await self.runner.unload_model()
        return c.ModelResult(model=self.services.model.describe(self._settings))

    async def _list_jobs(self, arguments: c.NoArguments, cancel: Cancel) -> c.Wire:
        runtime = self.sessions.current
        return c.ListJobsResult(jobs=[] if runtime is None else runtime.jobs.list())

    async def _stop_job(self, arguments: c.StopJobArguments, cancel: Cancel) -> c.Wire:
        runtime = self.sessions.get(None)
        await runtime.jobs.stop(runtime.jobs.get(arguments.job))
        return c.ListJobsResult(jobs=runtime.jobs.list())

    def _refresh(self) -> None:
        """Recompute the resting state; a running operation keeps its own."""
        self.services.rest()
