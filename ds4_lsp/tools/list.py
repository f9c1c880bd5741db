"""The tool ``list``: what is in a folder."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from ds4_lsp.edits.uris import from_path
from ds4_lsp.protocol.errors import InvalidRequest, NotFound
from ds4_lsp.tools.base import Call, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.guess import existing
from ds4_lsp.tools.ignore import Ignores
from ds4_lsp.tools.workspace import is_plain

MOST = 300
"""Entries shown."""


class ListArguments(ToolArguments):
    path: str = Field(".", description="Folder; the workspace if left out.")


@dataclass(frozen=True)
class Entry:
    """``name``: a URI where it cannot be shown as it is. ``size`` in bytes, None for what has none."""

    name: str
    kind: str
    size: int | None
    note: str = ""


class List(Tool[ListArguments]):
    name = "list"
    description = "Show what is in a folder."
    Arguments = ListArguments

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, arguments: ListArguments, call: Call) -> ToolResult:
        """Errors: ``NotFound``, ``InvalidRequest``, ``OutsideWorkspace``, ``Denied``."""
        found = await existing(self._files, arguments.path.strip() or ".", call, folders=True)
        path = found.path
        name = self._files.workspace.display(path)
        buffers = {document.path: document.text for document in await self._files.editor.documents()}
        entries, left_out = await asyncio.to_thread(_scan, path, name, buffers)
        return ToolResult("\n".join(filter(None, (found.note, _render(name, entries, left_out)))))


def _scan(path: Path, name: str, buffers: dict[Path, str]) -> tuple[list[Entry], int]:
    """The entries of a folder, or of a file that one alone, and how many are ignored."""
    if path in buffers or path.is_file():
        return [_entry(path, buffers)], 0
    try:
        here = set(path.iterdir())
    except FileNotFoundError:
        raise NotFound(f"{name} does not exist. List the folder above it to see what does.") from None
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be listed: {error.strerror or error}") from None
    # A document that was never saved is there for the agent, although not on disk.
    here |= {document for document in buffers if document.parent == path}
    ignores = Ignores(path)
    kept = [child for child in here if not ignores.names(child, folder=child.is_dir() and not child.is_symlink())]
    return [_entry(child, buffers) for child in sorted(kept)], len(here) - len(kept)


def _entry(path: Path, buffers: dict[Path, str]) -> Entry:
    name = _shown(path.name, path)
    if path in buffers:
        return Entry(name, "file", len(buffers[path].encode("utf-8", "surrogatepass")), " (open in the editor)")
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            target = path.readlink()
            return Entry(name, "link", None, f" -> {_shown(str(target), path.parent / target)}")
    except OSError as error:
        return Entry(name, "gone", None, f" ({error.strerror})")
    if stat.S_ISDIR(status.st_mode):
        return Entry(_shown(path.name, path, "/"), "dir", None)
    if stat.S_ISREG(status.st_mode):
        return Entry(name, "file", status.st_size)
    return Entry(name, "other", None)


def _shown(name: str, path: Path, end: str = "") -> str:
    return name + end if is_plain(name + end) else from_path(path) + end


def _render(name: str, entries: list[Entry], left_out: int) -> str:
    shown = entries[:MOST]
    width = max((len(str(entry.size)) for entry in shown if entry.size is not None), default=1)
    rows = [
        f"{entry.kind:<5} {'-' if entry.size is None else entry.size:>{width}} {entry.name}{entry.note}"
        for entry in shown
    ]
    count = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    hidden = f", {left_out} more ignored" if left_out else ""
    if len(entries) > MOST:
        rows.append(f"[{len(entries) - MOST} more: list a folder below, or use `search` with a glob]")
    return "\n".join([f"{name}: {count}{hidden}", *rows])
