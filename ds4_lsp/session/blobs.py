"""Texts that the log refers to by hash: file contents before and after edits, for undo."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ds4_lsp.protocol.errors import CorruptSession, NotFound
from ds4_lsp.session.events import Event
from ds4_lsp.session.storage import make_inside, replace_file, storing

_NAME = re.compile(r"[0-9a-f]{64}\Z")


def cited(event: Event) -> list[str]:
    """Names of the texts that an event refers to: of an edit, for undo; of what was shown, for the guard."""
    data = event.data
    context = [entry for place in data.get("context") or () for entry in place.get("shown") or ()]
    shown = [entry.get("blob") for entry in [*(data.get("shown") or ()), *context]]
    return [name for name in (data.get("beforeBlob"), data.get("afterBlob"), *shown) if name is not None]


def text_name(text: str) -> str:
    """The name that a text is stored under."""
    return hashlib.sha256(_encoded(text)).hexdigest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:
        return False


class Blobs:
    """Immutable texts under the SHA-256 of their UTF-8, one file each. Safe for several writers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def put(self, text: str) -> str:
        """Store ``text`` durably and return its name. Raises ``StorageFailed``."""
        data = _encoded(text)
        name = text_name(text)
        path = self.directory / name
        with storing("store", path):
            make_inside(self.directory)
            # A damaged one is replaced by a new file: it may be shared with forks, which trust what they have.
            if not _holds(path, data):
                replace_file(path, data)
        return name

    def get(self, name: str) -> str:
        """Raises ``NotFound``, ``CorruptSession`` for content that is not what was stored, ``StorageFailed``."""
        path = self.path(name)
        if name not in self:
            raise NotFound(f"The text {name} is not stored in this session.", blob=name)
        with storing("read", path):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != name:
            raise CorruptSession(f"The stored text {path} is damaged.", blob=name)
        return data.decode("utf-8", "surrogatepass")

    def path(self, name: str) -> Path:
        if not _NAME.match(name):
            raise NotFound(f"{name!r} is not the name of a stored text.", blob=name)
        return self.directory / name

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or _NAME.match(name) is None:
            return False
        with storing("look for", self.directory / name):
            return (self.directory / name).is_file()
