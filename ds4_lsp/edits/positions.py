"""Code point offsets and LSP positions (0-based line and character, in utf-8, utf-16 or utf-32 units).

A position beyond a line's end means the line's end, before its ending; a line beyond the last means the text's end; a
character inside a code point means that code point's start.
"""

from __future__ import annotations

from typing import Literal

from ds4_lsp.edits.text import LineIndex, content, ending

PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]

_UNIT = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}


def width(text: str, encoding: PositionEncoding) -> int:
    """Length of ``text`` in units of ``encoding``."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    codec, size = _UNIT[encoding]
    return len(text.encode(codec, "surrogatepass")) // size


def offset_of(text: str | LineIndex, line: int, character: int, encoding: PositionEncoding) -> int:
    """The offset, in code points, of an LSP position."""
    index = text if isinstance(text, LineIndex) else LineIndex(text)
    if not index.has(line + 1):
        return len(index.text)
    return index.start(line + 1) + _code_points(content(index[line]), character, encoding)


def position_of(text: str | LineIndex, offset: int, encoding: PositionEncoding) -> tuple[int, int]:
    """The LSP position (line, character) of an offset. Between CR and LF it is that of the CR: there is no other."""
    index = text if isinstance(text, LineIndex) else LineIndex(text)
    if not index:
        return 0, 0
    line = index.line_at(offset)
    last = index[line - 1]
    if offset >= index.end(line) and ending(last):
        return line, 0
    inside = content(last)[: offset - index.start(line)]
    return line - 1, width(inside, encoding)


def _code_points(text: str, units: int, encoding: PositionEncoding) -> int:
    if encoding == "utf-32" or text.isascii():
        return min(units, len(text))
    codec, size = _UNIT[encoding]
    cut = text.encode(codec, "surrogatepass")[: units * size]
    # A cut inside a code point leaves an incomplete sequence, which is dropped; a lone surrogate is kept by
    # surrogatepass, and half of a pair is told from it by the text itself.
    while cut:
        try:
            whole = cut.decode(codec, "surrogatepass")
        except UnicodeDecodeError:
            cut = cut[:-size]
            continue
        if text.startswith(whole):
            return len(whole)
        cut = cut[:-size]
    return 0
