"""One compaction, from the trigger to the rebuilt KV. It happens wholly or not at all.

::

    plan                          nothing written
    compact/start                 flushed before anything can yield
    summarise                     the only slow step; ends rolled back to BOTTOM
    ledger                        folded again: what happened meanwhile belongs to it
    checks                        cancelled? surface stable? checkpoint small enough?
    compact/summary               flushed
    user/message, replacing       the commit: before it the surface is untouched, after it the pass has happened
    shortened messages            of the tail, each a replacement by itself; where one fails the tail is just longer
    compact/end                   flushed
    rebuild                       may fail: the next turn evaluates what is missing

A failure between ``compact/start`` and the commit appends one ``compact/end {error}``. Where even that cannot be
written, or the process dies, the next one to compact or to open the session settles it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from ds4_lsp.compaction import checkpoint, pruning
from ds4_lsp.compaction import plan as planning
from ds4_lsp.compaction.checkpoint import Draft, Parts
from ds4_lsp.compaction.host import Host
from ds4_lsp.compaction.ledger import Facts, LogEvent
from ds4_lsp.compaction.model import Compacted, Failed, Nothing, Outcome, Pruned, Trigger
from ds4_lsp.compaction.plan import Plan
from ds4_lsp.compaction.summarise import Answer, Refused, summarise
from ds4_lsp.compaction.triggers import limits as limits_of
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import CompactionResult, ShadowedRange
from ds4_lsp.protocol.errors import Cancelled, Ds4Error

Claims = tuple[Mapping[str, Any], ...]

_log = logging.getLogger(__name__)
_CANCELLED = "cancelled"


async def compact(
    host: Host,
    trigger: Trigger,
    *,
    cancel: Cancel,
    instructions: str | None = None,
    needed: int | None = None,
    tail_tokens: int | None = None,
    prune: bool = True,
) -> Outcome:
    """Compact once. Not to be called while it runs for the same session: see :class:`ds4_lsp.compaction.Compactions`.

    ``needed``: tokens of the whole next request, for the prune's threshold (the transcript's own size by default).
    ``tail_tokens`` overrides the settings' tail budget. ``prune``: shrinking tool results may do instead. Errors:
    ``CorruptSession`` for an orphan result, ``StorageFailed``, and what the engine raises while it summarises; each
    leaves a valid log.
    """
    revision = host.revision
    facts = await planning.gather(host)
    settle(host, facts)
    limits = limits_of(host.settings, host.context)
    if prune and trigger in ("soft", "hard", "generation"):
        pruned = await _try_prune(
            host, trigger, facts=facts, revision=revision, needed=needed, tail_tokens=tail_tokens, cancel=cancel
        )
        if pruned is not None:
            return pruned
    plan = await planning.make(host, trigger, facts, limits, revision=revision, tail_tokens=tail_tokens)
    if isinstance(plan, Nothing):
        return plan
    if cancel.is_set:
        return Failed(_CANCELLED, cancelled=True)
    if host.revision != plan.revision:
        return Nothing("the conversation went on while the compaction was planned")
    return await _run(host, plan, instructions, cancel)


def compaction_id(seq: int) -> str:
    """Names a compaction: by the first event that it writes."""
    return f"compaction-{seq}"


def settle(host: Host, facts: Facts) -> None:
    """Close a compaction that this process could not close, for want of disk space. The session's opening does the
    same for one that a dead process left."""
    if facts.open_start is None:
        return
    outcome = {"recovered": True} if facts.open_replaced else {"error": "orphaned"}
    host.append("compact/end", {"turn": host.turn, **outcome}, sources=(facts.open_start,))
    host.sync()
    host.emit("notice", text="An earlier compaction was cut short; its record in the session log is closed now.")


async def _try_prune(
    host: Host,
    trigger: Trigger,
    *,
    facts: Facts,
    revision: int,
    needed: int | None,
    tail_tokens: int | None,
    cancel: Cancel,
) -> Pruned | None:
    limits = limits_of(host.settings, host.context)
    items, bottom = tuple(host.surface()), _bottom(host)
    cut = planning.choose_cut(items, trigger, limits, tail_tokens)
    if cut is None:
        return None
    chosen = await pruning.plan(
        host, items, cut.older, facts=facts, limits=limits, needed=bottom if needed is None else needed
    )
    if not chosen or cancel.is_set or host.revision != revision:
        return None
    identity = compaction_id(host.next_seq)
    host.emit("compaction.start", compactionId=identity, trigger=trigger, tokens=bottom)
    host.progress(f"{trigger}: shrinking {len(chosen)} old tool results")
    message, about = "not compacted", {}
    try:
        result = pruning.carry_out(host, items, chosen)
        about = result.wire()
        # The new nodes' sizes are known for certain when they have been tokenised.
        error = await _rebuild(host, cancel)
        after = _bottom(host)
        message = f"{bottom} → {after} tokens, {len(result.pruned)} tool results shrunk"
        return Pruned(result, bottom, after, error)
    finally:
        host.emit("compaction.end", compactionId=identity, compacted=bool(about), reason=message, **about)
        host.progress_end(message)


async def _run(host: Host, plan: Plan, instructions: str | None, cancel: Cancel) -> Outcome:
    start = host.append("compact/start", {"trigger": plan.trigger, "turn": host.turn, "bottom": plan.bottom})
    identity = compaction_id(start.seq)
    message = "not compacted"
    compacted = False
    summary_seq: int | None = None
    try:
        host.emit("compaction.start", seq=start.seq, compactionId=identity, trigger=plan.trigger, tokens=plan.bottom)
        host.sync()
        host.progress(f"{plan.trigger}: {plan.bottom} of {plan.limits.context} tokens are used")
        answer = await summarise(host, plan, instructions, cancel, identity)
        draft, parts, size = await _checkpoint(host, plan, answer, cancel)
        summary = _append_summary(host, plan, answer, parts, identity)
        host.sync()
        node = _append_checkpoint(host, plan, (start, summary), parts, draft.claims)
        compacted, message, summary_seq = True, "compacted", summary.seq
        _append_shortened(host, plan)
        end = host.append("compact/end", {"turn": host.turn, "contextTokens": _bottom(host)}, sources=(start.seq,))
        host.sync()
        result = _result(host, plan, parts, (size, draft.ending_tokens), (start, summary, node, end))
        message = f"{result.before_tokens} → {result.after_tokens} tokens, tail {result.tail_token_count}"
        return Compacted(result, await _rebuild(host, cancel))
    except BaseException as error:
        if not compacted:
            refused = _refusal(error)
            reason = refused.reason if refused else _reason(error)
            message = f"not compacted: {reason}"
            _close(host, start, reason)
            if refused is not None:
                return Failed(refused.reason, refused.cancelled)
        raise
    finally:
        host.emit("compaction.end", seq=summary_seq, compactionId=identity, compacted=compacted, reason=message)
        host.progress_end(message)


async def _checkpoint(host: Host, plan: Plan, answer: Answer, cancel: Cancel) -> tuple[Draft, Parts, int]:
    """What was drafted, the framed checkpoint, and its size, checked: nothing may yield before the commit."""
    cap = 0
    while True:
        logged = host.next_seq
        draft = await planning.draft_again(host, plan, await planning.gather(host))
        cap = min(plan.limits.checkpoint + draft.ending_tokens, plan.removed_tokens - 1)
        parts, size = await checkpoint.finish(draft, answer.text, cap, plan.frame_tokens, host.count)
        if cancel.is_set:
            raise Refused(_CANCELLED, cancelled=True)
        if not stable(host, plan):
            raise Refused("the conversation changed while it was summarised; it is kept as it is")
        # A job's end, say, that was logged since the fold would be missing for ever.
        if host.next_seq == logged:
            break
    if not parts.summary or size > cap:
        raise Refused(f"the checkpoint would have {size} tokens, and may have at most {cap}")
    return draft, parts, size


def stable(host: Host, plan: Plan) -> bool:
    """Whether the plan still fits the surface: all of it, or for ``manual`` the span that goes."""
    if plan.trigger != "manual":
        return host.revision == plan.revision
    return [item.seq for item in host.surface()[: plan.cut]] == [item.seq for item in plan.shadowed]


def _append_summary(host: Host, plan: Plan, answer: Answer, parts: Parts, identity: str) -> LogEvent:
    shadowed = plan.shadowed
    return host.append(
        "compact/summary",
        {
            "turn": host.turn,
            "compactionId": identity,
            "summary": parts.summary,
            "shadowedRange": {"start": shadowed[0].seq, "end": shadowed[-1].seq},
            "shadowedSeqs": [item.seq for item in shadowed],
            "shadowedTokenCount": plan.shadowed_tokens,
            "model": host.model,
            "maxTokens": answer.max_tokens,
            "chunks": answer.chunks,
            "usage": answer.usage,
        },
    )


def _append_checkpoint(
    host: Host, plan: Plan, before: tuple[LogEvent, LogEvent], parts: Parts, claims: Claims
) -> LogEvent:
    """``before``: start and summary."""
    shadowed = plan.shadowed
    return host.append(
        "user/message",
        {
            "turn": host.turn,
            "text": checkpoint.frame(parts),
            "kind": "checkpoint",
            "parts": {"task": parts.task, "summary": parts.summary, "ledger": parts.ledger, "ending": parts.ending},
            "shown": [dict(claim) for claim in claims],
        },
        surface_op={"op": "replace", "start": shadowed[0].position, "end": shadowed[-1].position},
        sources=(*(event.seq for event in before), *(item.seq for item in shadowed)),
    )


def _append_shortened(host: Host, plan: Plan) -> None:
    surface = {item.seq: item for item in host.surface()}
    for one in plan.shortened:
        item = surface.get(one.seq)
        if item is not None:
            kind = "assistant/message" if item.role == "assistant" else "tool/result"
            span = {"op": "replace", "start": item.position, "end": item.position}
            host.append(kind, one.data, surface_op=span, sources=(one.seq,))


def _result(
    host: Host, plan: Plan, parts: Parts, sizes: tuple[int, int], events: tuple[LogEvent, LogEvent, LogEvent, LogEvent]
) -> CompactionResult:
    """``sizes``: tokens of the checkpoint's message, and of the tail's beginning in it."""
    size, ending = sizes
    start, summary, node, end = events
    surface = host.surface()
    after = _bottom(host)
    checkpoint_tokens = next((item.tokens for item in surface if item.seq == node.seq), size) - ending
    return CompactionResult(
        compaction_id=compaction_id(start.seq),
        start_seq=start.seq,
        summary_seq=summary.seq,
        end_seq=end.seq,
        summary=parts.summary,
        shadowed_range=ShadowedRange(start=plan.shadowed[0].seq, end=plan.shadowed[-1].seq),
        shadowed_seqs=[item.seq for item in plan.shadowed],
        shadowed_token_count=plan.shadowed_tokens,
        checkpoint_token_count=checkpoint_tokens,
        tail_token_count=after - host.prefix_tokens - checkpoint_tokens,
        before_tokens=plan.bottom,
        after_tokens=after,
        trigger=plan.trigger,
    )


def _bottom(host: Host) -> int:
    return host.prefix_tokens + sum(item.tokens for item in host.surface())


async def _rebuild(host: Host, cancel: Cancel) -> Ds4Error | None:
    """Evaluate the new transcript. What is in the log stands, so an engine's failure is reported, not raised."""
    host.progress("rebuilding")
    try:
        await host.rebuild(cancel, lambda done, total: host.progress("rebuilding", done=done, total=total))
    except Ds4Error as error:
        _log.warning("the KV was not rebuilt after a compaction: %s", error)
        return error
    return None


def _refusal(error: BaseException) -> Refused | None:
    if isinstance(error, Refused):
        return error
    return Refused(_CANCELLED, cancelled=True) if isinstance(error, Cancelled) else None


def _reason(error: BaseException) -> str:
    if isinstance(error, Ds4Error):
        return f"{error.code}: {error.message}"
    return _CANCELLED if isinstance(error, asyncio.CancelledError) else f"{type(error).__name__}: {error}"


def _close(host: Host, start: LogEvent, reason: str) -> None:
    try:
        host.append("compact/end", {"turn": host.turn, "error": reason}, sources=(start.seq,))
        host.sync()
    except Ds4Error as error:
        # The failure that brought us here is the one to report; the open start is settled later.
        _log.warning("could not record the end of a failed compaction: %s", error)
