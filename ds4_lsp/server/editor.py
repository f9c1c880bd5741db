"""``ports.Editor`` for the agent, on the worker's thread: documents, folders, edits, questions."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from ds4_lsp.edits import disk, text, uris
from ds4_lsp.ports import Answer, Applied, Cancel, FileEdit, OpenDocument, Question
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest
from ds4_lsp.protocol.settings import EditSettings
from ds4_lsp.server.applying import Applier, Outcome
from ds4_lsp.server.approvals import Approvals
from ds4_lsp.server.client import Client
from ds4_lsp.server.documents import Document, DocumentStore
from ds4_lsp.server.worker import Loop

log = logging.getLogger(__name__)

UNVERSIONED = (
    "the editor takes edits without a version (it lacks workspace.workspaceEdit.documentChanges), so this one could "
    "land on what the user types meanwhile. Files that are not open in it can be edited: ask the user to close this one"
)
ELSEWHERE = "its path leads somewhere else now, or out of the workspace folders"


class ServerEditor:
    """The client as the agent sees it. ``main`` is the LSP loop, where everything that talks to the client runs."""

    def __init__(
        self,
        main: Loop,
        *,
        documents: DocumentStore,
        applier: Applier,
        approvals: Approvals,
        client: Callable[[], Client],
        settings: Callable[[], EditSettings],
    ) -> None:
        self._main = main
        self._documents = documents
        self._applier = applier
        self._approvals = approvals
        self._client = client
        self._settings = settings
        self._folders: tuple[str, ...] = ()
        self._session_document: str | None = None

    # --- told by the LSP loop; each assignment is atomic ----------------------------------------------------------

    def set_folders(self, folders: Iterable[str]) -> None:
        self._folders = tuple(folders)

    def change_folders(self, *, added: Iterable[str], removed: Iterable[str]) -> None:
        gone = {uris.canonical(uri) for uri in removed}
        kept = [uri for uri in self._folders if uris.canonical(uri) not in gone]
        known = {uris.canonical(uri) for uri in kept}
        self._folders = (*kept, *(uri for uri in added if uris.canonical(uri) not in known))

    def note_session_document(self, uri: str) -> None:
        """The session's first document is one that its user points at."""
        if self._session_document is None:
            self._session_document = uri

    def forget_session_document(self) -> None:
        self._session_document = None

    # --- ports.Editor -----------------------------------------------------------------------------------------------

    @property
    def roots(self) -> tuple[Path, ...]:
        paths = (uris.to_path(uri) for uri in self._folders)
        return tuple(dict.fromkeys(_real(path) for path in paths if path is not None))

    @property
    def current_root(self) -> Path | None:
        """The folder of the session's first document; of the first one open, before the user pointed at any."""
        roots = self.roots
        candidates = [self._session_document, *(document.uri for document in self._documents.all())]
        for uri in candidates:
            path = None if uri is None else uris.to_path(uri)
            holder = None if path is None else _innermost(_real(path), roots)
            if holder is not None:
                return holder
        return roots[0] if roots else None

    @property
    def trusted(self) -> bool:
        return self._client().trusted

    @property
    def saves_open_documents(self) -> bool:
        client = self._client()
        return self._settings().save and (client.guarded_apply or client.save_document)

    async def document(self, path: Path) -> OpenDocument | None:
        found = self._documents.get(uris.from_path(path))
        if found is not None:
            return _open(found, path)
        # It may be open by another name (a symlink, another case).
        wanted = _real(path)
        return next((document for document in await self.documents() if document.path == wanted), None)

    async def documents(self) -> tuple[OpenDocument, ...]:
        located = ((document, uris.to_path(document.uri)) for document in self._documents.all())
        return tuple(_open(document, path) for document, path in located if path is not None)

    async def apply(self, edit: FileEdit) -> Applied:
        confirm = self._settings().confirm == "always"
        client = self._client()
        in_editor = edit.version is not None or _guards_unopened(edit, client)
        if edit.version is not None and not (client.guarded_apply or client.document_changes):
            return Applied(saved=False, failure=UNVERSIONED)
        if confirm and not (in_editor and client.annotations):
            refused = await self._confirm(edit)
            if refused is not None:
                return refused
        if not in_editor:
            return await asyncio.to_thread(self._write, edit)
        return await self._apply_in_editor(edit, confirm=confirm and client.annotations)

    async def _confirm(self, edit: FileEdit) -> Applied | None:
        """Ask in words; None where the user agrees and the file is where it was."""
        inside = self._contains(edit.path)
        answer = await self._main.call(self._approvals.confirm(f"{edit.label}\n{edit.path}"))
        if answer is not True:
            reason = "the user rejected it" if answer is False else "nobody could be asked to confirm it"
            return Applied(saved=False, failure=reason, rejected=answer is False)
        # Minutes may have passed.
        if not disk.is_real(edit.path) or (inside and not self._contains(edit.path)):
            return Applied(saved=False, failure=ELSEWHERE)
        return None

    async def _apply_in_editor(self, edit: FileEdit, *, confirm: bool) -> Applied:
        if edit.version is not None and edit.save and await asyncio.to_thread(self._is_newer_on_disk, edit):
            edit = replace(edit, save=False)
        outcome = await self._main.call(self._applier.apply(edit, confirm=confirm))
        if outcome.rejected:
            return Applied(saved=False, failure="the user rejected it", rejected=True)
        if edit.version is None:
            return await asyncio.to_thread(self._verify_unopened, edit, outcome)
        if outcome.failure is not None:
            return Applied(saved=False, failure=outcome.failure)
        return await asyncio.to_thread(self._look_for_save, edit, outcome)

    async def ask(self, question: Question, cancel: Cancel) -> Answer:
        asked = self._main.submit(self._approvals.ask(question))

        def withdraw() -> None:
            asked.cancel()

        forget = cancel.on_set(withdraw)
        try:
            return await asyncio.wrap_future(asked)
        except asyncio.CancelledError:
            if cancel.is_set:
                return "deny"
            raise
        finally:
            forget()

    def _contains(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)

    def _is_newer_on_disk(self, edit: FileEdit) -> bool:
        """Whether another program has saved the file since the editor opened or saved it: a save would undo that."""
        document = self._documents.get(edit.uri)
        if document is None:
            return False
        try:
            found = text.unify(disk.read(edit.path).text)
        except Ds4Error:
            # Gone, or in an encoding that only the editor knows.
            return False
        # Some editors show mixed line endings as one kind.
        return found not in (text.unify(document.base), text.unify(edit.before))

    def _look_for_save(self, edit: FileEdit, outcome: Outcome) -> Applied:
        """Whether the disk has the edit, whatever the editor says: a command that runs next has to see it."""
        try:
            written = disk.read(edit.path).text
        except InvalidRequest:
            # In an encoding that only the editor knows: its word has to do.
            return Applied(saved=outcome.saved)
        except Ds4Error:
            return Applied(saved=False)
        found, document = text.file_tag(written), self._documents.get(edit.uri)
        # A formatter that runs on save changes both.
        if found == edit.after_tag or (document is not None and written == document.text):
            self._documents.saved(edit.uri, written)
            return Applied(saved=True, saved_tag=found if found == outcome.file_tag else None)
        return Applied(saved=False)

    def _verify_unopened(self, edit: FileEdit, outcome: Outcome) -> Applied:
        """What became of the edit of a file that was not open: the disk shows it, else the document that the editor
        opened for it."""
        try:
            found = text.file_tag(disk.read(edit.path).text)
        except Ds4Error as error:
            found = None
            log.info("after an edit: %s", error.message)
        if found == edit.after_tag:
            return Applied(saved=True)
        if outcome.failure is not None:
            return Applied(saved=False, failure=outcome.failure)
        document = self._documents.get(edit.uri)
        shown = {outcome.file_tag, text.file_tag(document.text) if document is not None and outcome.seen else None}
        if found is not None and found in shown - {None, edit.before_tag}:
            # A formatter ran on save. Only what was seen to follow the edit is taken for its doing.
            own = outcome.seen and found == outcome.file_tag
            return Applied(saved=True, saved_tag=found if own else None)
        if outcome.seen:
            return Applied(saved=False)
        return Applied(
            saved=False, failure="the editor answered that it applied the edit, but the file does not have it"
        )

    def _write(self, edit: FileEdit) -> Applied:
        """Write an unopened file; its text is looked at once more just before."""
        located = (uris.to_path(document.uri) for document in self._documents.all())
        if any(path is not None and _real(path) == edit.path for path in located):
            return Applied(saved=False, failure="the file was opened in the editor meanwhile")
        if not disk.is_real(edit.path):
            return Applied(saved=False, failure=ELSEWHERE)
        try:
            disk.write(edit.path, edit.after, None if edit.create else edit.before_tag)
        except Ds4Error as error:
            return Applied(saved=False, failure=error.message)
        return Applied(saved=True)


def _guards_unopened(edit: FileEdit, client: Client) -> bool:
    """Whether the client looks at a file that is not open before it edits it.

    ``workspace/applyEdit`` names no version of such a file, so nothing would keep the edit off a text that has changed
    meanwhile: without the guarded request the server writes the file, and looks itself.
    """
    return client.guarded_apply and (not edit.create or (client.create_files and client.document_changes))


def _open(document: Document, path: Path) -> OpenDocument:
    return OpenDocument(document.client_uri, _real(path), document.version, document.text)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _innermost(path: Path, roots: tuple[Path, ...]) -> Path | None:
    holders = [root for root in roots if path.is_relative_to(root)]
    return max(holders, key=lambda root: len(root.parts), default=None)
