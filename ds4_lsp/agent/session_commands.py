"""Commands about sessions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ds4_lsp.agent.documents import plain_text, thinking_text
from ds4_lsp.agent.kv import Snapshots
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.sessions import Sessions
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol import commands as c
from ds4_lsp.protocol.errors import Busy, NotFound
from ds4_lsp.session import history
from ds4_lsp.session.events import Event

if TYPE_CHECKING:
    from ds4_lsp.agent.runner import Runner


def entries(events: Iterable[Event], turns: int | None) -> list[c.HistoryEntry]:
    """What the user saw of the last ``turns`` turns; None means all."""
    return history.entries(events, clean=plain_text, thought=thinking_text, turns=turns)


class SessionCommands:
    """One method per command; each acts on the worker's loop."""

    def __init__(self, services: Services, sessions: Sessions, runner: Runner, snapshots: Snapshots) -> None:
        self._services = services
        self._sessions = sessions
        self._runner = runner
        self._snapshots = snapshots
        self.handlers: dict[str, Any] = {
            "ds4.newSession": self._new,
            "ds4.listSessions": self._list,
            "ds4.switchSession": self._switch,
            "ds4.showHistory": self._history,
            "ds4.saveSession": self._save,
            "ds4.forkSession": self._fork,
            "ds4.deleteSession": self._delete,
            "ds4.exportSession": self._export,
        }

    async def _new(self, arguments: c.NewSessionArguments, cancel: Cancel) -> c.SessionResult:
        before = self._sessions.current
        runtime = self._sessions.create(arguments.title)
        if before is not None:
            self._runner.save_soon(before)
        self._services.rest()
        return c.SessionResult(session_id=runtime.id)

    async def _list(self, arguments: c.NoArguments, cancel: Cancel) -> c.SessionList:
        return c.SessionList(sessions=self._sessions.listing())

    async def _switch(self, arguments: c.SwitchSessionArguments, cancel: Cancel) -> c.SwitchSessionResult:
        before = self._sessions.current
        runtime = self._sessions.switch(arguments.session_id)
        if before is not None and before is not runtime:
            self._runner.save_soon(before)
        self._services.rest()
        self._runner.prepare_soon(runtime)
        return c.SwitchSessionResult(session_id=runtime.id, history=entries(runtime.session.events(), arguments.turns))

    async def _history(self, arguments: c.ShowHistoryArguments, cancel: Cancel) -> c.HistoryResult:
        _, events = self._sessions.reading(arguments.session_id)
        return c.HistoryResult(history=entries(events, arguments.turns))

    async def _save(self, arguments: c.SessionArguments, cancel: Cancel) -> c.SaveSessionResult:
        runtime = self._sessions.get(arguments.session_id)
        runtime.session.sync()
        saved = False
        if self._services.engine.info is not None:
            saved = await self._runner.save(runtime, cancel)
            if runtime.session.closed:
                raise NotFound(f"Session {runtime.id} was deleted or closed meanwhile.", sessionId=runtime.id)
        return c.SaveSessionResult(session_id=runtime.id, tokens=self._services.used(runtime), snapshot=saved)

    async def _fork(self, arguments: c.ForkSessionArguments, cancel: Cancel) -> c.SessionResult:
        runtime = self._sessions.fork(arguments.session_id, arguments.seq)
        self._services.rest()
        return c.SessionResult(session_id=runtime.id)

    async def _delete(self, arguments: c.DeleteSessionArguments, cancel: Cancel) -> c.DeleteSessionResult:
        runtime = self._sessions.find_open(arguments.session_id)
        if runtime is not None and self._runner.is_used(runtime):
            raise Busy(
                "The session has a running turn, a compaction or queued prompts. Interrupt it first, then delete it."
            )
        await self._sessions.delete(arguments.session_id)
        self._services.rest()
        return c.DeleteSessionResult(deleted=True)

    async def _export(self, arguments: c.ExportSessionArguments, cancel: Cancel) -> c.UriResult:
        directory, events = self._sessions.reading(arguments.session_id)
        markdown = arguments.format == "markdown"
        path = directory / ("export.md" if markdown else "export.jsonl")
        pieces = history.markdown_pieces(events, clean=plain_text) if markdown else history.jsonl_lines(events)
        history.write_export(path, pieces)
        return c.UriResult(uri=path.as_uri())
