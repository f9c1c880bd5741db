"""``ds4.readFile``, ``ds4.applyEdit`` and ``ds4.undoTurn``: the guarded path, for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import chain
from typing import Any

from ds4_lsp.agent.earlier import undone
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.sessions import Sessions
from ds4_lsp.agent.undo import Change, changes
from ds4_lsp.agent.undoing import Undoing, told
from ds4_lsp.edits import leftovers
from ds4_lsp.edits.guard import Lines, OldText, Target, Whole
from ds4_lsp.edits.pages import page
from ds4_lsp.edits.text import LineIndex
from ds4_lsp.edits.views import FileViews
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol import commands as c
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest, NotFound
from ds4_lsp.tools.applying import EditRequest, apply_guarded
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.workspace import Workspace


class FileCommands:
    """Works without a session, but for undo. Clients have views of their own: the model's do not count for them."""

    def __init__(self, services: Services, sessions: Sessions) -> None:
        leftovers.clear()
        self._sessions = sessions
        self._services = services
        self._gate = Gate(services.settings, services.editor.ask, lambda _type, _data: None)
        workspace = Workspace(services.editor, self._gate, services.settings)
        self._views = FileViews()
        self._undoing = asyncio.Lock()
        self._tried: dict[str, dict[int, set[Change]]] = {}
        """By session and turn: what could not be undone, since the server started."""
        self._files = Files(workspace, services.editor, FileViews(), services.settings)
        self.handlers: dict[str, Callable[[Any, Cancel], Awaitable[c.Wire]]] = {
            "ds4.readFile": self._read,
            "ds4.applyEdit": self._apply,
            "ds4.undoTurn": self._undo,
        }

    async def _read(self, arguments: c.ReadFileArguments, cancel: Cancel) -> c.ReadFileResult:
        path = await self._files.workspace.resolve(arguments.uri, _call(cancel))
        loaded = await self._files.load(path)
        rows = LineIndex(loaded.text)
        if arguments.start_line > max(1, len(rows)):
            raise InvalidRequest(
                f"startLine: the file has {len(rows)} lines, {arguments.start_line} is beyond its end."
            )
        part = page(rows, arguments.start_line, arguments.max_lines, raw=arguments.raw)
        self._views.show(loaded.key, loaded.text, part.shown)
        return c.ReadFileResult(
            uri=loaded.uri,
            file_tag=loaded.tag,
            start_line=part.start,
            end_line=part.end,
            total_lines=part.total,
            text=part.body,
            version=loaded.version,
            source=loaded.source,
        )

    async def _apply(self, arguments: c.ApplyEditArguments, cancel: Cancel) -> c.ApplyEditResult:
        call = _call(cancel)
        path = await self._files.workspace.resolve(arguments.uri, call)
        request = EditRequest(
            path,
            _target(arguments),
            arguments.new_text,
            arguments.file_tag,
            arguments.label or "DS4: edit",
            require_shown=False,
        )
        done = await apply_guarded(self._files, request, call, views=self._views)
        return c.ApplyEditResult(
            applied=True,
            file_tag=done.current_tag,
            rebased=done.rebased,
            start_line=done.start_line,
            end_line=done.end_line,
            saved=done.saved,
        )

    async def _undo(self, arguments: c.UndoTurnArguments, cancel: Cancel) -> c.UndoTurnResult:
        runtime = self._sessions.get(arguments.session_id)
        async with self._undoing:
            return await self._undo_turn(runtime, arguments.turn, _call(cancel))

    async def _undo_turn(self, runtime: Runtime, number: int | None, call: Call) -> c.UndoTurnResult:
        tried = self._tried.setdefault(runtime.id, {})
        turn, found = changes(chain(runtime.session.events(), runtime.session.owed), number, tried)
        if not found:
            which = f"Turn {number}" if number else "The session"
            raise NotFound(f"{which} has changed no file, so there is nothing to undo.")
        tried[turn] = set()
        undoing = Undoing(self._services, runtime, turn, call, self._gate)
        done: list[str] = []
        skipped: list[c.SkippedFile] = []
        for change in found:
            try:
                await undoing.take_back(change)
                done.append(change.uri)
            except Ds4Error as error:
                tried[turn].add(change)
                skipped.append(c.SkippedFile(uri=change.uri, reason=told(error)))
        if done:
            runtime.notices.append(undone(turn, [change.path.name for change in found if change.uri in done]))
        return c.UndoTurnResult(reverted=done, skipped=skipped)


def _call(cancel: Cancel) -> Call:
    return Call("", 0, "", cancel)


def _target(arguments: c.ApplyEditArguments) -> Target:
    if arguments.old_text is not None:
        return OldText(arguments.old_text)
    if arguments.start_line is not None and arguments.end_line is not None:
        return Lines(arguments.start_line, arguments.end_line)
    return Whole()
