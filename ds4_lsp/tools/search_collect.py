"""What ``search`` finds: ripgrep's matches on disk, and those in the live text of open documents instead of theirs."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ds4_lsp.edits.text import content, lines
from ds4_lsp.ports import Cancel
from ds4_lsp.tools.files import Files, Loaded
from ds4_lsp.tools.ignore import ignored
from ds4_lsp.tools.search_glob import Glob
from ds4_lsp.tools.search_rg import End, Hit, Query, search_folder, search_text

KEPT = 2000
"""Most matches that one search collects; ``more`` shows what ``max_results`` left out."""


@dataclass(frozen=True)
class Found:
    """The matches in one file; of an open document, in its live text."""

    path: Path
    hits: tuple[Hit, ...]


class Collector:
    """One search. ``found`` is in order of paths within each folder; ``end`` says whether it is all."""

    def __init__(self, files: Files, query: Query, cancel: Cancel, seconds: float) -> None:
        self.found: list[Found] = []
        self.end: End = "done"
        self._files = files
        self._query = query
        self._cancel = cancel
        self._until = time.monotonic() + seconds

    async def file(self, path: Path) -> None:
        """Search one file, ignored or not."""
        loaded = await self._files.load(path)
        self._add({path: await self._text(loaded.text)})

    async def folder(self, folder: Path, glob: Glob) -> None:
        """Search a folder, as far as the limits of matches and time allow."""
        documents = await self._files.editor.documents()
        buffers = {document.path: document.text for document in documents if document.path.is_relative_to(folder)}
        here: dict[Path, list[Hit]] = {}
        room = KEPT - sum(len(file.hits) for file in self.found)

        def on_hit(name: Path, hit: Hit) -> bool:
            nonlocal room
            path = folder / name
            if path not in buffers and glob.takes(name):
                here.setdefault(path, []).append(hit)
                room -= 1
            return room > 0

        with tempfile.NamedTemporaryFile("w", prefix="ds4-glob-", encoding="utf-8") as rules:
            rules.write(glob.rules)
            rules.flush()
            options = [f"--ignore-file={rules.name}"]
            self.end = await search_folder(
                self._query, folder, options, on_hit, cancel=self._cancel, seconds=self._left()
            )
        for path, text in buffers.items():
            if glob.takes(path.relative_to(folder)) and not ignored(path, folder):
                here[path] = await self._text(text)
        self._add(here)

    async def recheck(self, loaded: Loaded, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Hits in a file that ripgrep read, by the lines of its text as it is now."""
        rows = lines(loaded.text)
        if all(hit.line <= len(rows) and content(rows[hit.line - 1]) == hit.text for hit in hits):
            return hits
        # Some of its lines end at CR, which ripgrep does not know, or it has changed: looked at once more.
        return tuple(await self._text(loaded.text))

    async def _text(self, text: str) -> list[Hit]:
        return await search_text(self._query, text, cancel=self._cancel, seconds=self._left())

    def _add(self, here: dict[Path, list[Hit]]) -> None:
        self.found += [Found(path, tuple(here[path])) for path in sorted(here) if here[path]]

    def _left(self) -> float:
        return max(1.0, self._until - time.monotonic())
