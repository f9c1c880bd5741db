"""Lines as the model sees them: a header with the tag, then ``NUMBER text``.

Only lines printed whole count as shown: an edit of a line that was cut would lose what its author has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ds4_lsp.edits.text import content
from ds4_lsp.edits.views import Ranges, merge

LONG_LINE = 2000
"""Code points after which a numbered line is cut."""
PAGE_LIMIT = 200_000
"""Code points after which a page ends, whatever was asked: about 50,000 tokens."""


@dataclass(frozen=True)
class Page:
    """Lines ``start`` to ``end`` of ``total``; ``end = start - 1`` for none. ``shown``: those printed whole.

    ``more``: the line to go on with, None at the text's end.
    """

    body: str
    start: int
    end: int
    total: int
    shown: Ranges
    more: int | None


def page(lines: Sequence[str], start: int = 1, count: int | None = None, *, raw: bool = False) -> Page:
    """Up to ``count`` lines from the 1-based ``start`` on (None: all), as many as the page's limit lets in.

    ``raw``: the text as it is, without numbers, and long lines in full.
    """
    total = len(lines)
    last = total if count is None else min(total, start + count - 1)
    body: list[str] = []
    shown: list[tuple[int, int]] = []
    size, number = 0, start
    for line in lines[start - 1 : max(last, start - 1)]:
        piece, whole = _raw(line) if raw else numbered(line, number)
        if body and size + len(piece) > PAGE_LIMIT:
            break
        body.append(piece)
        size += len(piece)
        if whole:
            shown.append((number, number))
        number += 1
    text = "".join(body) if raw else "\n".join(body)
    return Page(text, start, number - 1, total, merge(shown), number if number <= total else None)


def header(path: str, tag: str, start: int, end: int, total: int) -> str:
    """``path: file_tag=… lines a-b of n``."""
    return f"{path}: file_tag={tag} lines {start if total else 0}-{end} of {total}"


def numbered(line: str, number: int) -> tuple[str, bool]:
    """One line with its number, and whether it is whole."""
    text = content(line)
    if len(text) <= LONG_LINE:
        return f"{number} {text}", True
    rest = len(text) - LONG_LINE
    return f"{number} {text[:LONG_LINE]}… [cut: {rest} more characters; read with raw=true shows them]", False


def excerpt(lines: Sequence[str], ranges: Ranges) -> tuple[str, Ranges]:
    """Several ranges with a note of each gap between them, and the lines that were printed whole."""
    parts: list[str] = []
    shown: list[tuple[int, int]] = []
    previous = 0
    for start, end in ranges:
        if previous and start > previous + 1:
            parts.append(f"… [lines {previous + 1}-{start - 1} not shown]")
        for number, line in enumerate(lines[start - 1 : end], start):
            piece, whole = numbered(line, number)
            parts.append(piece)
            if whole:
                shown.append((number, number))
        previous = end
    return "\n".join(parts), merge(shown)


def _raw(line: str) -> tuple[str, bool]:
    if len(line) <= PAGE_LIMIT:
        return line, True
    return f"{line[:PAGE_LIMIT]}… [cut: {len(line) - PAGE_LIMIT} more characters]\n", False
