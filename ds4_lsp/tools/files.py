"""Files as the agent sees them: the live buffer of an open document, the disk for any other file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from ds4_lsp.edits import disk
from ds4_lsp.edits.text import file_tag
from ds4_lsp.edits.uris import from_path
from ds4_lsp.edits.views import FileViews, Ranges
from ds4_lsp.ports import Editor, FileEdit, OpenDocument
from ds4_lsp.protocol.settings import Settings
from ds4_lsp.tools.base import Call, Shown, ToolResult
from ds4_lsp.tools.syntax_check import broken
from ds4_lsp.tools.workspace import Workspace


@dataclass(frozen=True)
class Loaded:
    """One file's text now.

    ``uri``: in the client's own spelling. ``key``: its name among the views. ``name``: what the model calls it.
    ``version``: of the open document, None on disk.
    """

    uri: str
    key: str
    path: Path
    name: str
    text: str
    tag: str
    version: int | None
    source: Literal["buffer", "disk"]


_LOCKS: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()

Continue = Callable[[int, Call], Awaitable[ToolResult]]
"""(count, call): what ``more`` does."""


Check = Callable[[FileEdit], Awaitable[str]]
"""The problem that an edit brought into its file, in one line; empty for none."""


class Files:
    """What the file tools of one session share.

    ``more``: how the last ``read`` or ``search`` goes on, None when it was complete. ``before_edit`` hears of an edit
    before anything is changed; what it raises is why nothing is. ``checks``: what an edit is checked by afterwards.
    ``deferred``: what is shown counts as seen when the model has read it, which somebody else tells the views; else at
    once.
    """

    def __init__(
        self, workspace: Workspace, editor: Editor, views: FileViews, settings: Callable[[], Settings]
    ) -> None:
        self.workspace = workspace
        self.editor = editor
        self.views = views
        self.settings = settings
        self.more: Continue | None = None
        self.deferred = False
        self.before_edit: Callable[[FileEdit], object] = lambda _edit: None
        self.checks: tuple[Check, ...] = (broken,)

    async def load(self, path: Path) -> Loaded:
        """The text at a real path. ``NotFound``; ``InvalidRequest``: a directory, a device, binary, too large."""
        document = await self.editor.document(path)
        if document is not None:
            return self.of_document(document)
        name = self.workspace.display(path)
        text, tag = await asyncio.to_thread(_read, path, name)
        uri = from_path(path)
        return Loaded(uri, uri, path, name, text, tag, None, "disk")

    async def exists(self, path: Path) -> bool:
        """Whether anything is at a real path, if only in the editor."""
        return await self.editor.document(path) is not None or await asyncio.to_thread(os.path.lexists, path)

    def of_document(self, document: OpenDocument) -> Loaded:
        """An open document, as :meth:`load` gives it."""
        path, text = document.path, document.text
        name, key = self.workspace.display(path), from_path(path)
        return Loaded(document.uri, key, path, name, text, file_tag(text), document.version, "buffer")

    def show(self, loaded: Loaded, ranges: Ranges) -> Shown:
        """Register lines as shown to this session."""
        self.views.show(loaded.key, loaded.text, () if self.deferred else ranges)
        return Shown(loaded.key, loaded.name, loaded.tag, ranges)

    async def problems(self, edit: FileEdit) -> tuple[str, ...]:
        """What the checks found in a file after an edit."""
        found = [await check(edit) for check in self.checks]
        return tuple(problem for problem in found if problem)

    def lock(self, path: Path) -> asyncio.Lock:
        """Held while one file is changed: two changes never overlap, whichever session or client they are of."""
        return _LOCKS.setdefault(path, asyncio.Lock())


def _read(path: Path, name: str) -> tuple[str, str]:
    text = disk.read(path, name).text
    return text, file_tag(text)
