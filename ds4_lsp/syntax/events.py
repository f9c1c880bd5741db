"""What a parsed reply consists of, in the order in which it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Text:
    delta: str


@dataclass(frozen=True)
class Thinking:
    delta: str


@dataclass(frozen=True)
class ToolStart:
    """``index`` counts the calls of a reply from 0."""

    index: int
    name: str


@dataclass(frozen=True)
class ParameterDelta:
    """A piece of a parameter's value as it was written (raw text or JSON)."""

    index: int
    name: str
    parameter: str
    delta: str


@dataclass(frozen=True)
class ToolCall:
    """A complete call. ``error``: why it cannot run, in words for the model; None if its form is right. ``written_id``:
    the id that the model gave it, where its syntax has such."""

    index: int
    name: str
    arguments: dict[str, Any]
    error: str | None
    written_id: str = ""


@dataclass(frozen=True)
class CallsEnd:
    """The block of calls was closed."""


@dataclass(frozen=True)
class Malformed:
    """Markup that is no call. ``message`` tells the model what to write instead; ``text`` is what was written, from
    the fault on, unless it came out as other events. ``index``: the started call that will get no ``ToolCall``."""

    message: str
    text: str
    index: int | None = None


@dataclass(frozen=True)
class DroppedCall:
    """A block of calls inside thinking: it does not run; its text comes as ``Thinking``."""

    message: str


ParserEvent = Text | Thinking | ToolStart | ParameterDelta | ToolCall | CallsEnd | Malformed | DroppedCall
