"""How the loaded model calls tools: its template's own syntax, or one that it is taught; and what its thinking looks
like. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ds4_lsp.chat.frames import Frames
from ds4_lsp.syntax.block import Syntax
from ds4_lsp.syntax.registry import named, recognise, understood
from ds4_lsp.syntax.samples import CallSamples
from ds4_lsp.syntax.thinking import THINK, Marks

AUTO = "auto"
TEMPLATE = "template"
_TAUGHT = re.compile(r"qwen-?2\.5[ _-]?coder", re.IGNORECASE)
"""Models that ``auto`` teaches DSML although their template has tools: hardly trained on them, they wrote fenced JSON
instead in a first try. That is understood in either case; `make eval` with ``--syntax`` compares the two."""


@dataclass(frozen=True)
class Speech:
    """``syntax``: what the model is shown, and what the log is rendered in. ``native``: it is the template's own, whose
    tool section and results' frames are used too."""

    syntax: Syntax
    marks: Marks
    native: bool
    note: str | None = None
    """What the user should know of the choice."""

    @property
    def understood(self) -> Sequence[Syntax]:
        return understood(self.syntax, strict=self.native and self.syntax.strict)

    @property
    def closing(self) -> tuple[str, ...]:
        """Marks that may end a reply, and belong to it."""
        shape = self.syntax.shape
        return tuple(mark for mark in self.syntax.marks if mark in shape.after or mark in shape.tail)


def speech(frames: Frames, wanted: str, model: str = "") -> Speech:
    """``wanted``: the setting ``ds4.tools.syntax``. ``model``: its name, for what evidence says of its family."""
    marks = _marks(frames)
    own = recognise(_without_thought(frames.called.samples, marks)) if frames.called else None
    if wanted in (AUTO, TEMPLATE):
        if own is not None and not (wanted == AUTO and _TAUGHT.search(model)):
            return Speech(own, marks, native=True)
        note = None if wanted == AUTO else "The model's template writes no tool calls: it is taught DeepSeek's syntax."
        return Speech(named("dsml"), marks, native=False, note=note)
    try:
        chosen = named(wanted)
    except KeyError:
        note = f"There is no tool syntax {wanted!r}: ds4.tools.syntax is taken as auto."
        found = speech(frames, AUTO, model)
        return Speech(found.syntax, found.marks, found.native, note)
    native = own is not None and own.shape == chosen.shape
    return Speech(own if native and own is not None else chosen, marks, native)


def _without_thought(samples: CallSamples, marks: Marks) -> CallSamples:
    """Samples without the empty thought that some templates begin a reply with: it is no mark of a call."""
    for opening, closing in marks.pairs:
        empty = re.compile(rf"\s*{re.escape(opening)}\s*{re.escape(closing)}\s*")
        if closing and samples.one and (found := empty.match(samples.one)):
            thought = found.group()
            texts = {name: getattr(samples, name) for name in ("one", "two", "after_text", "empty")}
            return replace(samples, **{name: text and text.removeprefix(thought) for name, text in texts.items()})
    return samples


def _marks(frames: Frames) -> Marks:
    thinking = frames.thinking
    if thinking is None:
        return Marks((THINK,), (frames.answer,) if frames.answer.strip() else ())
    hidden = [thinking.again + thinking.answer, thinking.answer, frames.answer]
    pair = (thinking.open.strip(), thinking.close.strip())
    return Marks((pair,), tuple(dict.fromkeys(text.strip() for text in hidden if text.strip())))
