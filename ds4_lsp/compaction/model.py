"""What compaction looks at, asks for and answers: the surface's nodes, the limits, the outcomes.

Sizes are tokens of the loaded model unless a name says characters (code points). ``position`` and ``seq`` are 0-based.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ds4_lsp.protocol.commands import CompactionResult
from ds4_lsp.protocol.errors import Ds4Error

Trigger = Literal["soft", "hard", "generation", "overflow", "manual"]
Role = Literal["user", "assistant", "tool"]
Kind = Literal["prompt", "checkpoint", "notice", "reply", "result"]


@dataclass(frozen=True)
class Item:
    """One node of the surface. ``tokens`` includes its chat frame, so that the items add up to the transcript.

    ``calls``: ids of the tool calls in an assistant message that need a result; ``result_for``: the call that a tool
    result answers; ``name``: that tool's name. ``original``: the event that has all of a message that was shortened.
    """

    seq: int
    position: int
    role: Role
    kind: Kind
    tokens: int
    text: str
    calls: frozenset[str] = frozenset()
    result_for: str | None = None
    name: str = ""
    original: int | None = None

    @property
    def whole(self) -> int:
        """seq of the event with the whole text."""
        return self.seq if self.original is None else self.original


@dataclass(frozen=True)
class Shortened:
    """What the item with ``seq`` becomes: ``tokens`` as :attr:`Item.tokens`, ``data`` of the event to write."""

    seq: int
    tokens: int
    data: dict[str, Any]


@dataclass(frozen=True)
class Speeds:
    """Measured engine speeds, tokens per second; None while nothing was measured."""

    prefill: float | None = None
    decode: float | None = None


@dataclass(frozen=True)
class SummaryRequest:
    """One question to the model. The transcript asked on is: system prompt, ``before`` as a user message (if any), the
    surface items ``start`` to ``stop`` (exclusive), ``text`` as a user message.

    ``live``: that is the transcript as it stands in the KV, so that only ``text`` is evaluated: without the results
    that the model has not read.
    """

    text: str
    max_tokens: int
    start: int
    stop: int
    live: bool
    before: str | None = None


@dataclass(frozen=True)
class Summary:
    """The model's answer, without end token or marker. ``usage`` has the fields of ``protocol.commands.Usage`` as they
    go on the wire."""

    text: str
    tokens: int
    reason: Literal["end", "stop", "length", "cancelled"]
    usage: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PrunedNode:
    """One tool result that shrank; sizes in code points."""

    original_seq: int
    replacement_seq: int
    call_id: str
    chars_before: int
    chars_after: int


@dataclass(frozen=True)
class PruneResult:
    pruned: tuple[PrunedNode, ...]
    chars_removed: int

    def wire(self) -> dict[str, Any]:
        """The result as ``compaction.end`` carries it."""
        nodes = [
            {
                "originalSeq": node.original_seq,
                "replacementSeq": node.replacement_seq,
                "callId": node.call_id,
                "charsBefore": node.chars_before,
                "charsAfter": node.chars_after,
            }
            for node in self.pruned
        ]
        return {"pruned": nodes, "charsRemoved": self.chars_removed}


@dataclass(frozen=True)
class Compacted:
    """The checkpoint is in the log. ``rebuild_error``: the engine failed after that; the next turn rebuilds the KV."""

    result: CompactionResult
    rebuild_error: Ds4Error | None = None


@dataclass(frozen=True)
class Pruned:
    """Shrinking tool results was enough. ``rebuild_error`` as in :class:`Compacted`."""

    result: PruneResult
    before_tokens: int
    after_tokens: int
    rebuild_error: Ds4Error | None = None


@dataclass(frozen=True)
class Nothing:
    """No event was written, because there is nothing that compaction could do. ``reason`` is for the user."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """The attempt is in the log as ``compact/end {error}`` if it had begun; the surface is unchanged."""

    reason: str
    cancelled: bool = False


Outcome = Compacted | Pruned | Nothing | Failed
