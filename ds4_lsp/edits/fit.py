"""New text takes the line endings of the lines that it replaces or follows."""

from __future__ import annotations

from ds4_lsp.edits.text import LineIndex, content, ending, lines


def fit_lines(new: str, index: LineIndex, start: int, end: int) -> tuple[str, int]:
    """``new`` as whole lines in place of lines ``start`` to ``end`` (1-based inclusive).

    A last ending of ``new`` is neither needed nor doubled: ``"a"`` and ``"a\\n"`` are the same line, ``""`` is none.
    A missing final ending of the text stays missing. Returns the text, and how many code points before the lines it
    replaces as well: the ending before last lines that go.
    """
    fresh = [content(line) for line in lines(new)]
    endings = _endings(index, start, end, len(fresh))
    before, after = _around(index, index.end(start - 1), index.end(end))
    if index.is_ended or index.has(end + 1):
        return _join(before, list(zip(fresh, endings, strict=True)), after), 0
    if not fresh:
        # Lines that end the text go: with them goes the ending that parted them from the line that is now the last.
        return "", len(ending(index[start - 2])) if 1 < start <= end else 0
    parts = list(zip(fresh, [*endings[:-1], ""], strict=True))
    appended = [("", endings[0])] if end < start else []
    return _join(before, appended + parts, after), 0


def fit_span(new: str, index: LineIndex, span: tuple[int, int], rows: tuple[int, int]) -> str:
    """``new`` in place of the code points ``span``, in lines ``rows``.

    Its line breaks take those lines' endings; a final one is as given.
    """
    fresh = lines(new)
    endings = _endings(index, *rows, len(fresh))
    parts = [(content(line), mark if ending(line) else "") for line, mark in zip(fresh, endings, strict=True)]
    before, after = _around(index, *span)
    return _join(before, parts, after)


def _endings(index: LineIndex, start: int, end: int, count: int) -> list[str]:
    """The endings for ``count`` lines in place of lines ``start`` to ``end``; further ones take the last."""
    # Only a text's last line lacks an ending, so one of two neighbours has one unless the text has none at all.
    followed = (ending(index[number - 1]) for number in (start - 1, start - 2) if number >= 1)
    last = next(filter(None, followed), "") or (ending(index[0]) if index else "") or "\n"
    found: list[str] = []
    for line in index.rows(start, min(end, start + count - 1)):
        last = ending(line) or last
        found.append(last)
    return found + [last] * (count - len(found))


def _around(index: LineIndex, start: int, end: int) -> tuple[str, str]:
    return index.text[max(0, start - 1) : start], index.text[end : end + 1]


def _join(before: str, parts: list[tuple[str, str]], after: str) -> str:
    """The lines as one text that keeps its lines apart where it is put.

    In a text with mixed endings a CR can come to stand before an LF, and two line ends would become one: there CRLF
    takes the place of one of them.
    """
    if before == "\r" and after == "\n" and not any(map("".join, parts)):
        return "\r"
    text: list[str] = []
    last = before
    for body, mark in parts:
        apart = "\r\n" if mark == "\n" and not body and last == "\r" else mark
        piece = body + apart
        text.append(piece)
        last = piece[-1:] or last
    if last == "\r" and after == "\n" and any(text):
        text.append("\n")
    return "".join(text)
