"""The tool ``search``: lines that match, in the workspace's files and the editor's live buffers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from ds4_lsp.edits.pages import PAGE_LIMIT
from ds4_lsp.edits.text import lines
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest, NotFound
from ds4_lsp.tools.base import UNTAUGHT, Call, Fits, Shown, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.fitting import most as largest
from ds4_lsp.tools.guess import existing
from ds4_lsp.tools.search_collect import KEPT, Collector, Found
from ds4_lsp.tools.search_glob import Glob
from ds4_lsp.tools.search_rg import End, Query
from ds4_lsp.tools.search_show import section

SECONDS = 30.0


class SearchArguments(ToolArguments):
    query: str = Field(description="Text within one line.")
    path: str | None = Field(None, description="File or folder; the workspace if left out.")
    mode: Literal["literal", "regex"] | None = Field(
        None, json_schema_extra=UNTAUGHT, description="Left out: a text, and where none matches a regular expression."
    )
    glob: str | None = Field(
        None, json_schema_extra=UNTAUGHT, description='Only files that match, such as "*.py" or "src/**/*.{ts,tsx}".'
    )
    context: int = Field(0, ge=0, le=5, json_schema_extra=UNTAUGHT, description="Lines around each match.")
    max_results: int = Field(50, ge=1, le=500, json_schema_extra=UNTAUGHT, description="Most matches.")
    case_sensitive: bool = Field(False, json_schema_extra=UNTAUGHT, description="Tell upper from lower case.")


@dataclass(frozen=True)
class Results:
    """What is still to be shown of one search."""

    query: Query
    found: tuple[Found, ...]
    context: int
    end: End


class Search(Tool[SearchArguments]):
    name = "search"
    description = "Find lines by a text or a regular expression."
    Arguments = SearchArguments

    def __init__(self, files: Files, seconds: float = SECONDS) -> None:
        self._files = files
        self._seconds = seconds

    async def run(self, arguments: SearchArguments, call: Call) -> ToolResult:
        """Errors: ``InvalidRequest`` (query), ``NotFound``, ``OutsideWorkspace``, ``Denied``, ``Cancelled``."""
        if not arguments.query or "\n" in arguments.query:
            raise InvalidRequest("The query must be one line and not empty: search looks at one line at a time.")
        found = await self._find(arguments, arguments.mode == "regex", call)
        if not found.found and arguments.mode is None and found.end == "done" and _is_pattern(arguments.query):
            found = await self._find(arguments, True, call)
        return await self._show(found, arguments.max_results, call)

    async def _find(self, arguments: SearchArguments, is_regex: bool, call: Call) -> Results:
        query = Query(arguments.query, is_regex, arguments.case_sensitive)
        collector = Collector(self._files, query, call.cancel, self._seconds)
        for scope in await self._scopes(arguments.path, call):
            if await asyncio.to_thread(scope.is_dir):
                await collector.folder(scope, Glob(arguments.glob))
            else:
                await collector.file(scope)
            if collector.end != "done":
                break
        return Results(query, tuple(collector.found), arguments.context, collector.end)

    async def _scopes(self, name: str | None, call: Call) -> Sequence[Path]:
        if name is not None:
            path = (await existing(self._files, name, call, folders=True)).path
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

        async def less(fits: Fits) -> ToolResult | None:
            async def shows(fewer: int) -> bool:
                return await fits((await self._show(results, fewer, call)).text)

            fewer = await largest(count - 1, shows)
            return await self._show(results, fewer, call) if fewer else None

        return ToolResult("\n\n".join(parts), shown=tuple(shown), part=less)


def _is_pattern(query: str) -> bool:
    """Whether a text that nothing contains can have been meant as a regular expression."""
    if not re.search(r"[\\^$.|?*+()\[\]{}]", query):
        return False
    try:
        re.compile(query)
    except re.error:
        return False
    return True


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
