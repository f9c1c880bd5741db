"""Bytes and text, lines and tags.

Lines end at LF, CRLF or CR and nowhere else: not at form feeds, U+0085 or U+2028. A byte order mark belongs to the
encoding, not to the text. Offsets are code points.
"""

from __future__ import annotations

import codecs
import io
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, overload

from ds4_lsp.protocol.errors import InvalidRequest


@dataclass(frozen=True)
class Encoding:
    """How a text is stored. UTF-16 always has its byte order mark: it is what the encoding was known by."""

    name: Literal["utf-8", "utf-16-le", "utf-16-be"] = "utf-8"
    bom: bool = False


UTF8 = Encoding()

MARK = "\ufeff"
"""A byte order mark, as a buffer holds it whose editor does not take it off."""

_STRETCH = 8192
"""Code points: a few hundred lines, so that finding one among them costs microseconds, as does counting them."""

_BOMS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, Encoding("utf-8", True)),
    (codecs.BOM_UTF16_LE, Encoding("utf-16-le", True)),
    (codecs.BOM_UTF16_BE, Encoding("utf-16-be", True)),
)


@dataclass(frozen=True)
class Text:
    """A decoded file: what is needed to write it back as it was found."""

    text: str
    encoding: Encoding = UTF8


def decode(data: bytes) -> Text:
    """The text of a file. ``InvalidRequest``: it is binary, or in an encoding other than UTF-8 or UTF-16 with a BOM."""
    # A UTF-32 LE mark begins with the UTF-16 LE one, so it is looked for first.
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise InvalidRequest("it is UTF-32, which is not supported: convert it to UTF-8 first")
    bom, encoding = next(((bom, encoding) for bom, encoding in _BOMS if data.startswith(bom)), (b"", UTF8))
    try:
        text = data[len(bom) :].decode(encoding.name)
    except UnicodeDecodeError as error:
        kind = "binary" if b"\0" in data and encoding == UTF8 else f"not valid {encoding.name.upper()}"
        raise InvalidRequest(
            f"it is {kind} (byte {error.start + len(bom)}): only UTF-8 and UTF-16 text can be read or edited"
        ) from None
    if "\0" in text:
        raise InvalidRequest("it is binary (it contains NUL): only UTF-8 and UTF-16 text can be read or edited")
    return Text(text, encoding)


def encode(text: str, encoding: Encoding) -> bytes:
    """The bytes of ``text``. ``InvalidRequest``: a lone surrogate, which no file can hold."""
    bom = next((bom for bom, known in _BOMS if known == encoding), b"")
    try:
        return bom + text.encode(encoding.name)
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the text holds a lone surrogate at offset {error.start}: no file can") from None


def file_tag(text: str) -> str:
    """CRC-32 (ISO-HDLC) of the text as UTF-8 without a byte order mark, as eight lower-case hex digits."""
    # An editor's buffer may hold lone surrogates; a tag must not fail on them.
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def lines(text: str) -> list[str]:
    """The lines with their endings. No empty line follows a final ending: ``"a\\n"`` is one line, ``""`` is none."""
    # With newline="" a StringIO ends lines at LF, CRLF and CR, keeps them as they are, and works in C.
    return io.StringIO(text, newline="").readlines()


def ending(line: str) -> str:
    """The ending of a line that :func:`lines` gave: LF, CRLF, CR or nothing."""
    if line.endswith("\r\n"):
        return "\r\n"
    return line[-1] if line.endswith(("\n", "\r")) else ""


def content(line: str) -> str:
    """A line without its ending."""
    return line[: len(line) - len(ending(line))]


def unify(text: str) -> str:
    """The text with every line ending as LF."""
    return text if "\r" not in text else text.replace("\r\n", "\n").replace("\r", "\n")


def count_ends(text: str, start: int, end: int) -> int:
    """The number of line ends in ``text[start:end]``, taken by itself."""
    ends = text.count("\n", start, end)
    if text.find("\r", start, end) < 0 or not _has_lone_cr(text[start:end]):
        return ends
    return ends + text.count("\r", start, end) - text.count("\r\n", start, end)


def _has_lone_cr(text: str) -> bool:
    if "\r" not in text:
        return False
    # What Python reads text files with tells the kinds of endings in a fraction of the time that counting CRLFs takes.
    decoder = io.IncrementalNewlineDecoder(None, translate=False)
    decoder.decode(text, final=True)
    return decoder.newlines not in ("\r\n", ("\n", "\r\n"))


class LineIndex(Sequence[str]):
    """The lines of one text, as :func:`lines` gives them, and where they are.

    Nothing is split that is not asked for: line ends are counted in stretches, from the front and only as far as
    needed, and only the stretch in question is looked at line by line. The starts that were asked for are kept.
    ``known``: the start of a line and that line's number, where they are known; what is before it is then counted only
    when asked for.
    """

    def __init__(self, text: str, known: tuple[int, int] = (0, 1)) -> None:
        self.text = text
        # Of each stretch's start: its offset, never inside a CRLF, and the number of line ends before it.
        self._offsets = [known[0]]
        self._counts = [known[1] - 1]
        self._starts: dict[int, int] = {}

    def __len__(self) -> int:
        """The number of lines."""
        self._count_to(offset=len(self.text))
        return self._counts[-1] + (not self.is_ended)

    def __bool__(self) -> bool:
        return bool(self.text)

    def __iter__(self) -> Iterator[str]:
        return iter(lines(self.text))

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        """By 0-based row, as in any sequence."""
        if isinstance(row, slice):
            low, high, step = row.indices(len(self))
            return lines(self.text)[row] if step < 0 else self.rows(low + 1, high)[::step]
        at = row if row >= 0 else row + len(self)
        if at < 0 or not self.has(at + 1):
            raise IndexError(row)
        return self.text[self.start(at + 1) : self.start(at + 2)]

    def rows(self, start: int, end: int) -> list[str]:
        """The 1-based lines ``start`` to ``end``, inclusive; none where it ends before it starts."""
        return lines(self.text[self.start(start) : self.end(end)]) if start <= end else []

    @property
    def is_ended(self) -> bool:
        """Whether every line has an ending."""
        return self.text[-1:] in ("", "\n", "\r")

    def has(self, line: int) -> bool:
        """Whether there is such a 1-based line. Cheaper than the number of lines where the line is near the front."""
        self._count_to(line=line)
        return line <= self._counts[-1] or line <= len(self)

    def start(self, line: int) -> int:
        """Offset of the first code point of a 1-based line; that of the line after the last is the text's end."""
        found = self._starts.get(line)
        if found is None:
            found = self._starts[line] = self._find_start(line)
        return found

    def _find_start(self, line: int) -> int:
        before = line - 1
        self._look_from(before < self._counts[0])
        if before == self._counts[0]:
            return self._offsets[0]
        self._count_to(line=before)
        if before > self._counts[-1]:
            if before != len(self):
                raise IndexError(line)
            return len(self.text)
        stretch = bisect_left(self._counts, before) - 1
        at, end = self._offsets[stretch : stretch + 2]
        part, count = self.text[at:end], before - self._counts[stretch]
        if _has_lone_cr(part):
            return at + sum(map(len, lines(part)[:count]))
        return end - len(part.split("\n", count)[-1])

    def end(self, line: int) -> int:
        """Offset just after a 1-based line, its ending included. Line 0 ends at 0."""
        return self.start(line + 1)

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds the code point at ``offset``; at the text's end, the last line, at least 1."""
        if offset >= len(self.text):
            return max(1, len(self))
        self._look_from(offset < self._offsets[0])
        self._count_to(offset=offset + 1)
        stretch = bisect_right(self._offsets, offset) - 1
        # Between CR and LF no line ends.
        end = offset - (self.text[offset - 1 : offset + 1] == "\r\n")
        return self._counts[stretch] + count_ends(self.text, self._offsets[stretch], end) + 1

    def _look_from(self, is_front: bool) -> None:
        if is_front:
            self._offsets, self._counts = [0], [0]

    def _count_to(self, *, offset: int = 0, line: int = 0) -> None:
        """Count at least up to ``offset``, or to the end of ``line``, or to the text's end."""
        text, size = self.text, len(self.text)
        at, count = self._offsets[-1], self._counts[-1]
        while at < size and (at < offset or count < line):
            end = min(at + _STRETCH, size)
            end += text[end - 1 : end + 1] == "\r\n"
            count += count_ends(text, at, end)
            at = end
            self._offsets.append(at)
            self._counts.append(count)
