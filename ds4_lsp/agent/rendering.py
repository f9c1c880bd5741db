"""How the agent words what is not the model's: prompts with context, tool results, notices. Pure."""

from __future__ import annotations

from typing import Any

from ds4_lsp.chat import render
from ds4_lsp.chat.frames import Frames
from ds4_lsp.ports import Segment
from ds4_lsp.session.events import Event


def user_text(data: dict[str, Any]) -> str:
    """A prompt as the model reads it: what was typed, after what goes along with it."""
    parts = [data.get("preface"), *(place.get("text") for place in data.get("context") or [])]
    return "\n\n".join([*filter(None, parts), data["text"]])


def node_segments(frames: Frames, event: Event, *, first: bool) -> list[Segment]:
    """Segments of a user or tool node; everything from outside is plain."""
    data = event.data
    if event.type == "tool/result":
        return list(render.tool_result(frames, data["callId"], data["name"], bool(data["ok"]), data["text"]))
    return list(render.user(frames, user_text(data), first=first))


def context_text(uri: str, text: str | None, diagnostic: str | None) -> str:
    """One place of a prompt's ``context``. ``text``: its lines as ``read`` shows them."""
    parts = [f"[The user points at {text or uri}]"]
    if diagnostic:
        parts.append(f"Problem reported there: {diagnostic}")
    return "\n".join(parts)
