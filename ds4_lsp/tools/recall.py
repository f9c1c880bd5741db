"""The tool ``recall``: what was said and shown in this session, also what a checkpoint stands for by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pydantic import Field, model_validator

from ds4_lsp.protocol.errors import NotFound
from ds4_lsp.session.events import Event
from ds4_lsp.tools.base import UNTAUGHT, Call, Fits, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.fitting import most
from ds4_lsp.tools.recalling import Message, Said, messages, render, search

PAGE_LINES = 200
PAGE_CHARACTERS = 8000
"""Most of an event that one call shows."""


class RecallArguments(ToolArguments):
    event: int | None = Field(None, ge=0, description="Number of an event to show.")
    query: str | None = Field(None, min_length=1, max_length=400, description="Words to find in the session.")
    start_line: int = Field(1, ge=1, json_schema_extra=UNTAUGHT, description="First line of the event.")

    @model_validator(mode="after")
    def _one(self) -> RecallArguments:
        if (self.event is None) == (self.query is None):
            raise ValueError("give either event or query")
        return self


class Recall(Tool[RecallArguments]):
    name = "recall"
    description = "Look up what was said or shown earlier in this session."
    one_of = (("event",), ("query",))
    Arguments = RecallArguments

    def __init__(self, events: Callable[[], Iterable[Event]], said: Said) -> None:
        self._events = events
        self._said = said

    async def run(self, arguments: RecallArguments, call: Call) -> ToolResult:
        """``NotFound``: no message has that number."""
        if arguments.query is not None:
            query = " ".join(arguments.query.split())
            # The log may be long: it is read from the disk.
            hits = await asyncio.to_thread(lambda: search(messages(self._events(), self._said), query))
            return ToolResult(render(hits, query))
        message = await asyncio.to_thread(self._message, arguments.event)
        if message is None:
            raise NotFound(f"Event {arguments.event} is no message of this session. `recall` with a query finds some.")
        return _page(message, arguments.start_line, PAGE_LINES)

    def _message(self, seq: int | None) -> Message | None:
        return next((one for one in messages(self._events(), self._said) if one.seq == seq), None)


def _page(message: Message, start: int, count: int) -> ToolResult:
    rows = message.text.split("\n")
    if start > len(rows):
        raise NotFound(f"Event {message.seq} has {len(rows)} lines: start_line={start} is beyond its end.")
    shown = _within(rows[start - 1 : start - 1 + count])

    async def less(fits: Fits) -> ToolResult | None:
        fewer = await most(len(shown) - 1, lambda fewer: fits(_text(message, rows, start, shown[:fewer])))
        return ToolResult(_text(message, rows, start, shown[:fewer])) if fewer else None

    return ToolResult(_text(message, rows, start, shown), part=less)


def _within(rows: list[str]) -> list[str]:
    """As many of the rows as a page has room for; of one that is longer than that its beginning."""
    size = 0
    kept: list[str] = []
    for row in rows:
        size += len(row) + 1
        if kept and size > PAGE_CHARACTERS:
            break
        kept.append(row if len(row) <= PAGE_CHARACTERS else f"{row[:PAGE_CHARACTERS]}… [cut]")
    return kept


def _text(message: Message, rows: list[str], start: int, shown: list[str]) -> str:
    end = start + len(shown) - 1
    head = f"Event {message.seq} ({message.who}), lines {start}-{end} of {len(rows)}:"
    rest = [f"[go on with start_line={end + 1}]"] if end < len(rows) else []
    return "\n".join([head, *shown, *rest])
