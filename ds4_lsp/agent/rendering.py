"""How the agent words what is not the model's: prompts with context, results, replies of other models. Pure."""

from __future__ import annotations

from typing import Any

from ds4_lsp.agent.documents import plain_text, thinking_text
from ds4_lsp.chat import render
from ds4_lsp.chat.frames import Frames
from ds4_lsp.ports import Segment
from ds4_lsp.session.events import Event
from ds4_lsp.syntax.block import Syntax


def user_text(data: dict[str, Any]) -> str:
    """A prompt as the model reads it: what was typed, after what goes along with it."""
    parts = [data.get("preface"), *(place.get("text") for place in data.get("context") or [])]
    return "\n\n".join([*filter(None, parts), data["text"]])


def result_of(event: Event, written_id: str | None, syntax: Syntax) -> render.Result:
    """A result as its frame needs it. ``written_id``: what its call is named by, where the call is on the surface."""
    data = event.data
    call_id = written_id or syntax.id_of(data["callId"], data["name"], 0)
    return render.Result(data["name"], call_id, data["text"])


def reply_segments(frames: Frames, syntax: Syntax, data: dict[str, Any], *, begins: bool) -> list[Segment]:
    """A reply that another model wrote, in this one's marks: its thoughts, its text, its calls. Only marks are special.
    ``begins``: the frame before it opens a thought already."""
    raw, thinking = data["text"], bool(data.get("thinking"))
    said = data.get("said", plain_text(raw, thinking) if data["calls"] else None)
    thought = data.get("thought", thinking_text(raw, thinking))
    if said is None:
        said = plain_text(raw, thinking) if thought else raw
    segments: list[Segment] = []
    if frames.thinking is not None and (thought.strip() or begins):
        segments += [] if begins else [Segment(frames.thinking.before, special=True)]
        segments += [*render.plain(frames, thought.strip()), Segment(frames.thinking.after, special=True)]
    segments += render.plain(frames, said.strip())
    calls = [
        (call["name"], call.get("arguments") or {}, call.get("id") or syntax.id_of(call["callId"], call["name"], index))
        for index, call in enumerate(data["calls"])
    ]
    if calls:
        for segment in syntax.segments(calls, text_precedes=bool(said.strip())):
            segments += [segment] if segment.special else render.plain(frames, segment.text)
    return [segment for segment in segments if segment.text]


def context_text(uri: str, text: str | None, diagnostic: str | None) -> str:
    """One place of a prompt's ``context``. ``text``: its lines as ``read`` shows them."""
    parts = [f"[The user points at {text or uri}]"]
    if diagnostic:
        parts.append(f"Problem reported there: {diagnostic}")
    return "\n".join(parts)
