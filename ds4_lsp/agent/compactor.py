"""When a session compacts: before a prompt, between rounds, for a result that does not fit, or when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from ds4_lsp.agent.compaction_host import CompactionHost
from ds4_lsp.agent.kv import Snapshots
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.compaction import (
    Compacted,
    Compactions,
    Facts,
    Failed,
    Nothing,
    Outcome,
    Pruned,
    Trigger,
    jobs_notice,
    request_tokens,
    triggers,
)
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import CompactResult
from ds4_lsp.tools.base import ToolResult
from ds4_lsp.tools.fitting import fit_part

LEAST_REPLY = 64
"""Tokens of a reply that a prompt must leave room for, beside what is kept for a summary."""

LATE = (
    "A compaction was running already: this request joined it, and what it asked to keep in mind came too late for the "
    "summary. Send it again when the compaction has ended."
)


@dataclass(eq=False)
class Request:
    """A ``ds4.compact`` that waits for a safe point. Several that wait for the same session are one."""

    instructions: str | None
    cancel: Cancel
    done: asyncio.Future[CompactResult]
    askers: int = 0
    """Those who wait for it; it is cancelled when the last of them gives up."""


class Compactor:
    """Drives one :class:`Compactions` per open session."""

    def __init__(self, services: Services, snapshots: Snapshots) -> None:
        self._services = services
        self._snapshots = snapshots
        self._running: Compactions | None = None
        self._stop: tuple[str, Cancel] | None = None
        """Session and cancel of the compaction that runs."""
        self._requests: dict[str, Request] = {}

    # --- manual ---------------------------------------------------------------------------------------------------

    def request(self, runtime: Runtime, instructions: str | None, cancel: Cancel) -> Request:
        """Ask for a compaction at the next safe point, or join the one that waits or runs already. What is to be kept
        in mind adds up while it waits; for one that runs it comes too late, and the user is told so."""
        request = self._requests.get(runtime.id)
        late = runtime.compaction is not None and runtime.compaction[1].running
        if instructions and late:
            self._warn(runtime, LATE)
        elif instructions and request is not None:
            request.instructions = "\n".join(filter(None, (request.instructions, instructions)))
        if request is None:
            done: asyncio.Future[CompactResult] = asyncio.get_running_loop().create_future()
            # A failure nobody waits for any more is in the log and in the session's events.
            done.add_done_callback(lambda future: future.cancelled() or future.exception())
            request = Request(instructions, cancel, done)
            self._requests[runtime.id] = request
            if self._stop is not None and self._stop[0] == runtime.id:
                cancel.on_set(self._stop[1].set)
        return request

    def waiting(self, runtime: Runtime) -> Request | None:
        return self._requests.get(runtime.id)

    def cancel_waiting(self, session_id: str | None) -> bool:
        """Cancel what was asked for, in that session or in all; whether there was anything to cancel."""
        found = [
            request
            for session, request in self._requests.items()
            if session_id in (None, session) and not request.cancel.is_set
        ]
        for request in found:
            request.cancel.set()
        return bool(found)

    def withdraw(self, runtime: Runtime, request: Request) -> None:
        """``request`` was cancelled before its compaction began. One that runs by now says itself how it ends."""
        running = runtime.compaction is not None and runtime.compaction[1].running
        if self._requests.get(runtime.id) is request and not running:
            self._answer(runtime, lambda done: done.set_result(_result(Failed("cancelled", cancelled=True))))

    def refuse(self, runtime: Runtime, error: Exception) -> None:
        """What waits cannot be done at all."""
        self._answer(runtime, lambda done: done.set_exception(error))

    def _answer(self, runtime: Runtime, answer: Callable[[asyncio.Future[CompactResult]], object]) -> None:
        request = self._requests.pop(runtime.id, None)
        if request is not None and not request.done.done():
            answer(request.done)

    async def serve(self, runtime: Runtime) -> None:
        """Run the compaction that was asked for, if any. Never raises: who asked is told."""
        request = self._requests.get(runtime.id)
        if request is None or request.done.done():
            return
        # Who stops the turn stops the compaction that it is held up by.
        forget = None if runtime.cancel is None else runtime.cancel.on_set(request.cancel.set)
        with suppress(Exception):
            await self._run(runtime, "manual", cancel=request.cancel)
        if forget is not None:
            forget()

    @property
    def running(self) -> bool:
        return self._running is not None

    def cancel_running(self) -> bool:
        """Cancel the compaction that runs, and nothing else."""
        return self._running is not None and self._running.cancel()

    # --- automatic ------------------------------------------------------------------------------------------------

    async def soft(self, runtime: Runtime, coming: int = 0) -> None:
        """Before a request that adds ``coming`` tokens to the transcript: compact where it would come too near to the
        context. Also the safe point for a compaction that was asked for."""
        await self.serve(runtime)
        if not self._services.settings().compaction.auto:
            return
        host, compactions = self._of(runtime)
        transcript = await host.refresh()
        needed = len(await transcript.tokens(runtime.session.surface)) + coming
        decision = compactions.soft(needed)
        self._warn(runtime, decision.message)
        if decision.action == "compact":
            await self._softly(runtime, compactions, needed)

    async def _softly(self, runtime: Runtime, compactions: Compactions, needed: int) -> bool:
        outcome = await self._run(runtime, "soft", cancel=self._linked(runtime), needed=needed)
        if isinstance(outcome, Failed) and outcome.cancelled and not _cancelled(runtime):
            compactions.declined(needed)
        _raise_engine_failure(outcome)
        return isinstance(outcome, Compacted | Pruned)

    async def relieve(self, runtime: Runtime, trigger: Trigger, needed: int | None = None) -> bool:
        """Compact because there is no other way on; whether it freed anything. ``needed``: tokens of the request that
        does not fit, where more than the transcript."""
        if not self._services.settings().compaction.auto:
            return False
        host, compactions = self._of(runtime)
        # What cannot help for long is told of, and done all the same: the turn would end here.
        self._warn(runtime, compactions.soft(needed or host.context).message)
        outcome = await self._run(runtime, trigger, cancel=self._linked(runtime), needed=needed)
        _raise_engine_failure(outcome)
        return isinstance(outcome, Compacted | Pruned)

    def _warn(self, runtime: Runtime, text: str) -> None:
        if text:
            self._services.listener.message("warning", f"DS4: {text}")
            self._services.tell(runtime, text)

    async def fit(self, runtime: Runtime, call_id: str, name: str, result: ToolResult) -> ToolResult:
        """What is to be appended for ``result``, so that the model can read it and answer: the whole, after one
        compaction where the context would come too full; else a part that fits and says so; else a tool error with
        both sizes. Nothing is appended yet, so that no compaction can take away what was never read."""
        host, compactions = self._of(runtime)
        transcript = await host.refresh()

        async def framed(text: str) -> int:
            return await transcript.result_size(call_id, name, text, ok=result.ok)

        limits, size = compactions.limits, await framed(result.text)
        request = await request_tokens(host)
        used = len(await transcript.tokens(runtime.session.surface))
        room = triggers.result_room(used, limits, request)
        if await self._crowds(runtime, compactions, used + size, fits=size <= room):
            await host.refresh()
            used = len(await transcript.tokens(runtime.session.surface))
            room = triggers.result_room(used, limits, request)
        if size <= room:
            return result
        part = await fit_part(result, room, framed) if room > 0 else None
        if part is not None:
            return part
        return ToolResult(triggers.too_large(name, size, room, limits), ok=False, data=result.data)

    async def _crowds(self, runtime: Runtime, compactions: Compactions, needed: int, *, fits: bool) -> bool:
        """Compact before a result that would bring the transcript to ``needed`` tokens, where that is called for;
        whether the transcript changed."""
        if not fits:
            return await self.relieve(runtime, "hard", needed)
        decision = compactions.soft(needed)
        self._warn(runtime, decision.message)
        return decision.action == "compact" and await self._softly(runtime, compactions, needed)

    async def full(self, runtime: Runtime) -> bool:
        """Whether not even one token of a reply may be generated before something is freed."""
        transcript = await self._services.transcript(runtime)
        last = runtime.session.surface.events[-1:]
        opening, _thinking = await transcript.assistant_open(self._services.settings().thinks, *last)
        used = len(await transcript.tokens(runtime.session.surface)) + len(opening)
        return await self.budget(runtime, used) <= 0

    async def budget(self, runtime: Runtime, transcript: int) -> int:
        """Most tokens that a reply may have on a transcript of ``transcript`` tokens."""
        host, compactions = self._of(runtime)
        if not self._services.settings().compaction.auto:
            return max(0, host.context - transcript - 1)
        await host.refresh()
        return triggers.generation_room(transcript, compactions.limits, await request_tokens(host))

    async def kept_free(self, runtime: Runtime) -> int:
        """Tokens that a prompt must leave free: to be answered, and to ask for a summary after that."""
        host, compactions = self._of(runtime)
        limits = compactions.limits
        if not limits.auto:
            return limits.answer_room
        await host.refresh()
        return max(limits.answer_room, triggers.generation_reserve(limits, await request_tokens(host)) + LEAST_REPLY)

    # --- one compaction -------------------------------------------------------------------------------------------

    async def _run(
        self,
        runtime: Runtime,
        trigger: Trigger,
        *,
        cancel: Cancel,
        needed: int | None = None,
    ) -> Outcome:
        """Whoever asked for a compaction, before or while this one runs, gets its outcome: also of an automatic one."""
        host, compactions = self._of(runtime)
        asked = self._requests.get(runtime.id)
        before = self._services.meter.state
        self._services.enter(runtime, "compacting")
        self._running, self._stop = compactions, (runtime.id, cancel)
        if asked is not None and asked.cancel is not cancel:
            asked.cancel.on_set(cancel.set)
        try:
            await host.refresh()
            asked = self._requests.get(runtime.id)
            outcome = await compactions.run(
                trigger,
                cancel=cancel,
                instructions=asked.instructions if asked else None,
                needed=needed,
                # Who asks for a compaction gets a summary.
                prune=asked is None,
            )
            self._answer(runtime, lambda done: done.set_result(_result(outcome)))
        except asyncio.CancelledError:
            self._answer(runtime, lambda done: done.cancel())
            raise
        except Exception as error:
            self.refuse(runtime, error)
            raise
        finally:
            self._running = self._stop = None
            self._services.enter(runtime, before)
        if isinstance(outcome, Compacted):
            self._report_jobs(runtime)
        if isinstance(outcome, Compacted | Pruned) and outcome.rebuild_error is None:
            self._snapshots.note_compaction(runtime)
        return outcome

    def _of(self, runtime: Runtime) -> tuple[CompactionHost, Compactions]:
        if runtime.compaction is None:
            host = CompactionHost(self._services, runtime, lambda: self._snapshots.save(runtime))
            runtime.compaction = (host, Compactions(host))
        return runtime.compaction

    @staticmethod
    def _report_jobs(runtime: Runtime) -> None:
        facts = Facts()
        for event in runtime.session.events():
            facts.apply(event)
        notice = jobs_notice(facts)
        if notice:
            runtime.notices.append(notice)

    @staticmethod
    def _linked(runtime: Runtime) -> Cancel:
        """A cancel of its own that follows the turn's: cancelling the compaction alone lets the turn go on."""
        own = Cancel()
        if runtime.cancel is not None:
            runtime.cancel.on_set(own.set)
        return own


def _cancelled(runtime: Runtime) -> bool:
    return runtime.cancel is not None and runtime.cancel.is_set


def _raise_engine_failure(outcome: Outcome) -> None:
    if isinstance(outcome, Compacted | Pruned) and outcome.rebuild_error is not None:
        raise outcome.rebuild_error


def _result(outcome: Outcome) -> CompactResult:
    match outcome:
        case Compacted(result=result):
            return CompactResult(compacted=True, **result.model_dump())
        case Pruned(before_tokens=before, after_tokens=after):
            return CompactResult(
                compacted=False,
                reason=f"tool results were shortened instead: {before} → {after} tokens",
                before_tokens=before,
                after_tokens=after,
                trigger="manual",
            )
        case Failed(reason=reason) | Nothing(reason=reason):
            return CompactResult(compacted=False, reason=reason)
