"""Questions to the user (``window/showMessageRequest``). Whatever is not a clear yes is a no."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from ds4_lsp.ports import Answer, Question
from ds4_lsp.server.client import Client
from ds4_lsp.server.protocol import ClientError, Protocol

log = logging.getLogger(__name__)

PATIENCE = 600.0
"""Seconds that the user has to answer."""
ANSWERS: Mapping[str, Answer] = {
    "Allow once": "once",
    "Allow for this session": "session",
    "Deny": "deny",
}
CONFIRM = {"Apply": "once", "Reject": "deny"}
WARNING = 2


class Approvals:
    """Asked on the LSP loop."""

    def __init__(self, protocol: Protocol, client: Callable[[], Client]) -> None:
        self._protocol = protocol
        self._client = client

    async def ask(self, question: Question) -> Answer:
        """``unavailable``: the client cannot ask, or did not answer. Dismissing the question is ``deny``."""
        title = await self._ask(f"{question.title}\n{question.detail}", list(ANSWERS))
        return "unavailable" if title is None else ANSWERS.get(title, "deny")

    async def confirm(self, text: str) -> bool | None:
        """A plain yes or no; None where nobody can be asked."""
        title = await self._ask(text, list(CONFIRM))
        return None if title is None else title == "Apply"

    async def _ask(self, text: str, titles: list[str]) -> str | None:
        """The chosen title, empty when none was chosen; None where the client cannot ask."""
        if not self._client().message_requests:
            return None
        params = {"type": WARNING, "message": text, "actions": [{"title": title} for title in titles]}
        try:
            chosen = await asyncio.wait_for(self._protocol.ask("window/showMessageRequest", params), PATIENCE)
        except (ClientError, TimeoutError) as error:
            log.warning("the client did not answer a question: %s", error or "no answer")
            return None
        title = chosen.get("title") if isinstance(chosen, dict) else None
        return title if isinstance(title, str) else ""
