"""After a refused edit: the lines in question as they stand now, so that the next call can be right at once.

They count as shown. Of a short file that is all of it; of a longer one the lines that were named, or those that come
nearest to them.
"""

from __future__ import annotations

from ds4_lsp.edits.context import AFTER, BEFORE
from ds4_lsp.edits.nearest import nearest
from ds4_lsp.edits.pages import excerpt, header
from ds4_lsp.edits.text import LineIndex
from ds4_lsp.edits.views import Ranges, merge
from ds4_lsp.protocol.errors import Ambiguous, Ds4Error, InvalidRequest, StaleFileTag
from ds4_lsp.tools.base import Call, ToolResult
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.guess import existing

SHORT = 60
"""Lines of a file that is shown whole."""
LARGEST = 6000
"""Code points shown at most."""


async def what_stands_there(files: Files, name: str, error: Ds4Error, call: Call, old: str = "") -> ToolResult | None:
    """None: lines would not help, or the file cannot be read."""
    if not isinstance(error, StaleFileTag | Ambiguous) and not (isinstance(error, InvalidRequest) and error.data):
        return None
    try:
        path = (await existing(files, name, call)).path
        loaded = await files.load(path)
    except Ds4Error:
        return None
    rows = LineIndex(loaded.text)
    ranges = _ranges(rows, old, error.data.get("read"))
    body, shown = excerpt(rows, ranges)
    if not shown or len(body) > LARGEST:
        return None
    reason = error.data.get("reason") or error.message.removesuffix(".")
    lines = [
        f"{loaded.name} was not changed: {reason}. It reads:",
        header(loaded.name, loaded.tag, shown[0][0], shown[-1][1], len(rows)),
        body,
    ]
    return ToolResult("\n".join(lines), ok=False, shown=(files.show(loaded, shown),))


def _ranges(rows: LineIndex, old: str, read: tuple[int, int] | None) -> Ranges:
    total = len(rows)
    if total <= SHORT:
        return ((1, total),) if total else ()
    places: list[tuple[int, int]] = [] if read is None else [read]
    if not places and old:
        text, at = rows.text, rows.text.find(old)
        while at >= 0 and len(places) < 5:
            places.append((rows.line_at(at), rows.line_at(at + len(old) - 1)))
            at = text.find(old, at + 1)
    if not places and old and (alike := nearest(old, list(rows))) is not None:
        places.append(alike)
    # A few lines more, so that the place is found although lines have moved a little.
    return merge((max(1, first - BEFORE), min(total, last + AFTER)) for first, last in places if first <= total)
