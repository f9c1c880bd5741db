"""From messages to segments. Frames and the built-in prompt are special; everything else is plain, for ever.

A transcript only grows: ``system``, then for each turn ``user``, ``assistant_open``, the sampled ids as they were
sampled, ``assistant_close``, and ``tool_result`` with ``assistant_open`` for each further round.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ds4_lsp.chat.frames import THINK_CLOSE, THINK_OPEN, Frames
from ds4_lsp.ports import Segment


def system(frames: Frames, builtin: str, extra_plain: str) -> list[Segment]:
    """The transcript's head. ``extra_plain``: workspace paths, the user's own system prompt."""
    before = frames.start + frames.system.before + builtin
    return _joined([Segment(before, special=True), *plain(frames, extra_plain), _frame(frames.system.after)])


def user(frames: Frames, text: str, *, first: bool = False) -> list[Segment]:
    """A user message. ``first``: it follows ``system`` directly, whose frame it shares with some models."""
    before = "" if first and frames.merges_system else frames.user.before
    return _joined([_frame(before), *plain(frames, text), _frame(frames.user.after)])


def tool_result(frames: Frames, call_id: str, name: str, ok: bool, text: str) -> list[Segment]:
    """A tool's result, as a message in the user's role: every model has that one."""
    return user(frames, f"Tool result {call_id} ({name}, {'ok' if ok else 'error'}):\n{text}")


def assistant_open(frames: Frames, thinking: bool) -> tuple[list[Segment], bool]:
    """What asks for a reply, and whether the reply begins inside ``<think>``."""
    opened = frames.assistant_open if thinking else frames.assistant_open_nothink
    return _joined([_frame(opened)]), thinking and frames.begins_thinking


def assistant_close(frames: Frames, ended: bool) -> list[Segment]:
    """What follows the sampled ids. ``ended``: their last one is an end token."""
    return _joined([_frame(frames.separator if ended else frames.end_text + frames.separator)])


def assistant_text(frames: Frames, text: str, *, thinking: bool) -> list[Segment]:
    """A reply whose ids are of another model, tokenised anew. ``thinking``: it began inside ``<think>``. Of its marks
    only the one that ended its own thinking is a control token."""
    if not (thinking and frames.thinking):
        return _joined(plain(frames, text))
    thought, mark, rest = text.partition(frames.thinking.close)
    return _joined([*plain(frames, thought), _frame(mark), *plain(frames, rest)])


def plain(frames: Frames, text: str) -> list[Segment]:
    """Text from outside. Joined, the segments give ``text`` back."""
    return [Segment(piece) for piece in _cuts(frames.marks).split(text) if piece]


@lru_cache(maxsize=8)
def _cuts(marks: tuple[str, ...]) -> re.Pattern[str]:
    """Where plain text is cut: inside of every mark. Some vocabularies hold marks as user-defined tokens, which a
    tokenizer finds in plain text too: a file's "</think>" must not end the model's own thinking."""
    inside = [r"(?<=｜)(?=DSML｜)"]
    for mark in {THINK_OPEN, THINK_CLOSE, *marks}:
        head = 2 if mark.startswith("</") else 1
        inside.append(f"(?<={re.escape(mark[:head])})(?={re.escape(mark[head:])})")
    return re.compile("|".join(inside))


def _frame(text: str) -> Segment:
    return Segment(text, special=True)


def _joined(segments: list[Segment]) -> list[Segment]:
    return [segment for segment in segments if segment.text]
