"""Getting the summary from the model: on the live transcript where the request fits, else part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ds4_lsp.compaction.checkpoint import MIN_SUMMARY, SLACK, clean
from ds4_lsp.compaction.chunks import Chunk, excerpt, split
from ds4_lsp.compaction.fitting import fit_head, fit_head_tail
from ds4_lsp.compaction.host import Host
from ds4_lsp.compaction.model import SummaryRequest
from ds4_lsp.compaction.plan import Plan
from ds4_lsp.compaction.request import carried, summary_request
from ds4_lsp.compaction.triggers import RESERVE_MARGIN
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import ContextTooSmall


class Refused(Exception):
    """The attempt ends here, with the surface unchanged; the message is the reason."""

    def __init__(self, reason: str, *, cancelled: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cancelled = cancelled


@dataclass(frozen=True)
class Answer:
    """The cleaned summary. ``max_tokens`` as asked for, ``chunks``: requests made, ``usage`` their sum."""

    text: str
    max_tokens: int
    chunks: int
    usage: dict[str, Any]


async def request_tokens(host: Host) -> int:
    """Size of the summary request without instructions, in tokens: what generation must keep free for it."""
    return await host.count(summary_request()) + host.frame_tokens


async def summarise(host: Host, plan: Plan, instructions: str | None, cancel: Cancel, identity: str) -> Answer:
    """Ask the model. ``identity``: the compaction's, for its events. Raises ``Refused`` when cancelled, when the answer
    is empty or no request can fit, and what the engine raises."""
    if instructions:
        instructions = await fit_head_tail(instructions, plan.limits.part, host.count, lambda _count: "[…]")
    text = summary_request(instructions=instructions)
    size = await host.count(text) + plan.frame_tokens
    context = plan.limits.context
    room = context - plan.asked_on - size
    if room >= min(RESERVE_MARGIN, plan.draft.summary_room):
        asked = SummaryRequest(text, min(room, plan.draft.summary_room), 0, plan.read, live=True)
        try:
            return await _Asking(host, cancel, identity).ask(asked, "summarising")
        except ContextTooSmall as error:
            context = _smaller(context, error)
    while True:
        try:
            return await _in_parts(host, plan, instructions, _Asking(host, cancel, identity), context)
        except ContextTooSmall as error:
            context = _smaller(context, error)


def _smaller(context: int, error: ContextTooSmall) -> int:
    """What to take for the context's size when the engine was full although ``context`` said that there is room: that
    is what the trigger ``overflow`` is for. Each step is large enough for the steps to end soon."""
    size, needed = error.data.get("size", context), error.data.get("needed", context + 1)
    return min(int(size), int(needed) - 1, context * 7 // 8)


async def _in_parts(host: Host, plan: Plan, instructions: str | None, asking: _Asking, context: int) -> Answer:
    text = summary_request(part_only=True, instructions=instructions)
    free = context - plan.prefix - await host.count(text) - plan.frame_tokens
    # A part, the summary carried into it and the new summary share the context; the parts should have most of it.
    most = min(plan.draft.summary_room, free // 4)
    carry = most + await host.count(carried("")) + plan.frame_tokens + SLACK
    if most < MIN_SUMMARY or free - most - carry < MIN_SUMMARY:
        raise Refused(
            f"the summary request does not fit: system prompt and request leave {max(0, free)} of "
            f"{context} tokens. Raise ds4.model.contextSize"
        )
    chunks = split(plan.items, plan.covered, free - most, free - most - carry, tail=plan.cut)
    for number, chunk in enumerate(chunks, 1):
        before = asking.answer and carried(await fit_head(asking.answer, most, host.count))
        room = free - most - (carry if before else 0)
        request = await _part(host, plan, chunk, text=text, most=most, before=before or None, room=room)
        answer = await asking.ask(request, f"summarising part {number} of {len(chunks)}")
    return answer


async def _part(
    host: Host, plan: Plan, chunk: Chunk, *, text: str, most: int, before: str | None, room: int
) -> SummaryRequest:
    if chunk.whole:
        return SummaryRequest(text, most, chunk.start, chunk.stop, live=False, before=before)
    shown = await excerpt(plan.items[chunk.start : chunk.stop], room - SLACK, host.count)
    return SummaryRequest(f"{shown}\n\n{text}", most, chunk.start, chunk.start, live=False, before=before)


class _Asking:
    """The requests of one compaction, one after the other, with what they add up to."""

    def __init__(self, host: Host, cancel: Cancel, identity: str) -> None:
        self._host = host
        self._cancel = cancel
        self._identity = identity
        self._tokens = 0
        self._count = 0
        self._usage: dict[str, Any] = {}
        self.answer = ""

    async def ask(self, request: SummaryRequest, doing: str) -> Answer:
        def on_text(tokens: int, delta: str) -> None:
            if delta:
                self._host.emit("compaction.delta", compactionId=self._identity, delta=delta)
            self._host.progress(f"{doing}, {self._tokens + tokens} tokens")

        if self._cancel.is_set:
            raise Refused("cancelled", cancelled=True)
        self._host.progress(doing)
        summary = await self._host.summarise(request, self._cancel, on_text)
        if self._cancel.is_set or summary.reason == "cancelled":
            raise Refused("cancelled", cancelled=True)
        self._tokens += summary.tokens
        self._count += 1
        for key, value in summary.usage.items():
            self._usage[key] = self._usage.get(key, 0) + value
        self.answer = clean(summary.text, summary.reason != "length")
        if not self.answer:
            raise Refused("the model's summary was empty; the conversation is unchanged. Try again, or use /new")
        return Answer(self.answer, request.max_tokens, self._count, dict(self._usage))
