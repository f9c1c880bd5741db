"""What goes along with a prompt: the places that the user points at, the files that it names, and in the first message
of a conversation the workspace's files and its instructions.

It is shown as ``read`` would show it and counts as shown. What nobody pointed at has a share of the context, and a file
that is too large for that comes as the lines that declare something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ds4_lsp.agent.instructions import instructions
from ds4_lsp.agent.mentions import mentions
from ds4_lsp.agent.overview import overview
from ds4_lsp.agent.rendering import context_text
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.symbols import symbols
from ds4_lsp.edits.pages import header, page
from ds4_lsp.edits.text import LineIndex
from ds4_lsp.edits.views import Ranges, covers, merge
from ds4_lsp.ports import Cancel, Segment
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.files import Loaded
from ds4_lsp.tools.inventory import Inventory, inventory

SHARE = 10
"""A tenth of the context, and at most a quarter of what is free, is for what nobody pointed at."""
MOST_FILES = 6
NEAR = (20, 8, 3)
"""Lines shown before and after one that the prompt names: as many as there is room for."""
FEWER = (200, 60, 20)
"""Lines shown of a file that is too large and declares nothing."""
OVERVIEW_SHARE = 48
"""Of the context, for the names of the workspace's files."""
MOST_OVERVIEW = 500
"""Tokens for them at most."""
LETTERS = 3
"""Code points that make a token at least, on average, in names and code: to judge a text before it is counted."""


@dataclass
class Attached:
    """``places``: for the log, with their text and what of it counts as shown. ``preface``: text before all of them.
    ``items``: what the user is told of, as in the event ``context``."""

    places: list[dict[str, Any]] = field(default_factory=list)
    preface: str = ""
    items: list[dict[str, Any]] = field(default_factory=list)


def told(items: Sequence[Mapping[str, Any]]) -> str:
    """What went along, in one line for the user."""
    return f"with: {', '.join(_name(item) for item in items)}"


def _name(item: Mapping[str, Any]) -> str:
    count = item["count"]
    match item["form"]:
        case "overview":
            return "the workspace's file names"
        case "lines":
            return f"{item['name']} ({count} {'line' if count == 1 else 'lines'})"
        case "symbols":
            return f"{item['name']} (what its {count} lines declare)"
        case _:
            return f"{item['name']} (instructions)"


async def attach(
    services: Services, runtime: Runtime, prompt: str, context: list[dict[str, Any]], cancel: Cancel
) -> Attached:
    """Errors: ``Cancelled``, the engine's. A file that cannot be read is not attached."""
    return await _Attaching(services, runtime, prompt, cancel).all(context)


def _spans(rows: LineIndex, line: int | None) -> list[tuple[int, int]]:
    """Lines to show, the most first: all, or those around one."""
    total = len(rows)
    if line is not None and line <= total:
        return [(max(1, line - near), min(total, line + near)) for near in NEAR]
    return [(1, most) for most in (total, *(few for few in FEWER if few < total))]


class _Attaching:
    def __init__(self, services: Services, runtime: Runtime, prompt: str, cancel: Cancel) -> None:
        self._services = services
        self._runtime = runtime
        self._prompt = prompt
        self._cancel = cancel
        self._room = 0
        """Tokens left for what nobody pointed at."""
        self._found: Inventory | None = None
        self._done = Attached()

    async def all(self, context: list[dict[str, Any]]) -> Attached:
        transcript = await self._services.transcript(self._runtime)
        size = transcript.info.context_size
        free = size - len(await transcript.tokens(self._runtime.session.surface))
        self._room = max(0, min(size // SHARE, free // 4))
        for place in context:
            await self._pointed(place)
        await self._named()
        if not any(event.data.get("preface") for event in self._runtime.session.surface.events):
            await self._preface(size)
        return self._done

    # --- places -------------------------------------------------------------------------------------------------

    async def _pointed(self, place: dict[str, Any]) -> None:
        """A selection is shown in full; a file without one, which is the open one, as far as its share allows."""
        uri, where, diagnostic = place["uri"], place.get("range"), place.get("diagnostic")
        if where is None:
            path = await self._inside(uri)
            if path is not None and await self._file(path, None, place):
                return
            self._done.places.append({**place, "text": context_text(uri, None, diagnostic), "shown": []})
            return
        first, last = where["start"]["line"] + 1, where["end"]["line"] + 1
        if where["end"]["character"] == 0 and last > first:
            last -= 1
        arguments = {"path": uri, "start_line": first, "max_lines": last - first + 1}
        runtime = self._runtime
        result = await runtime.toolbox.run("read", arguments, Call(runtime.id, runtime.turn, "", self._cancel))
        shown = [runtime.shown(one) for one in result.shown]
        self._done.places.append({**place, "text": context_text(uri, result.text, diagnostic), "shown": shown})
        if result.shown:
            ranges = result.shown[0].ranges
            count = sum(end - start + 1 for start, end in ranges)
            self._item(result.shown[0].path, uri, "lines", count)

    async def _named(self) -> None:
        taken = {place["uri"] for place in self._done.places}
        for mention in mentions(self._prompt):
            if len(self._done.places) >= MOST_FILES:
                return
            path = await self._resolve(mention.name)
            if path is None:
                continue
            loaded = await self._load(path)
            if loaded is None or loaded.uri in taken:
                continue
            taken.add(loaded.uri)
            await self._file(path, mention.line, None, loaded)

    async def _resolve(self, name: str) -> Path | None:
        """The file that a prompt means: that path, or the only file of that name."""
        path = await self._inside(name)
        if path is not None and await self._runtime.files.exists(path):
            return path
        found = (await self._inventory()).named(name.rsplit("/", 1)[-1])
        return found[0] if len(found) == 1 else None

    async def _inside(self, name: str) -> Path | None:
        workspace = self._runtime.files.workspace
        try:
            path = workspace.locate(name)
        except Ds4Error:
            return None
        return path if workspace.contains(path) else None

    async def _load(self, path: Path) -> Loaded | None:
        try:
            return await self._runtime.files.load(path)
        except Ds4Error:
            return None

    async def _file(
        self, path: Path, line: int | None, place: dict[str, Any] | None, loaded: Loaded | None = None
    ) -> bool:
        """Attach a file, whole, around a line, or by what it declares; whether that was possible."""
        loaded = loaded or await self._load(path)
        if loaded is None:
            return False
        rows = LineIndex(loaded.text)
        if not rows or self._is_known(loaded, (_spans(rows, line)[0],)):
            return place is None
        found = await self._text(loaded, rows, line)
        if found is None:
            return False
        text, ranges, form, count = found
        shown: list[dict[str, Any]] = []
        shown += [self._runtime.shown(self._runtime.files.show(loaded, ranges))] if ranges else []
        diagnostic = (place or {}).get("diagnostic")
        told = context_text(loaded.name, text, diagnostic) if place else f"[For this request:]\n{text}"
        entry = {**(place or {"uri": loaded.uri, "attached": True}), "text": told, "shown": shown}
        self._done.places.append(entry)
        self._item(loaded.name, loaded.uri, form, count)
        return True

    async def _text(
        self, loaded: Loaded, rows: LineIndex, line: int | None
    ) -> tuple[str, Ranges, Literal["lines", "symbols"], int] | None:
        """What there is room for of a file: its text, the lines that it shows, what it is, and of how many lines."""
        total = len(rows)
        spans = _spans(rows, line)
        if line is None and not await self._has_room(rows, spans[0]):
            body, numbers = symbols(rows.rows(1, min(total, 20_000)))
            head = header(loaded.name, loaded.tag, 1, total, total)
            text = f"{head}\n[Too long to show: what it declares. `read` shows lines.]\n{body}"
            if body and await self._fits(text):
                return text, merge((one, one) for one in numbers), "symbols", total
        for start, end in spans:
            if await self._has_room(rows, (start, end)):
                part = page(rows, start, end - start + 1)
                text = f"{header(loaded.name, loaded.tag, part.start, part.end, total)}\n{part.body}"
                if await self._fits(text):
                    return text, part.shown, "lines", part.end - part.start + 1
        return None

    async def _has_room(self, rows: LineIndex, span: tuple[int, int]) -> bool:
        """Whether lines can have room, before they are counted; of what is near it, counted."""
        text = "\n".join(rows.rows(*span))
        if len(text) > self._room * LETTERS * 2:
            return False
        transcript = await self._services.transcript(self._runtime)
        return await transcript.measure([Segment(text, False)], self._cancel) <= self._room

    def _is_known(self, loaded: Loaded, ranges: Ranges) -> bool:
        """Whether the conversation has these lines already, as they are now."""
        seen: list[tuple[int, int]] = []
        for event in self._runtime.session.surface.events:
            data = event.data
            places = [*(data.get("shown") or ()), *(p for c in data.get("context") or () for p in c.get("shown") or ())]
            seen += [
                (pair[0], pair[1])
                for place in places
                if place["uri"] == loaded.key and place["fileTag"] == loaded.tag
                for pair in place["ranges"]
            ]
        return all(covers(merge(seen), start, end) for start, end in ranges)

    # --- the first message ----------------------------------------------------------------------------------------

    async def _preface(self, size: int) -> None:
        parts: list[str] = []
        found = await self._inventory()
        room = min(size // OVERVIEW_SHARE, MOST_OVERVIEW, self._room) * LETTERS
        listing = overview(found, room, self._prompt) if room > 60 else ""
        if listing:
            parts.append(listing)
            self._item("", "", "overview", len(found.files))
        if self._services.editor.trusted:
            nearest = [path for place in self._done.places if (path := await self._inside(place["uri"])) is not None]
            for one in await instructions(self._runtime.files, nearest[:1]):
                text = f"[Instructions of the project, from {one.name}]\n{one.text}"
                if not await self._fits(text):
                    continue
                parts.append(text)
                self._item(one.name, one.uri, "instructions", one.text.count("\n") + 1)
        self._done.preface = "\n\n".join(parts)

    # --- helpers --------------------------------------------------------------------------------------------------

    async def _inventory(self) -> Inventory:
        if self._found is None:
            self._found = await inventory(self._runtime.files.workspace.roots, self._cancel)
        return self._found

    async def _fits(self, text: str) -> bool:
        """Whether there is room for a text, which is taken then."""
        transcript = await self._services.transcript(self._runtime)
        size = await transcript.measure([Segment(text, False)], self._cancel)
        if size > self._room:
            return False
        self._room -= size
        return True

    def _item(self, name: str, uri: str, form: str, count: int) -> None:
        self._done.items.append({"name": name, "uri": uri, "form": form, "count": count})
