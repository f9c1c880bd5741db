"""The documents of the terminal client: buffers of those it opened, the disk for the rest, and edits to both.

It is a guarded client: an edit is applied only to the version and the text that the server names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ds4_lsp.edits import disk
from ds4_lsp.edits.positions import PositionEncoding, offset_of
from ds4_lsp.edits.text import LineIndex, file_tag
from ds4_lsp.edits.uris import canonical, from_path, to_path
from ds4_lsp.protocol.errors import Ds4Error

Notify = Callable[[str, Any], None]


@dataclass(frozen=True)
class Buffer:
    """An open document. ``saved_tag`` is the tag of the text on disk, as this client last read or wrote it."""

    uri: str
    path: Path
    version: int
    text: str
    saved_tag: str


class EditRefused(Exception):
    """Why an edit is not applied; nothing was changed."""


class Buffers:
    """``notify`` sends ``textDocument/*`` notifications; ``encoding`` is the negotiated position encoding."""

    def __init__(self, notify: Notify, encoding: PositionEncoding = "utf-16") -> None:
        self.encoding: PositionEncoding = encoding
        self._notify = notify
        self._open: dict[str, Buffer] = {}

    def open(self, path: Path, language: str = "plaintext") -> Buffer:
        """Open a file and tell the server. Errors: those of ``edits.disk.read``."""
        real = path.resolve()
        text = disk.read(real).text
        uri = from_path(real)
        buffer = Buffer(uri, real, 1, text, file_tag(text))
        self._open[uri] = buffer
        item = {"uri": uri, "languageId": language, "version": 1, "text": buffer.text}
        self._notify("textDocument/didOpen", {"textDocument": item})
        return buffer

    def get(self, uri: str) -> Buffer | None:
        return self._open.get(canonical(uri))

    def apply(self, params: dict[str, Any]) -> dict[str, Any]:
        """``workspace/applyEdit``: the result that LSP asks for."""
        try:
            for change in _changes(params["edit"]):
                self._change(change, save=False)
        except (EditRefused, Ds4Error) as error:
            return {"applied": False, "failureReason": str(error)}
        return {"applied": True}

    def apply_guarded(self, params: dict[str, Any]) -> dict[str, Any]:
        """``ds4/applyGuardedEdit {edit, guards, save}``: check version and text of each document, then apply."""
        changes = _changes(params["edit"])
        tag, saved = "", True
        try:
            for guard in params["guards"]:
                self._check(guard)
            for change in changes:
                done = self._change(change, save=bool(params.get("save")))
                if done is not None:
                    tag, saved = done[0], saved and done[1]
        except (EditRefused, Ds4Error) as error:
            return {"applied": False, "saved": False, "failureReason": str(error)}
        return {"applied": True, "fileTag": tag, "saved": saved}

    def save(self, uri: str) -> dict[str, Any]:
        """``ds4/saveDocument {uri}``."""
        buffer = self.get(uri)
        if buffer is None:
            return {"saved": False, "failureReason": "the document is not open"}
        try:
            self._save(buffer)
        except Ds4Error as error:
            return {"saved": False, "failureReason": str(error)}
        return {"saved": True}

    def _check(self, guard: dict[str, Any]) -> None:
        """``fileTag`` null: the file must not exist yet."""
        uri, tag, version = guard["uri"], guard.get("fileTag"), guard.get("version")
        buffer, path = self.get(uri), _path(uri)
        if tag is None:
            if buffer is not None or path.exists():
                raise EditRefused(f"{path.name} exists already")
            return
        if buffer is not None and version is not None and version != buffer.version:
            raise EditRefused(f"{path.name} has version {buffer.version}, and the edit is for {version}")
        now = file_tag(buffer.text if buffer is not None else disk.read(path).text)
        if now != tag:
            raise EditRefused(f"{path.name} has file_tag {now}, and the edit is for {tag}")

    def _change(self, change: dict[str, Any], *, save: bool) -> tuple[str, bool] | None:
        """Apply one document change; returns the new tag and whether the disk has it, None for an empty new file."""
        if change.get("kind") == "create":
            path = _path(change["uri"])
            if path.exists() and not (change.get("options") or {}).get("ignoreIfExists"):
                raise EditRefused(f"{path.name} exists already")
            if not path.exists():
                disk.write(path, "", None)
            return None
        if "kind" in change:
            raise EditRefused(f"this client cannot {change['kind']} files")
        uri = change["textDocument"]["uri"]
        buffer, path = self.get(uri), _path(uri)
        if buffer is None:
            before = disk.read(path).text
            text = _spliced(before, change["edits"], self.encoding)
            disk.write(path, text, file_tag(before))
            return file_tag(text), True
        version = change["textDocument"].get("version")
        if version is not None and version != buffer.version:
            raise EditRefused(f"{path.name} has version {buffer.version}, and the edit is for {version}")
        changed = replace(
            buffer, version=buffer.version + 1, text=_spliced(buffer.text, change["edits"], self.encoding)
        )
        self._open[canonical(uri)] = changed
        document = {"uri": buffer.uri, "version": changed.version}
        self._notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": changed.text}]})
        if save:
            self._save(changed)
        return file_tag(changed.text), save

    def _save(self, buffer: Buffer) -> None:
        disk.write(buffer.path, buffer.text, buffer.saved_tag)
        self._open[buffer.uri] = replace(buffer, saved_tag=file_tag(buffer.text))
        self._notify("textDocument/didSave", {"textDocument": {"uri": buffer.uri}})


def _path(uri: str) -> Path:
    path = to_path(uri)
    if path is None:
        raise EditRefused(f"{uri} is not a file on this machine")
    return path


def _changes(edit: dict[str, Any]) -> list[dict[str, Any]]:
    """The document changes of a WorkspaceEdit, whichever way it spells them."""
    if edit.get("documentChanges"):
        return list(edit["documentChanges"])
    return [
        {"textDocument": {"uri": uri, "version": None}, "edits": edits}
        for uri, edits in (edit.get("changes") or {}).items()
    ]


def _spliced(text: str, edits: Sequence[dict[str, Any]], encoding: PositionEncoding) -> str:
    """``text`` after TextEdits, all of which are positions in ``text`` itself."""
    index = LineIndex(text)
    spans = sorted(
        (
            (
                offset_of(index, edit["range"]["start"]["line"], edit["range"]["start"]["character"], encoding),
                offset_of(index, edit["range"]["end"]["line"], edit["range"]["end"]["character"], encoding),
                str(edit["newText"]),
            )
            for edit in edits
        ),
        key=lambda span: span[0],
    )
    pieces, position = [], 0
    for start, end, new in spans:
        if start < position or end < start:
            raise EditRefused("the edits overlap")
        pieces += [text[position:start], new]
        position = end
    return "".join([*pieces, text[position:]])
