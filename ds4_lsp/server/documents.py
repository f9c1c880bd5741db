"""The live text of every open document.

Written on the LSP loop by ``didOpen``, ``didChange`` and ``didClose``; read from any thread, as immutable values.
Lines end at LF, CRLF or CR and nowhere else, positions count in the negotiated encoding (edits.md).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ds4_lsp.edits import positions, uris
from ds4_lsp.edits.text import MARK, LineIndex
from ds4_lsp.server.client import PositionEncoding

log = logging.getLogger(__name__)

_SURROGATE = re.compile("[\ud800-\udfff]")

Watcher = Callable[[str | None], None]
"""Called with each text that a document goes through, and with None when it is closed."""


@dataclass(frozen=True)
class Document:
    """``uri`` is canonical, ``client_uri`` as the client spells it. ``order``: documents opened before it.

    ``base``: the text when the client opened or last saved it, which is what the disk had then.
    ``mark``: the byte order mark that the client's buffer begins with, or nothing. It is no part of ``text``, but the
    client's positions count it.
    """

    uri: str
    client_uri: str
    version: int
    text: str
    order: int
    mark: str = ""
    base: str = ""


@dataclass(frozen=True)
class Change:
    """A content change. ``range``: start line and character, end line and character; None replaces everything."""

    range: tuple[int, int, int, int] | None
    text: str


def apply_change(text: str, change: Change, encoding: PositionEncoding) -> str:
    """Positions outside the text are moved to the nearest place in it, as LSP asks for characters."""
    if change.range is None:
        changed = change.text
    else:
        line, character, end_line, end_character = change.range
        index = LineIndex(text)
        start = positions.offset_of(index, line, character, encoding)
        end = positions.offset_of(index, end_line, end_character, encoding)
        changed = text[:start] + change.text + text[max(start, end) :]
    # Halves of a surrogate pair that arrive apart are one character once they meet.
    return join_surrogates(changed) if _SURROGATE.search(change.text) else changed


def join_surrogates(text: str) -> str:
    """``text`` with adjacent surrogate halves joined; a lone half stays."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _unmarked(buffer: str) -> tuple[str, str]:
    return (MARK, buffer[1:]) if buffer.startswith(MARK) else ("", buffer)


class DocumentStore:
    """Open documents by canonical URI."""

    def __init__(self, encoding: PositionEncoding = "utf-16") -> None:
        self.encoding: PositionEncoding = encoding
        self._lock = threading.Lock()
        self._documents: dict[str, Document] = {}
        self._opened = 0
        self._watchers: dict[str, list[Watcher]] = {}

    def open(self, uri: str, version: int, text: str) -> None:
        if _SURROGATE.search(text):
            text = join_surrogates(text)
        canonical = uris.canonical(uri)
        mark, text = _unmarked(text)
        with self._lock:
            self._opened += 1
            self._documents[canonical] = Document(canonical, uri, version, text, self._opened, mark, text)
        self._notify(canonical, text)

    def change(self, uri: str, version: int, changes: Sequence[Change]) -> None:
        canonical = uris.canonical(uri)
        document = self._documents.get(canonical)
        if document is None:
            log.warning("a change of %s, which is not open, has no effect", uri)
            return
        mark, text = document.mark, document.text
        for change in changes:
            mark, text = _unmarked(apply_change(mark + text, change, self.encoding))
            self._notify(canonical, text)
        with self._lock:
            self._documents[canonical] = replace(document, version=version, text=text, mark=mark)

    def saved(self, uri: str, text: str | None = None) -> None:
        """The disk has ``text`` of the document; None: what the document has now."""
        canonical = uris.canonical(uri)
        with self._lock:
            document = self._documents.get(canonical)
            if document is not None:
                self._documents[canonical] = replace(document, base=document.text if text is None else text)

    def close(self, uri: str) -> None:
        canonical = uris.canonical(uri)
        with self._lock:
            self._documents.pop(canonical, None)
        self._notify(canonical, None)

    def get(self, uri: str) -> Document | None:
        with self._lock:
            return self._documents.get(uris.canonical(uri))

    def all(self) -> tuple[Document, ...]:
        """Open documents, the one opened first at the front."""
        with self._lock:
            return tuple(sorted(self._documents.values(), key=lambda document: document.order))

    def watch(self, uri: str, watcher: Watcher) -> Callable[[], None]:
        """Call ``watcher`` with every text of that document from now on; returns a function that ends it.

        Each content change of one notification counts: what the user typed right behind an edit arrives with it.
        """
        canonical = uris.canonical(uri)
        self._watchers.setdefault(canonical, []).append(watcher)

        def forget() -> None:
            watchers = self._watchers.get(canonical, [])
            if watcher in watchers:
                watchers.remove(watcher)
            if not watchers:
                self._watchers.pop(canonical, None)

        return forget

    def _notify(self, canonical: str, text: str | None) -> None:
        for watcher in list(self._watchers.get(canonical, ())):
            watcher(text)
