"""One turn: a prompt, rounds of sampling and tools, an end. Every path appends one ``turn/end``."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ds4_lsp.agent.calls import CANCELLED, CallRunner, settle
from ds4_lsp.agent.compactor import Compactor
from ds4_lsp.agent.nudges import (
    ONLY_THOUGHT,
    SILENT,
    TOLD,
    UNCHANGED,
    UNREADABLE,
    Nudges,
    claims_a_change,
    is_unread_call,
)
from ds4_lsp.agent.queue import Pending
from ds4_lsp.agent.rendering import user_text
from ds4_lsp.agent.reply import Reply
from ds4_lsp.agent.round import RoundRunner
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.transcript import is_large
from ds4_lsp.chat import render
from ds4_lsp.compaction import Trigger
from ds4_lsp.ports import Generated
from ds4_lsp.protocol.commands import PromptResult, StopReason, ToolCallSummary, Usage
from ds4_lsp.protocol.errors import Cancelled, ContextTooSmall, Ds4Error, StorageFailed

log = logging.getLogger(__name__)

COMPLAINTS_BEFORE_GIVING_UP = 5
"""Replies in a row whose calls could not be read before the turn ends."""

CUT = "[The reply was cut because the context was nearly full. Older conversation is now a checkpoint. Continue.]"

REPEATED = "[Stopped: the reply repeated itself and was cut. Rephrase the request, or raise ds4.sampling.temperature.]"

FULL = (
    "[Stopped: the context is full, and compaction could not free enough of it. "
    "Start a new session with /new, or raise ds4.model.contextSize.]"
)

FULL_BY_HAND = (
    "[Stopped: the context is full, and ds4.compaction.auto is off, so nothing was compacted. Nothing is lost: "
    '/compact replaces the older part by a summary, and a word like "continue" goes on from there.]'
)


NO_ROOM = (
    "The engine has no room left: {}. Try /compact, start a new session with /new, or raise ds4.model.contextSize."
)

_RELIEFS: tuple[Trigger, ...] = ("hard", "overflow")
_WAYS_ON: tuple[Trigger, ...] = ("generation", "overflow")

Prepare = Callable[[], Awaitable[None]]
"""Looks up what the prompt points at, and brings the KV near the session."""


@dataclass
class Outcome:
    """What the turn has come to so far."""

    text: list[str] = field(default_factory=list)
    calls: list[ToolCallSummary] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    """Calls, with their tools, that the user was told of: those that have a result too are in ``calls``."""
    usage: Usage = field(default_factory=Usage)
    stop: StopReason = "end"
    error: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class Watch:
    """What is counted over the replies of one turn. ``complaints``: of replies in a row that held no readable call."""

    complaints: int = 0
    nudges: Nudges = field(default_factory=Nudges)


class TurnRunner:
    """Runs turns of any session, one at a time."""

    def __init__(self, services: Services, compactor: Compactor) -> None:
        self._services = services
        self._compactor = compactor
        self._rounds = RoundRunner(services, compactor)
        self._calls = CallRunner(services, compactor)

    async def run(self, runtime: Runtime, pending: Pending, prepare: Prepare) -> PromptResult:
        """Never raises for what happens inside the turn; raises ``StorageFailed`` when it could not even begin."""
        services = self._services
        runtime.cancel = pending.cancel
        outcome = Outcome()
        self._close_earlier(runtime)
        start = runtime.session.append("turn/start", {"turn": runtime.session.next_turn(), "queued": pending.seq})
        # Not before it is in the log: what is logged meanwhile, such as a job's end, is of the turn before.
        runtime.turn = start.data["turn"]
        services.emit(runtime, "turn.start", seq=start.seq, text=pending.text)
        services.enter(runtime, "prefill")
        services.listener.progress("turn", "DS4", message="thinking")
        try:
            await self._play(runtime, pending, outcome, prepare)
        except Cancelled:
            outcome.stop = "cancelled"
        except Ds4Error as error:
            outcome.stop, outcome.error = "error", error.message
        except Exception as error:
            log.exception("the turn failed")
            outcome.stop, outcome.error = "error", f"Internal error: {type(error).__name__}: {error}. The log has more."
        finally:
            runtime.cancel = None
        return self._end(runtime, outcome)

    @staticmethod
    def _close_earlier(runtime: Runtime) -> None:
        """End a turn whose end could not be written, for want of disk space."""
        settle(runtime)
        compaction = runtime.session.state.compaction
        if compaction is not None:
            outcome = {"recovered": True} if compaction.replaced else {"error": "orphaned"}
            runtime.session.append("compact/end", {"turn": compaction.turn, **outcome})
        earlier = runtime.session.state.turn
        if earlier is not None:
            runtime.session.append("turn/end", {"turn": earlier.turn, "stopReason": "error", "interrupted": True})

    def _end(self, runtime: Runtime, outcome: Outcome) -> PromptResult:
        services = self._services
        usage = outcome.usage
        settled: dict[str, tuple[int, str]] = {}
        try:
            settled = settle(runtime)
            end: dict[str, Any] = {
                "turn": runtime.turn,
                "stopReason": outcome.stop,
                "usage": usage.model_dump(by_alias=True),
                "contextTokens": services.used(runtime),
            }
            if outcome.error:
                end["error"] = outcome.error
            runtime.session.append("turn/end", end)
            runtime.session.sync()
        except StorageFailed as error:
            outcome.stop, outcome.error = "error", outcome.error or error.message
        self._end_calls(runtime, outcome, settled)
        context = {
            "used": services.used(runtime),
            "size": services.engine.info.context_size if services.engine.info else 0,
        }
        services.emit(runtime, "usage", usage=usage.model_dump(by_alias=True), context=context)
        extra: dict[str, Any] = {"error": outcome.error} if outcome.error else {}
        services.emit(runtime, "turn.end", stopReason=outcome.stop, **extra)
        services.listener.progress_end("turn", outcome.error or outcome.stop)
        return PromptResult(
            session_id=runtime.id,
            turn=runtime.turn,
            stop_reason=outcome.stop,
            text="\n\n".join([*filter(None, outcome.text), *outcome.notes]),
            tool_calls=outcome.calls,
            usage=usage,
            error=outcome.error,
        )

    def _end_calls(self, runtime: Runtime, outcome: Outcome, settled: dict[str, tuple[int, str]]) -> None:
        """A result for each call that the user heard of and that came to none, whether the log knows of it or not."""
        why = CANCELLED if outcome.stop == "cancelled" else f"not executed: {outcome.error or 'the turn ended'}"
        answered = {call.call_id for call in outcome.calls}
        for call_id, name in outcome.told.items():
            if call_id in answered:
                continue
            seq, text = settled.get(call_id, (None, why))
            self._services.emit(runtime, "tool.result", seq=seq, callId=call_id, name=name, ok=False, text=text)

    async def _play(self, runtime: Runtime, pending: Pending, outcome: Outcome, prepare: Prepare) -> None:
        await self._open(runtime, pending, prepare)
        watch = Watch(nudges=Nudges(pending.text))
        while True:
            await self._make_room(runtime)
            if await self._compactor.full(runtime) and not await self._relieved(runtime):
                self._stop_full(runtime, outcome)
                return
            reply, generated = await self._sample(runtime, outcome)
            outcome.text.append(reply.visible)
            if reply.repeats:
                self._tell(runtime, outcome, REPEATED)
                return
            if generated.reason == "cancelled":
                raise Cancelled("The turn was cancelled.")
            if reply.calls:
                watch.complaints = 0
                note = await self._calls.run(runtime, reply, outcome.calls)
                self._tell_complaints(runtime, reply)
                if note is not None:
                    if note:
                        self._tell(runtime, outcome, note)
                    return
                continue
            if generated.reason != "length":
                if not self._goes_on(runtime, reply, outcome, watch):
                    return
                continue
            if outcome.usage.completion_tokens >= self._services.settings().sampling.most_tokens:
                outcome.stop = "length"
                return
            # A reply that ended before it reached the reserve met the end of a KV smaller than its numbers say.
            closed = await self._compactor.full(runtime)
            relieved = self._relieved(runtime) if closed else self._compactor.relieve(runtime, "overflow")
            if not await relieved:
                self._stop_full(runtime, outcome)
                return
            self._notice(runtime, CUT)

    async def _relieved(self, runtime: Runtime) -> bool:
        """Whether a compaction made room for a reply. One that frees too little is no way on."""
        for trigger in _WAYS_ON:
            if await self._compactor.relieve(runtime, trigger) and not await self._compactor.full(runtime):
                return True
        return False

    def _goes_on(self, runtime: Runtime, reply: Reply, outcome: Outcome, watch: Watch) -> bool:
        """Whether a reply that made no call is followed by another one, since the model has to be told something."""
        if reply.complaints:
            watch.complaints += 1
            if watch.complaints >= COMPLAINTS_BEFORE_GIVING_UP:
                note = f"Stopped: {watch.complaints} replies in a row held no readable tool call."
                self._tell(runtime, outcome, note)
                return False
            self._tell_complaints(runtime, reply)
            return True
        changed = any(call.ok and runtime.toolbox.changes(call.name) for call in outcome.calls)
        nudge = watch.nudges.judge(reply.visible, changed=changed)
        if nudge is not None:
            self._notice(runtime, TOLD[nudge])
        elif not reply.visible:
            self._tell(runtime, outcome, ONLY_THOUGHT if reply.raw_text.strip() else SILENT)
        elif is_unread_call(reply.visible):
            self._tell(runtime, outcome, UNREADABLE)
        elif not changed and claims_a_change(reply.visible, watch.nudges.prompt):
            self._tell(runtime, outcome, UNCHANGED)
        return nudge is not None

    async def _sample(self, runtime: Runtime, outcome: Outcome) -> tuple[Reply, Generated]:
        """One round. An engine that finds no room in its KV gets it once, by the largest compaction there is."""
        try:
            return await self._rounds.run(runtime, outcome)
        except ContextTooSmall as error:
            full = error
        try:
            if not await self._compactor.relieve(runtime, "overflow"):
                raise full
            if runtime.session.surface.events[-1].type == "assistant/message":
                self._notice(runtime, CUT)
            return await self._rounds.run(runtime, outcome)
        except ContextTooSmall as error:
            raise ContextTooSmall(NO_ROOM.format(error.message), **error.data) from error

    def _stop_full(self, runtime: Runtime, outcome: Outcome) -> None:
        outcome.stop = "length"
        self._tell(runtime, outcome, FULL if self._services.settings().compaction.auto else FULL_BY_HAND)

    def _tell(self, runtime: Runtime, outcome: Outcome, note: str) -> None:
        """Why the turn ends: in its result, and for those who follow its events."""
        outcome.notes.append(note)
        self._services.tell(runtime, note)

    async def _open(self, runtime: Runtime, pending: Pending, prepare: Prepare) -> None:
        """Append the prompt, after making room for it."""
        info = self._services.engine.info
        large = info is not None and is_large(len(pending.text), info)
        try:
            await prepare()
            _check(pending)
            transcript = await self._services.transcript(runtime)
            self._flush_notices(runtime)
            data = self._prompt_data(runtime, pending)
            text = user_text(data)
            large = is_large(len(text), transcript.info)
            size = await transcript.measure(render.user(transcript.frames, text), pending.cancel)
            large = size > transcript.info.context_size
            if not large:
                await self._make_room(runtime, size)
                _check(pending)
        except Ds4Error:
            # The prompt belongs to the conversation all the same: the next turn answers it. But one that may never fit
            # would be in the way of every turn.
            if not large:
                self._append_prompt(runtime, self._prompt_data(runtime, pending))
            raise
        used = len(await transcript.tokens(runtime.session.surface)) + size
        context = transcript.info.context_size
        least = await self._compactor.kept_free(runtime)
        # First what was read; for want of another way also prompts of turns that failed: the checkpoint has them.
        for trigger in _RELIEFS:
            if large or used + least <= context or not await self._compactor.relieve(runtime, trigger, used):
                continue
            used = len(await transcript.tokens(runtime.session.surface)) + size
        if used + least > context:
            raise ContextTooSmall(
                f"The prompt needs {used} tokens with what precedes it, the context has {context}. "
                "Shorten the prompt, point at less, start a new session, or raise ds4.model.contextSize.",
                needed=used,
                size=context,
            )
        self._append_prompt(runtime, data)

    @staticmethod
    def _prompt_data(runtime: Runtime, pending: Pending) -> dict[str, Any]:
        data = {"turn": runtime.turn, "kind": "prompt", "text": pending.text, "context": pending.context}
        return data | {"preface": pending.preface} if pending.preface else data

    def _append_prompt(self, runtime: Runtime, data: dict[str, Any]) -> None:
        message = runtime.session.append("user/message", data, surface_op={"op": "append"})
        self._services.trace.record("prompt", sessionId=runtime.id, seq=message.seq, text=user_text(data))

    async def _make_room(self, runtime: Runtime, coming: int = 0) -> None:
        await self._compactor.soft(runtime, coming)
        self._flush_notices(runtime)

    def _flush_notices(self, runtime: Runtime) -> None:
        notices, runtime.notices = runtime.notices, []
        for notice in notices:
            self._notice(runtime, notice)

    def _tell_complaints(self, runtime: Runtime, reply: Reply) -> None:
        for complaint in reply.complaints:
            self._notice(runtime, complaint)

    def _notice(self, runtime: Runtime, text: str) -> None:
        runtime.session.append(
            "user/message", {"turn": runtime.turn, "kind": "notice", "text": text}, surface_op={"op": "append"}
        )


def _check(pending: Pending) -> None:
    if pending.cancel.is_set:
        raise Cancelled("The turn was cancelled.")
