"""Who may use the engine, and when: the queue of prompts, compactions between turns, loading, warm-up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from ds4_lsp.agent.attached import attach, told
from ds4_lsp.agent.compactor import Compactor
from ds4_lsp.agent.kv import Snapshots
from ds4_lsp.agent.queue import Pending
from ds4_lsp.agent.queue_told import QueueTold
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.sessions import Sessions
from ds4_lsp.agent.turn import TurnRunner
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import CompactResult, PromptResult
from ds4_lsp.protocol.errors import Busy, Cancelled, Ds4Error, NotFound, StorageFailed
from ds4_lsp.session.events import Event

log = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 0.3
"""A cancelled turn ends within a batch. The end of the process waits that long for what the log has to say of it."""


def _discard(_value: object) -> None:
    """For a callback whose value nobody wants."""


class Runner:
    """States: idle, or running one operation, whose cancel is ``_running``. All on the worker's loop."""

    def __init__(self, services: Services, sessions: Sessions, compactor: Compactor, snapshots: Snapshots) -> None:
        self._services = services
        self._sessions = sessions
        self._compactor = compactor
        self._snapshots = snapshots
        self._turns = TurnRunner(services, compactor)
        self._engine_free = asyncio.Lock()
        self._running: Cancel | None = None
        self._running_session: str | None = None
        self._turn: Pending | None = None
        self._compacting = False
        """Whether the operation is a compaction that was asked for."""
        self._over = asyncio.Event()
        """Set while no operation runs."""
        self._over.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = QueueTold(services.listener)

    # --- lifecycle ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._spawn(self._serve_queue())

    def preload(self) -> None:
        """Load the model and evaluate the system prompt before the first prompt needs either."""
        self._spawn(self._quietly(self._preload()))

    def halt(self) -> None:
        """Cancel what runs and what waits for the engine; nothing starts any more. What is queued stays in the log."""
        self._services.queue.closed = True
        if self._services.model.loading is not None:
            self._services.model.loading.set()
        self._compactor.cancel_waiting(None)
        self.cancel_running()

    async def stop(self) -> None:
        """:meth:`halt`, and let the turn end in the log."""
        self.halt()
        if self._turn is not None:
            await asyncio.wait({self._turn.done}, timeout=LAST_WORDS_SECONDS)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LAST_WORDS_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- prompts --------------------------------------------------------------------------------------------------

    def submit(self, runtime: Runtime, text: str, context: list[dict[str, Any]], *, waited: bool) -> Pending:
        """Queue a prompt, durably: it is in the log when this returns, or refused and not there."""
        event = runtime.session.append("prompt/queued", {"text": text, "context": context})
        try:
            runtime.session.sync()
        except StorageFailed:
            with suppress(StorageFailed):
                runtime.session.append("prompt/dropped", {"queued": event.seq, "reason": "not durable"})
            raise
        done: asyncio.Future[PromptResult] = asyncio.get_running_loop().create_future()
        pending = Pending(runtime.id, event.seq, text, context, Cancel(), done, waited=waited)
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._services.queue.put(pending)
        if self.is_behind(pending):
            self._services.listener.event(runtime.id, self.expected_turn(pending), "queued", seq=event.seq, text=text)
        self._tell_queue(runtime)
        return pending

    def restore(self, runtime: Runtime, event: Event) -> None:
        """Queue a prompt that an earlier server did not get to; it waits until the user releases it."""
        done: asyncio.Future[PromptResult] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        pending = Pending(
            runtime.id, event.seq, event.data["text"], event.data.get("context") or [], Cancel(), done, waited=False
        )
        self._services.queue.restore(pending)
        self._tell_queue(runtime)

    def dequeue(self, runtime: Runtime, seq: int) -> bool:
        """Take a prompt back before it runs; False where it does not wait (any more)."""
        pending = self._services.queue.find(runtime.id, seq)
        if pending is None:
            return False
        self.cancel(pending)
        return True

    def edit(self, runtime: Runtime, seq: int, text: str) -> None:
        """Change a prompt that waits. Errors: ``NotFound``, ``StorageFailed`` (it is as it was then)."""
        pending = self._waiting(runtime, seq)
        runtime.session.append("prompt/edited", {"queued": seq, "text": text})
        runtime.session.sync()
        pending.text = text
        self._tell_queue(runtime)

    def release(self, runtime: Runtime, seq: int) -> bool:
        """Let one held prompt run in its turn; False where it was not held. Errors: ``NotFound``."""
        pending = self._waiting(runtime, seq)
        held = pending.held
        self._services.queue.release(pending)
        self._tell_queue(runtime)
        return held

    def _waiting(self, runtime: Runtime, seq: int) -> Pending:
        pending = self._services.queue.find(runtime.id, seq)
        if pending is None:
            raise NotFound(f"Prompt {seq} does not wait in the queue: it has begun, or was taken back.", seq=seq)
        return pending

    def _tell_queue(self, runtime: Runtime) -> None:
        waiting = self._services.queue.waiting(runtime.id)
        self._told.tell(
            runtime.id,
            runtime.session.state.last_turn + 1,
            [item for item in waiting if item.held or self.is_behind(item)],
        )

    def is_behind(self, pending: Pending) -> bool:
        """Whether something else has to end before ``pending`` can start."""
        return self._turn is not None or self._compacting or self._services.queue.next() is not pending

    def is_used(self, runtime: Runtime) -> bool:
        """Whether anything runs in the session, or waits to."""
        waits = self._services.queue.waiting(runtime.id) or self._compactor.waiting(runtime) is not None
        return runtime.cancel is not None or bool(waits)

    def expected_turn(self, pending: Pending) -> int:
        runtime = self._sessions.get(pending.session_id)
        waiting = self._services.queue.waiting(pending.session_id)
        return runtime.session.state.last_turn + 1 + (waiting.index(pending) if pending in waiting else 0)

    def cancel(self, pending: Pending) -> None:
        """Stop ``pending``, wherever it is. Its reply is then sent as usual."""
        turn = self.expected_turn(pending)
        if self._services.queue.remove(pending):
            try:
                self._drop(pending, "cancelled")
            except StorageFailed as error:
                log.warning("a cancelled prompt may come back after a restart: %s", error)
            self._tell_queue(self._sessions.get(pending.session_id))
            pending.done.set_result(PromptResult(session_id=pending.session_id, turn=turn, stop_reason="cancelled"))
            return
        pending.cancel.set()

    def cancel_running(self) -> bool:
        if self._running is None or self._running.is_set:
            return False
        self._running.set()
        return True

    def interrupt(self, session_id: str | None, send_queued: bool) -> bool:
        """Stop what runs (in that session); queued prompts wait until they are released, unless ``send_queued``.

        A prompt or a compaction that waits for the model, or for the warm-up, is what the user sees running.
        """
        ours = session_id is None or session_id == self._running_session
        interrupted = ours and self.cancel_running()
        if send_queued:
            self._release_all(session_id)
            return interrupted
        if not interrupted and self._turn is None:
            interrupted = self._compactor.cancel_waiting(session_id)
        if self._turn is None and not self._compactor.running:
            head = self._services.queue.next(session_id)
            if head is not None:
                self.cancel(head)
                interrupted = True
        if interrupted:
            self._services.queue.hold(session_id)
            self._tell_queues(session_id)
        return interrupted

    def _release_all(self, session_id: str | None) -> None:
        self._services.queue.release(*self._services.queue.waiting(session_id))
        self._tell_queues(session_id)

    def _tell_queues(self, session_id: str | None) -> None:
        for name in {item.session_id for item in self._services.queue.waiting(session_id)}:
            self._tell_queue(self._sessions.get(name))

    def _drop(self, pending: Pending, why: str) -> None:
        runtime = self._sessions.get(pending.session_id)
        if pending.seq not in runtime.session.state.queue:
            return
        runtime.session.append("prompt/dropped", {"queued": pending.seq, "reason": why})
        runtime.session.sync()

    async def _serve_queue(self) -> None:
        queue = self._services.queue
        while True:
            pending = await queue.head()
            try:
                async with self._engine_free:
                    await self._serve(pending)
            except Exception as error:
                if not isinstance(error, Ds4Error):
                    log.exception("a prompt failed before its turn")
                self._fail(pending, error)

    async def _serve(self, pending: Pending) -> None:
        """Runs with the engine free. The prompt may have been cancelled while that was waited for."""
        queue = self._services.queue
        if queue.closed:
            return
        await self._ready(Cancel())
        if queue.closed or pending.held or not queue.remove(pending):
            return
        runtime = self._sessions.get(pending.session_id)
        self._turn = pending
        self._tell_queue(runtime)
        try:
            await self._operate(runtime, pending.cancel, self._play(runtime, pending))
        finally:
            self._turn = None

    async def _play(self, runtime: Runtime, pending: Pending) -> None:
        async def prepare() -> None:
            services = self._services
            attached = await attach(services, runtime, pending.text, pending.context, pending.cancel)
            pending.context, pending.preface = attached.places, attached.preface
            if attached.items:
                services.emit(runtime, "context", items=attached.items, text=told(attached.items))
            await self._snapshots.prepare(runtime, pending.cancel)

        result = await self._turns.run(runtime, pending, prepare)
        if not pending.done.done():
            pending.done.set_result(result)
        await self._snapshots.after_turn(runtime)

    def _fail(self, pending: Pending, error: Exception) -> None:
        turn = self.expected_turn(pending)
        if self._services.queue.remove(pending):
            self._tell_queue(self._sessions.get(pending.session_id))
        try:
            self._drop(pending, str(error))
        except Ds4Error:
            log.exception("the dropped prompt could not be recorded")
        if not pending.done.done():
            pending.done.set_exception(error)
        if not pending.waited or not isinstance(error, Ds4Error):
            self._services.listener.message("error", f"DS4: {error}")
            self._services.listener.event(pending.session_id, turn, "turn.end", stopReason="error", error=str(error))

    # --- everything else that uses the engine -----------------------------------------------------------------------

    async def compact(self, runtime: Runtime, instructions: str | None, cancel: Cancel) -> CompactResult:
        """Compact at the next safe point: between two rounds of the running turn, or when nothing runs."""
        request = self._compactor.request(runtime, instructions, Cancel())
        self._spawn(self._compact(runtime))
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        request.askers += 1

        def give_up() -> None:
            request.askers -= 1
            if not request.askers:
                request.cancel.set()
            elif not gone.done():
                gone.set_result(None)

        forget = cancel.on_set(give_up)
        try:
            await asyncio.wait((request.done, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            forget()
        if request.done.done():
            return request.done.result()
        return CompactResult(compacted=False, reason="cancelled")

    async def _compact(self, runtime: Runtime) -> None:
        request = self._compactor.waiting(runtime)
        if request is None:
            return
        try:
            async with self._free(request.cancel):
                if self._compactor.waiting(runtime) is not request:
                    return
                if runtime.session.closed:
                    raise NotFound(f"Session {runtime.id} was deleted or closed meanwhile.", sessionId=runtime.id)
                self._compacting = True
                try:
                    await self._ready(request.cancel)
                    await self._operate(runtime, request.cancel, self._compact_now(runtime, request.cancel))
                finally:
                    self._compacting = False
        except Cancelled:
            self._compactor.withdraw(runtime, request)
        except Exception as error:
            self._compactor.refuse(runtime, error)

    async def _compact_now(self, runtime: Runtime, cancel: Cancel) -> None:
        await self._snapshots.prepare(runtime, cancel)
        await self._compactor.serve(runtime)
        await self._snapshots.after_turn(runtime)

    # --- the model and the KV -------------------------------------------------------------------------------------

    async def load_model(self, path: str | None, cancel: Cancel) -> None:
        if self._turn is not None:
            raise Busy("A turn is running. Interrupt it first, then load the model.")
        async with self._free(cancel):
            await self._services.model.reload(path, cancel)

    async def unload_model(self) -> None:
        if self._turn is not None:
            raise Busy("A turn is running. Interrupt it first, then unload the model.")
        async with self._engine_free:
            await self._services.model.unload()

    async def save(self, runtime: Runtime, cancel: Cancel) -> bool:
        """Write the session's KV snapshot when nothing else uses the engine. Raises ``Cancelled`` while it waits."""
        async with self._free(cancel):
            await self._services.transcript(runtime)
            writing = await self._snapshots.copy(runtime)
        return writing is not None and await self._snapshots.written(writing)

    def save_soon(self, runtime: Runtime) -> None:
        self._spawn(self._quietly(self._save(runtime)))

    async def _save(self, runtime: Runtime) -> None:
        async with self._engine_free:
            await self._snapshots.copy(runtime)

    def prepare_soon(self, runtime: Runtime) -> None:
        """Bring the KV near a session that was switched to, unless a prompt does that anyway."""
        if self._services.engine.info is not None:
            self._spawn(self._quietly(self._prepare(runtime)))

    async def _prepare(self, runtime: Runtime) -> None:
        async with self._engine_free:
            if self._services.queue.items or self._services.engine.info is None or runtime.session.closed:
                return
            cancel = Cancel()
            await self._operate(runtime, cancel, self._snapshots.prepare(runtime, cancel))

    def tell_later(self, work: Coroutine[Any, Any, PromptResult]) -> None:
        """Do what nobody waits for, and show what comes of it."""

        async def tell() -> None:
            self._services.listener.message("info", (await work).text)

        self._spawn(self._quietly(tell()))

    async def _quietly(self, work: Any) -> None:
        """What nobody waits for: its failure is told, not raised."""
        try:
            await work
        except Cancelled:
            log.info("cancelled")
        except Ds4Error as error:
            self._services.listener.message("error", error.message)
        except Exception as error:
            log.exception("what nobody waits for failed")
            self._services.listener.message("error", f"DS4: {type(error).__name__}: {error}")

    @asynccontextmanager
    async def _free(self, cancel: Cancel) -> AsyncIterator[None]:
        """The engine, for an operation that may be cancelled while it waits for it."""
        acquiring = asyncio.ensure_future(self._engine_free.acquire())
        forget = cancel.on_set(lambda: _discard(acquiring.cancel()))
        try:
            await acquiring
        except asyncio.CancelledError:
            if not cancel.is_set:
                raise
            raise Cancelled("Cancelled while something else used the engine.") from None
        finally:
            forget()
        try:
            yield
        finally:
            self._engine_free.release()

    async def _operate(self, runtime: Runtime, cancel: Cancel, work: Any) -> None:
        if self._services.queue.closed:
            work.close()
            raise Cancelled("The server is shutting down.")
        self._running, self._running_session = cancel, runtime.id
        self._services.operating = True
        self._over.clear()
        runtime.cancel = cancel
        try:
            await work
        finally:
            self._running = self._running_session = None
            self._services.operating = False
            self._over.set()
            runtime.cancel = None
            self._services.rest()

    async def _ready(self, cancel: Cancel) -> None:
        """A loaded model, whose session is noted in the log."""
        if self._services.queue.closed:
            raise Cancelled("The server is shutting down.")
        await self._services.model.ensure(cancel)

    async def _preload(self) -> None:
        async with self._engine_free:
            await self._ready(Cancel())
            runtime = self._sessions.current
            if runtime is not None and not self._services.queue.items:
                cancel = Cancel()
                await self._operate(runtime, cancel, self._snapshots.prepare(runtime, cancel))
