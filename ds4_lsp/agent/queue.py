"""Prompts waiting for their turn: durable in the session's log, awaited by whoever sent them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import PromptResult


@dataclass(eq=False)
class Pending:
    """One queued prompt. ``seq`` is its ``prompt/queued`` event; ``done`` resolves when its turn has ended."""

    session_id: str
    seq: int
    text: str
    context: list[dict[str, Any]]
    cancel: Cancel
    done: asyncio.Future[PromptResult]
    restored: bool = False


@dataclass
class Queue:
    """First in, first out, over all sessions. ``held``: nothing starts until the user sends again."""

    items: deque[Pending] = field(default_factory=deque)
    held: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, pending: Pending) -> None:
        self.items.append(pending)
        self.held = False
        self._wake.set()

    def restore(self, pending: Pending) -> None:
        """A prompt found in a reopened log: it waits until the user sends something."""
        self.items.append(pending)
        self.held = True

    def release(self) -> bool:
        """Let held prompts run; whether there were any."""
        had = self.held and bool(self.items)
        self.held = False
        self._wake.set()
        return had

    def hold(self) -> None:
        self.held = bool(self.items)

    def remove(self, pending: Pending) -> bool:
        if pending not in self.items:
            return False
        self.items.remove(pending)
        self.held = self.held and bool(self.items)
        return True

    def waiting(self, session_id: str | None = None) -> list[Pending]:
        return [item for item in self.items if session_id in (None, item.session_id)]

    def will_run(self, session_id: str) -> bool:
        """Whether a prompt for that session starts as soon as the running turn ends."""
        return not self.held and bool(self.waiting(session_id))

    async def head(self) -> Pending:
        """The next prompt to run; it stays in the queue until :meth:`remove`."""
        while self.held or not self.items:
            self._wake.clear()
            await self._wake.wait()
        return self.items[0]
