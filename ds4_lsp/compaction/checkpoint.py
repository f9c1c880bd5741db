"""The checkpoint's three parts, their caps, and the text that frames them (the page's section *The checkpoint*)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ds4_lsp.compaction.fitting import Count, at_line, fit_head, largest
from ds4_lsp.compaction.ledger import Entry, Facts, Prompt
from ds4_lsp.compaction.prompts import prompts_part
from ds4_lsp.compaction.shorten import end_of
from ds4_lsp.compaction.triggers import Limits

MIN_SUMMARY = 64
"""Tokens below which a summary says too little to stand for a conversation."""
SLACK = 8
"""Tokens by which a joined text can exceed the sum of its parts: words merge differently at the seams."""

_INTRODUCTION = (
    "[Automatic checkpoint] To free context, the conversation up to here was replaced by this record of it. "
    "Treat it as established. The conversation continues below. `recall` shows what was said and shown before."
)
_MARKER = re.compile(r"\A\s*<think>|</think>|</?\s*｜{0,2}\s*DSML")


@dataclass(frozen=True)
class Parts:
    """``task`` comes from the log word for word, ``summary`` from the model, ``ledger`` from the log. ``ending``: the
    end of the prompt that the tail begins in, where it does, under its title."""

    task: str
    summary: str
    ledger: str
    ending: str = ""


@dataclass(frozen=True)
class Draft:
    """A checkpoint that lacks only its summary. ``fixed``: its tokens without one, chat frame included. ``claims``:
    what its ledger says of files that the model was shown, as the log's ``shown`` has it."""

    task: str
    ledger: str
    fixed: int
    summary_room: int
    """Most tokens that the summary may have."""
    claims: tuple[Mapping[str, Any], ...] = ()
    ending: str = ""
    ending_tokens: int = 0

    def parts(self, summary: str) -> Parts:
        return Parts(self.task, summary, self.ledger, self.ending)


@dataclass(frozen=True)
class Ending:
    """The prompt in which the tail begins: ``text`` as the model read it, and the tokens of its end that stay."""

    seq: int
    text: str
    tokens: int


def frame(parts: Parts) -> str:
    """The checkpoint as the model reads it. Always tokenised as plain text."""
    sections = [_INTRODUCTION]
    if parts.task:
        sections.append(parts.task)
    sections.append(f"# Summary\n{parts.summary}")
    if parts.ledger:
        sections.append(f"# Ledger: recorded facts, newest first\n{parts.ledger}")
    if parts.ending:
        sections.append(parts.ending)
    return "\n\n".join(sections)


def older(facts: Facts, tail: Collection[int]) -> list[Prompt]:
    """The user's prompts that are not in the tail, oldest first."""
    return [prompt for prompt in facts.prompts if prompt.seq not in tail]


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
    facts: Facts,
    tail: Collection[int],
    limits: Limits,
    *,
    shadowed: int,
    frame_tokens: int,
    count: Count,
    ending: Ending | None = None,
) -> Draft | None:
    """Everything but the summary; None when no useful summary would fit beside it.

    ``shadowed``: tokens of what the checkpoint stands for; it must stay smaller than that, and within its own cap.
    ``frame_tokens``: what the chat frame adds to a user message. ``ending`` is no part of that cap: it is the tail's.
    """
    prompts = older(facts, tail)
    rest = ""
    if ending is not None:
        rest, prompts = await _ended(ending, prompts, count)
    extra = await count(rest)
    most = min(limits.checkpoint + extra, shadowed - 1) - SLACK
    task = await prompts_part(prompts, limits.prompts, count)
    entries = facts.entries()
    ledger = await ledger_part(entries, limits.part, count)
    fixed = await count(frame(Parts(task, "", ledger, rest))) + frame_tokens
    if most - fixed < MIN_SUMMARY and ledger:
        short = MIN_SUMMARY - (most - fixed)
        ledger = await ledger_part(entries, max(0, await count(ledger) - short - SLACK), count)
        fixed = await count(frame(Parts(task, "", ledger, rest))) + frame_tokens
    room = min(limits.summary, most - fixed)
    if room < MIN_SUMMARY:
        return None
    said = set(ledger.splitlines())
    # Oldest first, as what is shown stands in the log.
    claims = tuple(entry.claim for entry in reversed(entries) if entry.claim is not None and f"- {entry.text}" in said)
    return Draft(task, ledger, fixed, room, claims, rest, extra)


async def _ended(ending: Ending, prompts: Sequence[Prompt], count: Count) -> tuple[str, list[Prompt]]:
    """The end of a prompt under its title, and the prompts without that end."""
    # Its first token can be another one than before, where a word is cut.
    end = ending.text[await end_of(ending.text, ending.tokens + 1, count) :]
    title = f"# The end of event {ending.seq}, word for word: what follows this record came right after it\n"
    rest = [
        replace(prompt, text=f"{prompt.text[: -len(end)]}\n[its end is at the end of this record]")
        if prompt.seq == ending.seq
        else prompt
        for prompt in prompts
    ]
    return title + end, rest


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
    parts = draft.parts(summary)
    total = await count(frame(parts)) + frame_tokens
    if total > cap:
        summary = await fit_head(summary, max(0, draft.summary_room - (total - cap) - SLACK), count)
        parts = draft.parts(summary)
        total = await count(frame(parts)) + frame_tokens
    return parts, total
