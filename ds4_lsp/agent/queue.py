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
    held: bool = False
    """Does not start until the user releases it: Stop held it, or an earlier server left it behind."""
    waited: bool = True
    """Whether a request waits for ``done``: otherwise a failure has to be told in another way."""
    preface: str = ""
    """What the model is shown before the prompt and its places; see ``attached``."""


@dataclass
class Queue:
    """First in, first out, over all sessions. A held prompt waits until it is released; others pass it."""

    items: deque[Pending] = field(default_factory=deque)
    closed: bool = False
    """Nothing in it runs any more."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, pending: Pending) -> None:
        self.items.append(pending)
        self._wake.set()

    def restore(self, pending: Pending) -> None:
        """A prompt found in a reopened log: nobody asked for it now."""
        pending.held = True
        self.items.append(pending)

    def find(self, session_id: str, seq: int) -> Pending | None:
        """The prompt of that ``prompt/queued`` event, while it waits."""
        return next((item for item in self.waiting(session_id) if item.seq == seq), None)

    def release(self, *items: Pending) -> None:
        """Let held prompts run."""
        for item in items:
            item.held = False
        self._wake.set()

    def hold(self, session_id: str | None = None) -> None:
        """Keep what waits from running, in one session or all."""
        for item in self.waiting(session_id):
            item.held = True

    def remove(self, pending: Pending) -> bool:
        if pending not in self.items:
            return False
        self.items.remove(pending)
        return True

    def waiting(self, session_id: str | None = None) -> list[Pending]:
        return [item for item in self.items if session_id in (None, item.session_id)]

    def next(self, session_id: str | None = None) -> Pending | None:
        """The first that is not held."""
        if self.closed:
            return None
        return next((item for item in self.waiting(session_id) if not item.held), None)

    def will_run(self, session_id: str) -> bool:
        """Whether a prompt for that session starts as soon as the running turn ends."""
        return self.next(session_id) is not None

    async def head(self) -> Pending:
        """The next prompt to run; it stays in the queue until :meth:`remove`."""
        while (pending := self.next()) is None:
            self._wake.clear()
            await self._wake.wait()
        return pending
