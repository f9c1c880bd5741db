"""The checkpoint's three parts, their caps, and the text that frames them (the page's section *The checkpoint*)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ds4_lsp.compaction.fitting import Count, at_line, fit_head, fit_head_tail, largest
from ds4_lsp.compaction.graphemes import one_line
from ds4_lsp.compaction.ledger import Entry, Facts, Prompt
from ds4_lsp.compaction.triggers import Limits

URI_SHOWN = 60
"""Most code points of an attached place in a task's title."""
MIN_SUMMARY = 64
"""Tokens below which a summary says too little to stand for a conversation."""
SLACK = 8
"""Tokens by which a joined text can exceed the sum of its parts: words merge differently at the seams."""

_INTRODUCTION = (
    "[Automatic checkpoint] To free context, the conversation up to here was replaced by this record of it. "
    "Treat it as established. The conversation continues below."
)
_MARKER = re.compile(r"\A\s*<think>|</think>|</?\s*｜{0,2}\s*DSML")


@dataclass(frozen=True)
class Parts:
    """``task`` comes from the log word for word, ``summary`` from the model, ``ledger`` from the log."""

    task: str
    summary: str
    ledger: str


@dataclass(frozen=True)
class Draft:
    """A checkpoint that lacks only its summary. ``fixed``: its tokens without one, chat frame included."""

    task: str
    ledger: str
    fixed: int
    summary_room: int
    """Most tokens that the summary may have."""


def frame(parts: Parts) -> str:
    """The checkpoint as the model reads it. Always tokenised as plain text."""
    sections = [_INTRODUCTION]
    if parts.task:
        sections.append(parts.task)
    sections.append(f"# Summary\n{parts.summary}")
    if parts.ledger:
        sections.append(f"# Ledger: recorded facts, newest first\n{parts.ledger}")
    return "\n\n".join(sections)


def tasks(facts: Facts, tail: Collection[int]) -> list[tuple[str, Prompt]]:
    """The requests to keep word for word, with their titles: the first, and the newest that is not in the tail."""
    older = [prompt for prompt in facts.prompts if prompt.seq not in tail]
    if not older:
        return []
    first, newest = older[0], older[-1]
    if first is not facts.prompts[0]:  # the first request itself is in the tail
        return [("Newest earlier request", newest)]
    if first is newest:
        return [("The user's request", first)]
    return [("The user's first request", first), ("The user's newest earlier request", newest)]


async def task_part(prompts: Sequence[tuple[str, Prompt]], cap: int, count: Count) -> str:
    """Each request under its heading, in at most ``cap`` tokens with it: exactly as typed, or over that its head and
    tail with the seq to look it up."""
    return "\n\n".join([await _task(title, prompt, cap, count) for title, prompt in prompts])


async def _task(title: str, prompt: Prompt, cap: int, count: Count) -> str:
    places = ", ".join(one_line(uri, URI_SHOWN) for uri in prompt.attached[:2])
    # The user's words matter more than the places, which are in the log too.
    for where in dict.fromkeys([f", about {places}" if places else "", ""]):
        heading = f"# {title}, word for word (event {prompt.seq}{where})\n"
        text = await _fitted(heading, prompt, cap, count)
        if text == prompt.text:
            break
    return heading + text


async def _fitted(heading: str, prompt: Prompt, cap: int, count: Count) -> str:
    async def under_heading(text: str) -> int:
        return await count(heading + text)

    def note(left_out: int) -> str:
        return f"[… {left_out} characters left out: the whole is event {prompt.seq} of the session …]"

    return await fit_head_tail(prompt.text, cap, under_heading, note)


async def ledger_part(entries: Sequence[Entry], cap: int, count: Count) -> str:
    """The entries in the order given, in at most ``cap`` tokens. Where that is too little the last ones lose their
    details first, and only then are left out, and counted."""

    def text(full: int, known: int) -> str:
        shown = [f"- {entry.text}" for entry in entries[:full]]
        if full < known:
            shown.append("- before that: " + "; ".join(entry.short for entry in entries[full:known]))
        if known < len(entries):
            shown.append(f"- {len(entries) - known} older entries are left out")
        return "\n".join(shown)

    async def fits(full: int, known: int) -> bool:
        return await count(text(full, known)) <= cap

    # An entry has at least two tokens, so more of them than this cannot fit.
    known = await largest(0, min(len(entries), cap // 2), lambda known: fits(0, known))
    full = await largest(0, known, lambda full: fits(full, known))
    return text(full, known) if known or (entries and await fits(0, 0)) else ""


async def draft(
    facts: Facts, tail: Collection[int], limits: Limits, *, shadowed: int, frame_tokens: int, count: Count
) -> Draft | None:
    """Everything but the summary; None when no useful summary would fit beside it.

    ``shadowed``: tokens of what the checkpoint stands for; it must stay smaller than that, and within its own cap.
    ``frame_tokens``: what the chat frame adds to a user message.
    """
    most = min(limits.checkpoint, shadowed - 1) - SLACK
    task = await task_part(tasks(facts, tail), limits.part, count)
    entries = facts.entries()
    ledger = await ledger_part(entries, limits.part, count)
    fixed = await count(frame(Parts(task, "", ledger))) + frame_tokens
    if most - fixed < MIN_SUMMARY and ledger:
        short = MIN_SUMMARY - (most - fixed)
        ledger = await ledger_part(entries, max(0, await count(ledger) - short - SLACK), count)
        fixed = await count(frame(Parts(task, "", ledger))) + frame_tokens
    room = min(limits.summary, most - fixed)
    return Draft(task, ledger, fixed, room) if room >= MIN_SUMMARY else None


def clean(text: str, complete: bool) -> str:
    """The model's answer as plain prose: cut before anything that looks like markup, and, when the answer was cut
    short (not ``complete``), after its last whole line. Empty when nothing is left."""
    marker = _MARKER.search(text)
    if marker is not None:
        text = text[: marker.start()]
    text = text.strip()
    return text if complete else at_line(text)


async def finish(draft: Draft, summary: str, cap: int, frame_tokens: int, count: Count) -> tuple[Parts, int]:
    """The parts with ``summary`` cut so that the framed checkpoint has at most ``cap`` tokens, and that number."""
    summary = await fit_head(summary, draft.summary_room, count)
    parts = Parts(draft.task, summary, draft.ledger)
    total = await count(frame(parts)) + frame_tokens
    if total > cap:
        summary = await fit_head(summary, max(0, draft.summary_room - (total - cap) - SLACK), count)
        parts = Parts(draft.task, summary, draft.ledger)
        total = await count(frame(parts)) + frame_tokens
    return parts, total
