"""What ``search`` shows of what it found: per file the tag, then the lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ds4_lsp.edits.pages import LONG_LINE, numbered
from ds4_lsp.edits.text import content
from ds4_lsp.edits.views import Ranges, merge
from ds4_lsp.tools.search_rg import Hit

AROUND = 200
"""Code points shown before and after the match in a line too long to show."""


@dataclass(frozen=True)
class Section:
    text: str
    shown: Ranges


def section(name: str, tag: str, rows: Sequence[str], hits: Sequence[Hit], context: int) -> Section:
    """One file's matches, each with ``context`` lines around it. Lines shown whole count as shown."""
    columns = {hit.line: hit.column for hit in hits}
    spans = merge((max(1, line - context), min(len(rows), line + context)) for line in columns)
    parts = [_head(name, tag, columns, len(rows), context)]
    shown: list[tuple[int, int]] = []
    for start, end in spans:
        if context and len(parts) > 1:
            parts.append("--")
        for number in range(start, end + 1):
            text, whole = _line(rows[number - 1], number, columns.get(number))
            parts.append(text)
            if whole:
                shown.append((number, number))
    return Section("\n".join(parts), merge(shown))


def _head(name: str, tag: str, lines: Iterable[int], total: int, context: int) -> str:
    found = list(lines)
    count = f"{len(found)} match" if len(found) == 1 else f"{len(found)} matches"
    # Among lines of context those with a match must be told apart.
    where = f" (lines {', '.join(map(str, found))})" if context else ""
    return f"{name}: file_tag={tag} {count}{where} in {total} lines"


def _line(line: str, number: int, column: int | None) -> tuple[str, bool]:
    text = content(line)
    if column is None or len(text) <= LONG_LINE:
        return numbered(line, number)
    low, high = max(0, column - AROUND), column + AROUND
    return (
        f"{number} {'…' if low else ''}{text[low:high]}{'…' if high < len(text) else ''} "
        f"[cut: the line has {len(text)} characters; read with raw=true shows them]"
    ), False
