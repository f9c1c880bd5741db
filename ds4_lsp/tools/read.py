"""The tool ``read``: lines of a file with the tag that edits need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import Field

from ds4_lsp.edits.pages import Page, header, page
from ds4_lsp.edits.text import LineIndex
from ds4_lsp.protocol.errors import InvalidRequest
from ds4_lsp.tools.base import UNTAUGHT, Call, Fits, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.files import Continue, Files, Loaded
from ds4_lsp.tools.fitting import most
from ds4_lsp.tools.guess import existing


class ReadArguments(ToolArguments):
    path: str = Field(description="File.")
    start_line: int = Field(1, ge=1, description="First line.")
    max_lines: int = Field(500, ge=1, description="Most lines to show.")
    whole: bool = Field(False, json_schema_extra=UNTAUGHT, description="All of it, whatever its length.")
    raw: bool = Field(
        False, json_schema_extra=UNTAUGHT, description="The text as it is: no line numbers, long lines in full."
    )


class Read(Tool[ReadArguments]):
    name = "read"
    description = "Show lines of a file, each as `NUMBER text`. The numbers are no part of the file."
    Arguments = ReadArguments

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, arguments: ReadArguments, call: Call) -> ToolResult:
        found = await existing(self._files, arguments.path, call)
        start, count = (1, None) if arguments.whole else (arguments.start_line, arguments.max_lines)
        result = await self._page(found.path, start, count, arguments.raw, None)
        return replace(result, text=f"{found.note}\n{result.text}") if found.note else result

    async def _page(self, path: Path, start: int, count: int | None, raw: bool, tag: str | None) -> ToolResult:
        """``tag``: that of the page before, when this one goes on from it."""
        loaded = await self._files.load(path)
        rows = LineIndex(loaded.text)
        if start > max(1, len(rows)):
            raise InvalidRequest(f"{loaded.name} has {len(rows)} lines: start_line={start} is beyond its end.")
        part = page(rows, start, count, raw=raw)
        notes: list[str] = []
        if tag not in (None, loaded.tag):
            notes.append("[the file has changed since the lines before were shown: their numbers may be stale]")
        if part.more is not None:
            notes.append(_more(part.more))
        return self._shown(loaded, part, notes, raw)

    def _shown(self, loaded: Loaded, part: Page, notes: list[str], raw: bool) -> ToolResult:
        self._files.more = self._rest(loaded, part.more, raw)
        shown = self._files.show(loaded, part.shown)

        async def less(fits: Fits) -> ToolResult | None:
            return await self._less(loaded, part, raw, fits)

        return ToolResult(_text(loaded, part, notes), shown=(shown,), part=less)

    async def _less(self, loaded: Loaded, asked: Page, raw: bool, fits: Fits) -> ToolResult | None:
        """As many of the lines ``asked`` for as fit the context."""
        rows, wanted = LineIndex(loaded.text), asked.end - asked.start + 1

        def first(count: int) -> tuple[Page, list[str]]:
            part = page(rows, asked.start, count, raw=raw)
            note = f"[{count} of the {wanted} lines asked for fit into the context now]"
            return part, [note, _more(part.more)]

        count = await most(wanted - 1, lambda count: fits(_text(loaded, *first(count))))
        return self._shown(loaded, *first(count), raw) if count else None

    def _rest(self, loaded: Loaded, start: int | None, raw: bool) -> Continue | None:
        if start is None:
            return None
        return lambda count, _call: self._page(loaded.path, start, count, raw, loaded.tag)


def _text(loaded: Loaded, part: Page, notes: list[str]) -> str:
    head = header(loaded.name, loaded.tag, part.start, part.end, part.total)
    return "\n".join(filter(None, (head, part.body.removesuffix("\n"), *notes)))


def _more(line: int | None) -> str:
    return "" if line is None else f"continue_offset={line} (use `more`, or `read` with start_line={line})"
