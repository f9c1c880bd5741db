"""Sending an edit to the editor, and finding out what became of it (edits.md, "Applying", 2 to 5).

The client's answer is never proof: some say ``applied`` for an edit that they skipped. Proof is the text that the
document then has. Runs on the LSP loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ds4_lsp.ports import FileEdit
from ds4_lsp.server.client import Client
from ds4_lsp.server.documents import DocumentStore
from ds4_lsp.server.protocol import ClientError, Protocol
from ds4_lsp.server.workspace_edit import applied_twice, guard, workspace_edit

log = logging.getLogger(__name__)

VERIFY = 2.0
"""Seconds for an open document to change: after the request, and after its answer."""
WORKING = 30.0
"""Seconds for a client to open a file that is not open, or to save one: language servers start, formatters run."""
PREVIEW = 600.0
"""Seconds for the user to look at a preview."""


@dataclass(frozen=True)
class Outcome:
    """``seen``: the editor's document had exactly the text expected. ``saved`` and ``file_tag``: as the client says."""

    seen: bool = False
    saved: bool = False
    file_tag: str | None = None
    failure: str | None = None
    rejected: bool = False


class Applier:
    """One edit at a time per file is the caller's business; several files may be under way."""

    def __init__(self, protocol: Protocol, documents: DocumentStore, client: Callable[[], Client]) -> None:
        self._protocol = protocol
        self._documents = documents
        self._client = client

    async def apply(self, edit: FileEdit, *, confirm: bool) -> Outcome:
        """Never raises for what the client does."""
        problem = self._moved_on(edit)
        if problem is not None:
            return Outcome(failure=problem)
        with self._watching(edit) as seen:
            answer = await self._send(edit, seen, confirm=confirm)
            if isinstance(answer, Outcome):
                return answer
            if edit.version is not None:
                await asyncio.wait({seen}, timeout=VERIFY)
                if not _happened(seen):
                    return Outcome(
                        failure=f"the editor answered that it applied the edit, but the document did not change as "
                        f"expected within {VERIFY:.0f} s"
                    )
            if self._twice(edit):
                return Outcome(failure="the editor applied the edit twice")
            saved = answer.get("saved") is True or await self._save(edit)
            if not saved:
                # An unopened file's proof is the disk; without a save it is the document that the editor opened for it.
                await asyncio.wait({seen}, timeout=VERIFY)
            tag = answer.get("fileTag")
            return Outcome(seen=_happened(seen), saved=saved, file_tag=tag if isinstance(tag, str) else None)

    async def _send(self, edit: FileEdit, seen: asyncio.Future[None], *, confirm: bool) -> dict[str, Any] | Outcome:
        """The client's answer, once it is one that claims success (or the document shows it); else the failure."""
        request = asyncio.ensure_future(self._protocol.ask(*self._request(edit, confirm=confirm)))
        try:
            patience = PREVIEW if confirm else WORKING if edit.version is None else VERIFY
            await asyncio.wait({request, seen}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not request.done() and _happened(seen):
                # The text is there; only what the answer says of saving is still missing.
                saves = edit.save and self._client().guarded_apply
                await asyncio.wait({request}, timeout=WORKING if saves else VERIFY)
            if not request.done():
                return {} if _happened(seen) else Outcome(failure="the editor did not answer the request to apply it")
            answer = request.result()
        except ClientError as error:
            return {} if _happened(seen) else Outcome(failure=f"the editor refused: {error}")
        finally:
            request.cancel()
        answer = answer if isinstance(answer, dict) else {}
        if answer.get("applied") is True:
            return answer
        if _happened(seen):
            return answer
        reason = answer.get("failureReason")
        text = str(reason) if reason else "the editor did not apply it and gave no reason"
        return Outcome(failure=text, rejected=confirm and not reason)

    def _request(self, edit: FileEdit, *, confirm: bool) -> tuple[str, dict[str, Any]]:
        client = self._client()
        document = self._documents.get(edit.uri)
        uri = self._spelling(edit)
        change = workspace_edit(edit, uri, client, confirm=confirm, mark=document.mark if document else "")
        if client.guarded_apply:
            return "ds4/applyGuardedEdit", {
                "label": edit.label,
                "edit": change,
                "guards": [guard(edit, uri)],
                "save": edit.save,
            }
        return "workspace/applyEdit", {"label": edit.label, "edit": change}

    async def _save(self, edit: FileEdit) -> bool:
        client = self._client()
        # Who has the guarded request has saved with it, or has a reason not to.
        if not edit.save or not client.save_document or client.guarded_apply:
            return False
        try:
            ask = self._protocol.ask("ds4/saveDocument", {"uri": self._spelling(edit)})
            answer = await asyncio.wait_for(ask, WORKING)
        except (ClientError, TimeoutError) as error:
            log.warning("the editor did not save %s: %s", edit.uri, error or "no answer")
            return False
        return isinstance(answer, dict) and answer.get("saved") is True

    def _moved_on(self, edit: FileEdit) -> str | None:
        document = self._documents.get(edit.uri)
        if edit.version is None:
            return None if document is None else "the file was opened in the editor meanwhile"
        if document is None:
            return "the file was closed in the editor meanwhile"
        if document.version != edit.version or document.text != edit.before:
            return "the document was changed meanwhile"
        return None

    def _twice(self, edit: FileEdit) -> bool:
        document = self._documents.get(edit.uri)
        return document is not None and document.text != edit.after and document.text == applied_twice(edit)

    def _spelling(self, edit: FileEdit) -> str:
        document = self._documents.get(edit.uri)
        return document.client_uri if document else edit.uri

    @contextmanager
    def _watching(self, edit: FileEdit) -> Iterator[asyncio.Future[None]]:
        """A future that resolves when the document has the expected text."""
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        after = edit.after

        def look(text: str | None) -> None:
            if text == after and not seen.done():
                seen.set_result(None)

        forget = self._documents.watch(edit.uri, look)
        try:
            yield seen
        finally:
            forget()
            seen.cancel()


def _happened(seen: asyncio.Future[None]) -> bool:
    return seen.done() and not seen.cancelled()
