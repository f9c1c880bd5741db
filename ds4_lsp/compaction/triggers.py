"""When to compact: pure arithmetic over token counts (the page's section *When*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ds4_lsp.protocol.settings import CompactionSettings

RESERVE_MARGIN = 256
"""Tokens kept beside the summary request, so that a summary can be received at all."""
PART_LIMIT = 2000
"""Most tokens of the ledger, however large the context is."""
FRAME_ALLOWANCE = 160
"""Tokens for the checkpoint's headings and introduction, used only where the real count is not known yet."""


@dataclass(frozen=True)
class Limits:
    """Everything that follows from the context's size and the settings, in tokens."""

    context: int
    auto: bool
    soft_at: int
    """A next request of at least this size triggers ``soft``."""
    answer_room: int
    """What must stay free after a tool result."""
    reserve: int
    """What generation leaves free, before the size of the summary request is known."""
    tail: int
    checkpoint: int
    part: int
    """Most of the ledger, and of what the user asks to keep in mind."""
    prompts: int
    """Most of the user's prompts, word for word."""
    summary: int

    @property
    def step(self) -> int:
        """A tenth of the context: what a pass must free to count, and the surface's growth that lifts a back-off."""
        return max(1, self.context // 10)

    @property
    def least_gain(self) -> int:
        """What an automatic pass must take out of the transcript, beside the checkpoint before: it costs the engine a
        request, a summary and the rebuild, and so what was said is paid for only so often."""
        return self.context // 20

    @property
    def largest_checkpoint(self) -> int:
        return min(self.checkpoint, self.prompts + self.part + self.summary + FRAME_ALLOWANCE)


def limits(settings: CompactionSettings, context: int) -> Limits:
    """The numbers for a context of ``context`` tokens."""
    by_percent = -(-context * settings.soft_percent // 100)
    by_room = context - min(settings.min_free_tokens, context // 4)
    usual = context // 8
    # Whoever wants more of their own words kept gets a larger checkpoint, and never less of a summary.
    prompts = min(usual if settings.prompts_max_tokens is None else settings.prompts_max_tokens, context // 2)
    checkpoint = context // 4 + max(0, prompts - usual)
    return Limits(
        context=context,
        auto=settings.auto,
        soft_at=min(by_percent, by_room),
        answer_room=min(1024, context // 8),
        reserve=min(8192, context // 8),
        tail=min(context * settings.tail_percent // 100, settings.tail_max_tokens),
        checkpoint=checkpoint,
        part=min(context // 16, PART_LIMIT),
        prompts=prompts,
        summary=min(settings.summary_max_tokens, checkpoint),
    )


def soft(needed: int, limits: Limits) -> bool:
    """Whether the whole next request, ``needed`` tokens with the pending prompt, comes too near to the context."""
    return needed >= limits.soft_at


def result_room(transcript: int, limits: Limits, request_tokens: int) -> int:
    """Most tokens of a tool result on a transcript of ``transcript`` tokens: it leaves room to answer, and to ask for
    a summary afterwards, where that is done by itself. Negative when even that is not there."""
    reserve = generation_reserve(limits, request_tokens) if limits.auto else 0
    return limits.context - transcript - reserve - limits.answer_room


def generation_reserve(limits: Limits, request_tokens: int) -> int:
    """Tokens that a reply must leave free: the reserve, and at least a summary request with room for its answer."""
    return max(limits.reserve, request_tokens + RESERVE_MARGIN)


def generation_room(bottom: int, limits: Limits, request_tokens: int) -> int:
    """Most tokens that a reply may have on a transcript of ``bottom`` tokens; 0 when it must compact first."""
    return max(0, limits.context - bottom - generation_reserve(limits, request_tokens))


def cannot_help(prefix: int, limits: Limits) -> str | None:
    """The floor check: what to tell the user when even a compacted session would be over the threshold, else None.

    ``prefix`` is the system prompt with the tools.
    """
    floor = prefix + limits.reserve + limits.tail + limits.largest_checkpoint
    if floor < limits.soft_at:
        return None
    return (
        f"compaction cannot help here: system prompt and tools take {prefix} tokens, and with the reserve "
        f"({limits.reserve}), the tail ({limits.tail}) and a checkpoint (up to {limits.largest_checkpoint}) that is "
        f"{floor} of a context of {limits.context}, not below the threshold of {limits.soft_at}. "
        "Raise ds4.model.contextSize, or lower ds4.compaction.tailPercent or ds4.compaction.summaryMaxTokens."
    )


def too_large(tool: str, result_tokens: int, room: int, limits: Limits) -> str:
    """The tool error for a result of which not even a part fits after compaction."""
    return (
        f"{tool}: the result has {result_tokens} tokens, and only {max(0, room)} fit into the context of "
        f"{limits.context}. "
        "Ask for less: fewer lines, a narrower search, or a part of the output."
    )


@dataclass(frozen=True)
class Backoff:
    """Holds ``soft`` back after a pass that failed or freed too little, until the surface has grown."""

    resume_at: int = 0
    """Transcript size, in tokens, from which on ``soft`` may try again."""

    def allows(self, bottom: int) -> bool:
        return bottom >= self.resume_at

    def after(self, before: int, after: int | None, limits: Limits) -> Backoff:
        """The state after a pass on ``before`` tokens that left ``after``; None when it failed."""
        if after is not None and before - after >= limits.step:
            return Backoff()
        return Backoff((before if after is None else after) + limits.step)


@dataclass(frozen=True)
class SoftDecision:
    action: Literal["go on", "compact", "cannot help"]
    message: str = ""


def decide_soft(needed: int, bottom: int, prefix: int, limits: Limits, backoff: Backoff) -> SoftDecision:
    """What to do before a request of ``needed`` tokens is sent on a transcript of ``bottom`` tokens."""
    if not limits.auto or not soft(needed, limits):
        return SoftDecision("go on")
    message = cannot_help(prefix, limits)
    if message is not None:
        return SoftDecision("cannot help", message)
    return SoftDecision("compact" if backoff.allows(bottom) else "go on")
