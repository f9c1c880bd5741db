"""The gate that a tool passes before it runs a command, changes a file or leaves the workspace.

The setting of its kind decides: ``allow``, ``deny``, or ``ask`` the user. An answer of "for this session" covers the
same key of the same kind until the session is closed, and is kept in memory only. ``bashAllow`` spares the question,
not the prohibition: with ``deny`` no command runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from ds4_lsp.ports import Answer, Cancel, Question
from ds4_lsp.protocol.errors import Cancelled, Denied
from ds4_lsp.protocol.settings import Permission, PermissionSettings, Settings
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.permissions_patterns import allowed

log = logging.getLogger("ds4_lsp.permissions")

Kind = Literal["bash", "write", "outsideWorkspace"]
Decision = Literal["allow", "deny", "pattern", "remembered", "once", "session", "unavailable"]
"""``allow``/``deny`` by the setting or, ``deny``, by the user; ``pattern`` by bashAllow; ``remembered`` from an earlier
answer; the others are the user's answer to a question."""

_TITLES: dict[Kind, str] = {
    "bash": "Run this command?",
    "write": "Change this file?",
    "outsideWorkspace": "Use this path outside the workspace?",
}
_DEEDS: dict[Kind, str] = {
    "bash": "run this command",
    "write": "change this file",
    "outsideWorkspace": "use this path outside the workspace",
}


class Gate:
    """One session's permissions. ``record`` writes to the session log; what it cannot write does not pass."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        ask: Callable[[Question, Cancel], Awaitable[Answer]],
        record: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._settings = settings
        self._ask = ask
        self._record = record
        self._remembered: set[tuple[Kind, str]] = set()
        self._asking = asyncio.Lock()

    async def check(self, kind: Kind, *, detail: str, key: str, call: Call) -> None:
        """Return if it may be done. ``detail`` is shown to the user in full; ``key`` is what an answer for the session
        covers. Errors: ``Denied``, ``Cancelled`` (the turn was interrupted at the question)."""
        decision = self._decide(kind, detail, key)
        asked = False
        if decision is None:
            # One question at a time, so that an answer for the session spares the next one like it.
            async with self._asking:
                decision = self._decide(kind, detail, key)
                if decision is None:
                    asked = True
                    self._record("permission/asked", {"kind": kind, "detail": detail, "callId": call.call_id})
                    decision = await self._answer(Question(kind, _TITLES[kind], detail, key), call.cancel)
                    if decision == "session":
                        self._remembered.add((kind, key))
        self._record("permission/decided", {"kind": kind, "answer": decision, "callId": call.call_id})
        if decision in ("deny", "unavailable"):
            if call.cancel.is_set:
                raise Cancelled("Not done: the user interrupted the turn.")
            raise Denied(_refusal(kind, decision, asked=asked))

    def _decide(self, kind: Kind, detail: str, key: str) -> Decision | None:
        permissions = self._settings().permissions
        setting = _setting(permissions, kind)
        if setting != "ask":
            return setting
        if (kind, key) in self._remembered:
            return "remembered"
        if kind == "bash" and allowed(detail, permissions.bash_allow):
            return "pattern"
        return None

    async def _answer(self, question: Question, cancel: Cancel) -> Answer:
        try:
            return await self._ask(question, cancel)
        except Exception:
            log.exception("a question could not be asked")
            return "unavailable"


def _setting(permissions: PermissionSettings, kind: Kind) -> Permission:
    match kind:
        case "bash":
            return permissions.bash
        case "write":
            return permissions.write
        case "outsideWorkspace":
            return permissions.outside_workspace


def _refusal(kind: Kind, decision: Decision, *, asked: bool) -> str:
    deed, setting = _DEEDS[kind], f"ds4.permissions.{kind}"
    if not asked:
        return f'Denied: the setting {setting} is "deny". Go on without it, and tell the user what you could not do.'
    if decision == "unavailable":
        return (
            f"Denied: the user was asked whether you may {deed}, and no answer came, which counts as no. Go on without "
            f'it, and tell the user that {setting} can be set to "allow".'
        )
    return f"Denied: the user does not want you to {deed}. Do not try it another way: go on without it, or ask why."
