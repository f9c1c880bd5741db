"""From a model file's template to its frames: what is asked of the template, in three processes at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from ds4_lsp.chat.calls import call_jobs, calls_of
from ds4_lsp.chat.frames import Frames, chatml, deepseek, from_template
from ds4_lsp.chat.probe import CALLED, PROBE
from ds4_lsp.chat.results import Known
from ds4_lsp.chat.split import JOBS, Derived, Way, jobs, split
from ds4_lsp.chat.template import Render, render_apart
from ds4_lsp.chat.thinking import MOODS, levels_of, marks_of, thought_jobs
from ds4_lsp.ports import ModelInfo

_Name = TypeVar("_Name")
_WAYS = (
    Way(),
    Way(tools=()),
    Way(system=False),
    Way(system=False, tools=()),
)
"""What templates need to render at all, the most usual first."""


def derive(info: ModelInfo, render: Render = render_apart) -> Frames:
    """The frames of a loaded model. Never raises; ``warning`` says what the user should know. Takes some tenths of a
    second; up to ``template.TIMEOUT`` seconds where the template is hostile."""
    template = info.chat_template or ""
    if not template:
        if info.eos == "<｜end▁of▁sentence｜>":
            return deepseek(info)
        return chatml(info, "The model file has no chat template: ChatML is used. A base model may answer badly.")
    found = _way(info, template, render)
    if found is None:
        return chatml(info, "The model's chat template could not be used: ChatML is used instead.")
    way, derived = found
    asked = [replace(way, mood=mood) for mood in MOODS.values()]
    moods = [job for each in asked for job in jobs(each, info.bos, info.eos)]
    thoughts = thought_jobs(asked[0], info.bos, info.eos, CALLED)
    calls = call_jobs(asked[0], MOODS["off"], info.bos, info.eos)
    texts = render(template, [*moods, *thoughts, *calls])
    known = _splits(texts, asked, list(MOODS), info)
    # A template may be slow as a whole: what it gave at first still holds.
    known.setdefault("on", derived)
    same = {name: each for name, each in known.items() if each.merges_system == derived.merges_system}
    behind = len(moods) + len(thoughts)
    thinking, base = marks_of(template, texts[len(moods) : behind], same, PROBE)
    levels = levels_of(thinking, base, same)
    shown = texts[behind:]
    if (levels["on"].mood, levels["off"].mood) != (MOODS["on"], MOODS["off"]):
        again = replace(way, mood=levels["on"].mood)
        shown = render(template, call_jobs(again, levels["off"].mood, info.bos, info.eos))
    called = calls_of(shown, Known(levels["on"], levels["off"], base, thinking, info.eos))
    return from_template(info, way, thinking, levels, called)


def _way(info: ModelInfo, template: str, render: Render) -> tuple[Way, Derived] | None:
    ways = [replace(way, mood=MOODS["on"]) for way in _WAYS]
    texts = render(template, [job for way in ways for job in jobs(way, info.bos, info.eos)])
    found = _splits(texts, ways, list(range(len(ways))), info)
    return next(((way, found[index]) for index, way in enumerate(ways) if index in found), None)


def _splits(
    texts: Sequence[str | None], ways: Sequence[Way], names: Sequence[_Name], info: ModelInfo
) -> dict[_Name, Derived]:
    """What each way gave, where it gave frames."""
    found: dict[_Name, Derived] = {}
    for index, (name, way) in enumerate(zip(names, ways, strict=True)):
        derived = split(texts[index * JOBS : (index + 1) * JOBS], way, info.eos)
        if derived is not None:
            found[name] = derived
    return found
