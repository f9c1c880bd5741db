"""The user's own words in a checkpoint: as typed, oldest and newest first, as many as their budget holds.

What does not fit is named by its event, and can be had with ``recall``. Taken from the log, never from the model.
"""

from __future__ import annotations

from collections.abc import Sequence

from ds4_lsp.compaction.fitting import Count, fit_head_tail
from ds4_lsp.compaction.graphemes import one_line
from ds4_lsp.compaction.ledger import Prompt

TITLE = "# The user's requests, word for word, oldest first"
URI_SHOWN = 60
"""Most code points of an attached place in a prompt's title."""
NAMED = 24
"""Most events named one by one of those left out."""
SEAM = 4
"""Tokens that joining two texts can cost."""
NOTE_TOKENS = 64
"""Tokens kept for the line that names what is left out."""


def order(count: int) -> list[int]:
    """Indexes of ``count`` prompts by what matters most: the first, the newest, the second, the newest but one, …"""
    pairs = zip(range(count), reversed(range(count)), strict=True)
    return list(dict.fromkeys(index for pair in pairs for index in pair))


async def prompts_part(prompts: Sequence[Prompt], cap: int, count: Count) -> str:
    """The prompts (oldest first) in at most ``cap`` tokens; empty without any, or where not even one line fits."""
    if not prompts:
        return ""
    texts = [await _entry(prompt, cap, count) for prompt in prompts]
    sizes = [await count(text) + SEAM for text in texts]
    title = await count(TITLE) + SEAM
    everything = title + sum(sizes)
    room = cap - title - (0 if everything <= cap else NOTE_TOKENS)
    kept: dict[int, str] = {}
    for index in order(len(prompts)):
        if sizes[index] <= room:
            kept[index], room = texts[index], room - sizes[index]
        elif index in (0, len(prompts) - 1):
            # The first and the newest are there in part at least. The newest keeps up to half for itself.
            newest = sizes[-1] if index == 0 < len(prompts) - 1 else 0
            text = await _cut(prompts[index], max(room // 2, room - newest) - SEAM, count)
            if text:
                kept[index], room = text, room - await count(text) - SEAM
    while True:
        part = _joined(prompts, kept)
        if await count(part) <= cap:
            return part
        if not kept:
            return ""
        # Least important first.
        del kept[[index for index in order(len(prompts)) if index in kept][-1]]


def _joined(prompts: Sequence[Prompt], kept: dict[int, str]) -> str:
    left_out = [prompt.seq for index, prompt in enumerate(prompts) if index not in kept]
    return "\n\n".join([TITLE, *(kept[index] for index in sorted(kept)), *_named(left_out)])


def _named(left_out: Sequence[int]) -> list[str]:
    if not left_out:
        return []
    named = ", ".join(map(str, left_out[:NAMED]))
    more = f" and {len(left_out) - NAMED} later ones" if len(left_out) > NAMED else ""
    few = "1 request is" if len(left_out) == 1 else f"{len(left_out)} requests are"
    return [f"[{few} left out here: event {named}{more}. `recall` with event=NUMBER shows one.]"]


def _title(prompt: Prompt, *, places: bool) -> str:
    named = ", ".join(one_line(uri, URI_SHOWN) for uri in prompt.attached[:2])
    return f"## Event {prompt.seq}{f', about {named}' if named and places else ''}\n"


async def _entry(prompt: Prompt, cap: int, count: Count) -> str:
    """The whole prompt under its title. The user's words matter more than the places, which are in the log too."""
    text = _title(prompt, places=True) + prompt.text
    if not prompt.attached or await count(text) <= cap // 4:
        return text
    return _title(prompt, places=False) + prompt.text


async def _cut(prompt: Prompt, cap: int, count: Count) -> str:
    title = _title(prompt, places=False)

    async def under_title(text: str) -> int:
        return await count(title + text)

    def note(left_out: int) -> str:
        return f"[… {left_out} characters are left out here: `recall` with event={prompt.seq} shows them …]"

    text = await fit_head_tail(prompt.text, cap, under_title, note)
    return title + text if text else ""
