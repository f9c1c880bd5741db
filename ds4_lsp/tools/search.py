"""The tool ``search``: lines that match, in the workspace's files and the editor's live buffers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from ds4_lsp.edits.pages import PAGE_LIMIT
from ds4_lsp.edits.text import lines
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest, NotFound
from ds4_lsp.tools.base import Call, Shown, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.search_collect import KEPT, Collector, Found
from ds4_lsp.tools.search_glob import Glob
from ds4_lsp.tools.search_rg import End, Query
from ds4_lsp.tools.search_show import section

SECONDS = 30.0


class SearchArguments(ToolArguments):
    query: str = Field(description="What to look for, within one line.")
    path: str | None = Field(None, description="File or folder to look in; the whole workspace if left out.")
    mode: Literal["literal", "regex"] = Field("literal", description="regex: the query is a regular expression.")
    glob: str | None = Field(None, description='Only files that match, such as "*.py" or "src/**/*.{ts,tsx}".')
    context: int = Field(0, ge=0, le=5, description="Lines to show before and after each match.")
    max_results: int = Field(50, ge=1, le=500, description="Most matches to show.")
    case_sensitive: bool = Field(False, description="Tell upper from lower case.")


@dataclass(frozen=True)
class Results:
    """What is still to be shown of one search."""

    query: Query
    found: tuple[Found, ...]
    context: int
    end: End


class Search(Tool[SearchArguments]):
    name = "search"
    description = (
        "Find lines that contain a text or match a regular expression, with the file_tag that `edit` needs. Files "
        "that ignore files name are left out. Go on with `more` when there are further matches."
    )
    Arguments = SearchArguments

    def __init__(self, files: Files, seconds: float = SECONDS) -> None:
        self._files = files
        self._seconds = seconds

    async def run(self, arguments: SearchArguments, call: Call) -> ToolResult:
        """Errors: ``InvalidRequest`` (query), ``NotFound``, ``OutsideWorkspace``, ``Denied``, ``Cancelled``."""
        if not arguments.query or "\n" in arguments.query:
            raise InvalidRequest("The query must be one line and not empty: search looks at one line at a time.")
        query = Query(arguments.query, arguments.mode == "regex", arguments.case_sensitive)
        collector = Collector(self._files, query, call.cancel, self._seconds)
        for scope in await self._scopes(arguments.path, call):
            if await asyncio.to_thread(scope.is_dir):
                await collector.folder(scope, Glob(arguments.glob))
            else:
                await collector.file(scope)
            if collector.end != "done":
                break
        found = Results(query, tuple(collector.found), arguments.context, collector.end)
        return await self._show(found, arguments.max_results, call)

    async def _scopes(self, name: str | None, call: Call) -> Sequence[Path]:
        if name is not None:
            path = await self._files.workspace.resolve(name, call)
            if not await self._files.exists(path):
                raise NotFound(f"{name} does not exist. `list` shows what does.")
            return (path,)
        roots = self._files.workspace.roots
        if not roots:
            raise NotFound("No workspace folder is open: give a path.")
        # A folder within another one is searched with it.
        return [root for root in roots if not any(root != other and root.is_relative_to(other) for other in roots)]

    async def _show(self, results: Results, most: int, call: Call) -> ToolResult:
        """The first ``most`` matches; the rest is what ``more`` goes on with."""
        collector = Collector(self._files, results.query, call.cancel, self._seconds)
        pending = list(results.found)
        parts: list[str] = []
        shown: list[Shown] = []
        size = count = 0
        while pending and count < most and size < PAGE_LIMIT:
            file = pending.pop(0)
            try:
                loaded = await self._files.load(file.path)
            except Ds4Error as error:
                # Found by ripgrep, but gone meanwhile, or not UTF-8 throughout.
                parts.append(f"{self._files.workspace.display(file.path)}: not shown: {error.message}")
                continue
            hits = await collector.recheck(loaded, file.hits)
            now, later = hits[: most - count], hits[most - count :]
            if later:
                pending.insert(0, replace(file, hits=later))
            if now:
                part = section(loaded.name, loaded.tag, lines(loaded.text), now, results.context)
                parts.append(part.text)
                shown.append(self._files.show(loaded, part.shown))
                count += len(now)
                size += len(part.text)
        rest = replace(results, found=tuple(pending))
        self._files.more = (lambda count, call: self._show(rest, count, call)) if pending else None
        parts.append(_summary(count, sum(len(file.hits) for file in pending), results.end))
        return ToolResult("\n\n".join(parts), shown=tuple(shown))


def _summary(count: int, rest: int, end: End) -> str:
    if not count and not rest and end == "done":
        return "[no matches; ignored and binary files were not searched]"
    notes = [f"{count} {'match' if count == 1 else 'matches'} shown"]
    if rest:
        notes.append(f"{rest}{'' if end == 'done' else ' or more'} left: use `more`")
    if end == "timeout":
        notes.append("the search took too long and was stopped: narrow it with path or glob")
    elif end == "enough":
        notes.append(f"it was stopped at {KEPT}: narrow it with path or glob")
    return f"[{'; '.join(notes)}]"
