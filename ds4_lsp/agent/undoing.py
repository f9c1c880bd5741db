"""Taking back what a turn did to one file, through the guard, and saying to the user why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ds4_lsp.agent.assembly import log_edit, log_removal
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.undo import CHANGED_BETWEEN, CHANGED_SINCE, MADE_AND_CHANGED, Change, reverted
from ds4_lsp.edits import disk
from ds4_lsp.edits.guard import Whole
from ds4_lsp.edits.text import file_tag
from ds4_lsp.ports import Question
from ds4_lsp.protocol.errors import Denied, Ds4Error, NotApplied, NotFound, OutsideWorkspace, StaleFileTag
from ds4_lsp.tools.applying import EditDone, EditRequest, apply_guarded
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.workspace import Workspace


class Undoing:
    """One turn of one session, on behalf of one request. ``gate``: not the session's, since
    what the user answers to their own command is no part of that."""

    def __init__(self, services: Services, runtime: Runtime, turn: int, call: Call, gate: Gate) -> None:
        self._services = services
        self._runtime = runtime
        self._turn = turn
        self._call = call
        self._gate = gate
        workspace = Workspace(services.editor, gate, services.settings)
        self._files = Files(workspace, services.editor, runtime.views, services.settings)
        self._files.before_edit = runtime.files.before_edit

    async def take_back(self, change: Change) -> None:
        """Undo one file's changes, or raise ``Ds4Error`` with the file as it was."""
        await self._files.workspace.check(change.path, self._call)
        if change.creates:
            await self._unmake(change)
        else:
            await self._revert(change)

    async def _revert(self, change: Change) -> None:
        files, stored = self._files, self._runtime.session.blobs.get
        now = await files.load(change.path)
        text = await asyncio.to_thread(reverted, change, now.text, stored, files.settings().edits.guard)
        if text is None:
            raise StaleFileTag(CHANGED_BETWEEN if now.tag in change.left else CHANGED_SINCE)
        await self._write(
            change, text, now.tag, lambda done: log_edit(self._services, self._runtime, done, undoes=self._turn)
        )

    async def _write(
        self, change: Change, text: str, tag: str, on_edit: Callable[[EditDone], None] | None, *, save: bool = True
    ) -> None:
        request = EditRequest(
            change.path,
            Whole("exact"),
            text,
            tag,
            f"DS4: undo turn {self._turn}",
            require_shown=False,
            save=save,
        )
        await apply_guarded(self._files, request, self._call, on_edit=on_edit)

    async def _unmake(self, change: Change) -> None:
        """Remove a file that the turn created, as long as it is just what the turn left, in the editor and on disk."""
        await self._may_remove(change)
        files = self._files
        document = await files.editor.document(change.path)
        if document is not None and await self._is_unsaved(change):
            # Only the editor has the text. Emptied, its buffer brings nothing back when it is saved.
            tag = file_tag(document.text)
            if not change.is_proven or tag not in change.left:
                raise StaleFileTag(MADE_AND_CHANGED)
            await self._write(change, "", tag, None, save=False)
        async with files.lock(change.path):
            await self._remove(change)
        log_removal(
            self._services, self._runtime, change.uri, change.path, change.steps[-1].after_tag, undoes=self._turn
        )

    async def _is_unsaved(self, change: Change) -> bool:
        """Whether the disk has nothing of the file but, perhaps, the empty file that an editor makes first."""
        if change.steps[-1].saved:
            return False
        try:
            return not (await asyncio.to_thread(disk.read, change.path)).text
        except NotFound:
            return True

    async def _remove(self, change: Change) -> None:
        document = await self._services.editor.document(change.path)
        unsaved = await self._is_unsaved(change)
        in_editor = None if document is None or (unsaved and not document.text) else file_tag(document.text)
        # An editor that has it open notices that it is gone, as it does with any other program.
        await self._files.workspace.check(change.path, self._call)

        def remove() -> None:
            if unsaved and not change.path.exists():
                return
            on_disk = None if unsaved else file_tag(disk.read(change.path).text)
            if not change.is_proven or not {in_editor, on_disk} - {None} <= change.left:
                raise StaleFileTag(MADE_AND_CHANGED)
            try:
                disk.remove(change.path)
            except OSError as error:
                raise NotApplied(f"it could not be removed: {error.strerror}") from None

        await asyncio.to_thread(remove)

    async def _may_remove(self, change: Change) -> None:
        """``Denied``: the settings or the user do not want the file removed."""
        settings, name, key = self._files.settings(), self._files.workspace.display(change.path), str(change.path)
        await self._gate.check("write", detail=f"remove {name}", key=key, call=self._call)
        if settings.edits.confirm == "always" and settings.permissions.write != "ask":
            question = Question("write", "Remove this file, which the turn created?", name, key)
            if await self._files.editor.ask(question, self._call.cancel) not in ("once", "session"):
                raise Denied("Not removed: the user was asked.")


def told(error: Ds4Error) -> str:
    """An error as the reason that the user is given: what the model would be told to do next is not theirs to do."""
    match error:
        case StaleFileTag():
            ours = (CHANGED_SINCE, CHANGED_BETWEEN, MADE_AND_CHANGED)
            return error.message if error.message in ours else CHANGED_SINCE
        case NotFound():
            return "it is not there any more"
        case Denied():
            return "you did not allow it, or the setting ds4.permissions.write does not"
        case OutsideWorkspace():
            return "it is outside the workspace folders now"
        case _:
            return str(error.data.get("reason") or error.message)
