"""An editor that the tools can really edit in: buffers for open documents, the disk for other files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.edits import disk
from ds4_lsp.edits.text import Encoding, encode, file_tag
from ds4_lsp.edits.uris import from_path
from ds4_lsp.edits.views import FileViews
from ds4_lsp.ports import Answer, Applied, Cancel, FileEdit, OpenDocument, Question
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.protocol.settings import Settings
from ds4_lsp.tools.applying import EditDone
from ds4_lsp.tools.base import Call, ToolResult
from ds4_lsp.tools.edit import Edit
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.list import List
from ds4_lsp.tools.more import More
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.read import Read
from ds4_lsp.tools.search import Search
from ds4_lsp.tools.workspace import Workspace
from ds4_lsp.tools.write import Write


class DiskEditor:
    """The editor's port. ``on_apply`` misbehaves in a test's name: what it returns is the answer."""

    def __init__(self, *roots: Path) -> None:
        self.roots = roots
        self.current_root: Path | None = roots[0] if roots else None
        self.saves_open_documents = True
        self.trusted = True
        self.buffers: dict[Path, OpenDocument] = {}
        self.edits: list[FileEdit] = []
        self.answer: Answer = "once"
        self.questions: list[Question] = []
        self.on_apply: Callable[[FileEdit], Applied | None] = lambda _edit: None

    def open(self, path: Path, text: str | None = None) -> None:
        self.buffers[path] = OpenDocument(from_path(path), path, 1, disk.read(path).text if text is None else text)

    def type(self, path: Path, text: str) -> None:
        """The user changes the buffer."""
        old = self.buffers[path]
        self.buffers[path] = replace(old, version=old.version + 1, text=text)

    async def document(self, path: Path) -> OpenDocument | None:
        return self.buffers.get(path)

    async def documents(self) -> tuple[OpenDocument, ...]:
        return tuple(self.buffers.values())

    async def apply(self, edit: FileEdit) -> Applied:
        self.edits.append(edit)
        answer = self.on_apply(edit)
        if answer is not None:
            return answer
        document = self.buffers.get(edit.path)
        if document is None:
            return self._write(edit, None if edit.create else edit.before_tag)
        if document.version != edit.version or file_tag(document.text) != edit.before_tag:
            return Applied(False, "the document has changed")
        self.buffers[edit.path] = replace(document, version=document.version + 1, text=edit.after)
        if not (edit.save and self.saves_open_documents):
            return Applied(False)
        on_disk = file_tag(disk.read(edit.path).text) if edit.path.exists() else None
        return self._write(edit, on_disk)

    async def ask(self, question: Question, cancel: Cancel) -> Answer:
        self.questions.append(question)
        return self.answer

    @staticmethod
    def _write(edit: FileEdit, before: str | None) -> Applied:
        try:
            disk.write(edit.path, edit.after, before)
        except Ds4Error as error:
            return Applied(False, error.message)
        return Applied(True)


@dataclass
class Room:
    """A session's file tools in a workspace of their own."""

    root: Path
    editor: DiskEditor
    gate: Gate
    files: Files
    settings: dict[str, dict[str, Any]]
    log: list[tuple[str, dict[str, Any]]]
    edits: list[EditDone] = field(default_factory=list)
    cancel: Cancel = field(default_factory=Cancel)

    def write(self, name: str, text: str, encoding: Encoding | None = None) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(text, encoding or Encoding()))
        return path

    @property
    def call(self) -> Call:
        return Call("s", 1, "c1", self.cancel)

    async def run(self, name: str, **arguments: Any) -> ToolResult:
        kinds = {
            "read": lambda: Read(self.files),
            "more": lambda: More(self.files),
            "write": lambda: Write(self.files, self.gate, self.edits.append),
            "edit": lambda: Edit(self.files, self.gate, self.edits.append),
            "search": lambda: Search(self.files),
            "list": lambda: List(self.files),
        }
        tool = kinds[name]()
        return await tool.run(tool.Arguments(**arguments), self.call)

    async def tag(self, name: str) -> str:
        """The tag of a file that is read whole, as the model would."""
        return (await self.run("read", path=name, whole=True)).shown[0].file_tag


def make_room(*roots: Path) -> Room:
    editor = DiskEditor(*roots)
    values: dict[str, dict[str, Any]] = {}

    def settings() -> Settings:
        return Settings.model_validate(values)

    log: list[tuple[str, dict[str, Any]]] = []
    gate = Gate(settings, editor.ask, lambda kind, data: log.append((kind, data)))
    files = Files(Workspace(editor, gate, settings), editor, FileViews(), settings)
    return Room(roots[0] if roots else Path("/"), editor, gate, files, values, log)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "work"
    path.mkdir()
    return path


@pytest.fixture
def room(root: Path) -> Room:
    return make_room(root)


@pytest.fixture
def rooms() -> Callable[..., Room]:
    return make_room
