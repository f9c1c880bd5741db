"""``ds4/event``: what a session does, as it does it.

Every event carries ``sessionId``, ``turn``, ``kind`` and the fields of its kind; nothing of a turn follows its
``turn.end``. Deltas are whole code points.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from ds4_lsp.protocol.commands import Wire

EVENT_FIELDS: dict[str, tuple[str, ...]] = {
    "state": ("state",),
    "queued": ("text",),
    "queue": ("items",),
    "turn.start": ("text",),
    "context": ("items", "text"),
    "text": ("delta",),
    "thinking": ("delta",),
    "tool.start": ("callId", "name"),
    "tool.delta": ("callId", "name", "parameter", "delta"),
    "tool.call": ("callId", "name", "arguments"),
    "tool.result": ("callId", "name", "ok", "text"),
    "edit": ("uri", "fileTag", "startLine", "endLine"),
    "job": ("job",),
    "notice": ("text",),
    "compaction.start": ("trigger", "tokens"),
    "compaction.delta": ("delta",),
    "compaction.end": ("compacted", "reason"),
    "usage": ("usage", "context"),
    "turn.end": ("stopReason", "error"),
}
"""The fields of each kind."""

DELTA_KINDS = frozenset({"text", "thinking", "tool.delta", "compaction.delta"})
"""Kinds whose ``delta`` may be joined with the next event of the same kind and target."""


class Event(Wire):
    """One ``ds4/event`` notification. ``seq`` is the log position of the event that it reports, where it has one."""

    model_config = ConfigDict(extra="allow")
    session_id: str
    turn: int
    kind: str
    seq: int | None = None
    data: dict[str, Any] = Field(default_factory=dict, exclude=True)

    def wire(self) -> dict[str, Any]:
        """The notification's parameters."""
        head: dict[str, Any] = {"sessionId": self.session_id, "turn": self.turn, "kind": self.kind}
        if self.seq is not None:
            head["seq"] = self.seq
        return head | self.data
