"""From messages to segments. Frames and the built-in prompt are special; everything else is plain, for ever.

A transcript only grows: ``system``, then for each turn ``user``, ``assistant_open``, the sampled ids as they were
sampled, ``assistant_close``, and ``tool_result`` with ``assistant_open`` for each further round.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ds4_lsp.chat.frames import THINK_CLOSE, THINK_OPEN, Frames
from ds4_lsp.chat.results import Piece
from ds4_lsp.chat.split import APART
from ds4_lsp.ports import Segment


@dataclass(frozen=True)
class Result:
    """A tool's result. ``call_id``: as the call names itself, where its syntax has such a thing; else empty."""

    name: str
    call_id: str
    text: str


def system(frames: Frames, builtin: str, extra_plain: str) -> list[Segment]:
    """The transcript's head. ``extra_plain``: workspace paths, the user's own system prompt."""
    before = frames.start + frames.system.before + builtin
    if frames.environment_in_user:
        head = _frame(before.rstrip() + frames.system.after)
        return _joined([head, *plain(frames, extra_plain.strip()), _frame(APART)])
    return _joined([_frame(before), *plain(frames, extra_plain), _frame(frames.system.after)])


def user(frames: Frames, text: str, *, first: bool = False) -> list[Segment]:
    """A user message. ``first``: it follows ``system`` directly, whose frame it shares with some models."""
    before = "" if first and frames.merges_system else frames.user.before
    return _joined([_frame(before), *plain(frames, text), _frame(frames.user.after)])


def tool_result(frames: Frames, call_id: str, name: str, ok: bool, text: str) -> list[Segment]:
    """A tool's result, as a message in the user's role: every model has that one."""
    return user(frames, f"Tool result {call_id} ({name}, {'ok' if ok else 'error'}):\n{text}")


def result(frames: Frames, shown: Result, row: Sequence[Result] = ()) -> list[Segment]:
    """One result in the template's frame, ``row`` being those before it. Its frame is not closed yet: the next result
    does that, or ``results_end`` before anything else. Without such a frame it is a user's message, as ``tool_result``.
    """
    results = frames.results
    if results is None:
        return user(frames, f"Tool result ({shown.name}):\n{shown.text}")
    text = shown.text
    if results.escaped != "no":
        text = json.dumps(text, ensure_ascii=results.escaped == "ascii")[1:-1]
    return _joined([*_filled(frames, results.next if row else results.first, shown, row), *plain(frames, text)])


def results_end(frames: Frames, row: Sequence[Result]) -> list[Segment]:
    """What closes a row of results, before a reply is asked for or a user's message follows."""
    return _joined(_filled(frames, frames.results.last, row[-1], row)) if frames.results else []


def assistant_open(frames: Frames, thinking: bool, *, results: bool = False) -> tuple[list[Segment], bool]:
    """What asks for a reply, and whether the reply begins inside a thought. ``results``: it follows results."""
    opened = frames.assistant_open if thinking else frames.assistant_open_nothink
    begins = thinking and frames.begins_thinking
    if results and frames.results and frames.results.reopened is not None:
        again = frames.results.reopened_nothink
        opened = frames.results.reopened if thinking or again is None else again
        begins = thinking and frames.thinking is not None and opened.rstrip().endswith(frames.thinking.open)
    return _joined([_frame(opened)]), begins


def assistant_close(frames: Frames, ended: bool, *, called: bool = False) -> list[Segment]:
    """What follows the sampled ids. ``ended``: their last one is an end token. ``called``: results follow."""
    end_text, separator = frames.end_text, frames.separator
    if called and frames.results:
        end_text, separator = frames.results.end_text, frames.results.separator
    return _joined([_frame(separator if ended else end_text + separator)])


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


def _filled(frames: Frames, pieces: Sequence[Piece], shown: Result, row: Sequence[Result]) -> list[Segment]:
    """A result's frame: what is the template's is special, names and ids are not."""
    segments: list[Segment] = []
    for piece in pieces:
        about = row[-1] if piece.previous and row else shown
        match piece.kind:
            case "frame":
                segments.append(_frame(piece.text))
            case "number":
                segments.append(Segment(str(int(piece.text) + len(row))))
            case "name":
                segments += plain(frames, about.name)
            case "id":
                made = piece.text.replace("{number}", str(len(row))).replace("{name}", about.name)
                segments += plain(frames, about.call_id or made)
    return segments


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
