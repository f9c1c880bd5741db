"""Reads the head of a GGUF file: enough to refuse a bad one, and to know its size, before llama.cpp is asked.

The format is that of ggml's ``docs/gguf.md``, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4_lsp.engine.paths import model_file
from ds4_lsp.protocol.errors import ModelLoadFailed

MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
LONGEST_ARRAY = 4096
"""Longer arrays (the vocabulary) are skipped."""
MAX_HEADER = 256 * 1024 * 1024
"""Bytes; a vocabulary takes some ten million."""
MAX_ENTRIES = 1 << 22
"""Most texts of an array: ten times the largest vocabularies and their merges."""
COUNTS = {
    "context_length": (2**31 - 1, False),
    "block_count": (65536, False),
    "embedding_length": (2**24, False),
    "attention.head_count": (65536, True),
    "attention.head_count_kv": (65536, True),
    "attention.key_length": (2**20, True),
    "attention.value_length": (2**20, True),
}
"""What is reckoned with: the most that is believed, far above any model, and whether there may be one per layer."""
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


@dataclass(frozen=True)
class Header:
    """``size``: bytes of the model, all parts of a split one. ``digest``: SHA-256 of the metadata, in hex.

    The values of ``COUNTS`` are whole numbers within their bounds, or lists of such.
    """

    path: Path
    size: int
    mtime_ns: int
    metadata: dict[str, Any]
    digest: str

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def value(self, key: str, default: Any = None) -> Any:
        """The value of ``ARCHITECTURE.key``."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    @property
    def trained_context(self) -> int | None:
        """Tokens; None where the file does not say."""
        value = self.value("context_length")
        return int(value) if value else None


def read_header(path: Path) -> Header:
    """The header of a model file. Raises ``ModelLoadFailed`` when the file is missing, unreadable or no model."""
    path = model_file(path)
    try:
        if path.is_dir():
            raise ModelLoadFailed(f"{path} is a folder: set model.path to a GGUF file in it", path=str(path))
        parts = [(part, part.stat()) for part in _parts(path)]
        for part, status in parts:
            if not stat.S_ISREG(status.st_mode):
                raise ModelLoadFailed(f"{part} is not a regular file: set model.path to a GGUF file", path=str(part))
        with path.open("rb") as file:
            modified = os.fstat(file.fileno()).st_mtime_ns
            magic = file.read(4)
            if magic != MAGIC:
                raise ModelLoadFailed(f"{path} is not a GGUF model: it begins with {magic!r}", path=str(path))
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                metadata, end = Reader(data).read()
                digest = hashlib.sha256(data[:end]).hexdigest()
        _check(metadata)
    except FileNotFoundError as error:
        raise ModelLoadFailed(
            f"no model file at {error.filename}: set model.path, or fetch one with `ds4-lsp model fetch`",
            path=str(path),
        ) from None
    except OSError as error:
        raise ModelLoadFailed(f"{path} cannot be read: {error.strerror}", path=str(path)) from None
    except (struct.error, ValueError, IndexError, RecursionError) as error:
        raise ModelLoadFailed(f"{path} is corrupt or incomplete: {error}", path=str(path)) from None
    size = sum(status.st_size for _, status in parts)
    return Header(path, size, modified, metadata, digest)


def _check(metadata: dict[str, Any]) -> None:
    """Raises ``ValueError`` for what no model has."""
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ValueError("it names no architecture")
    for name, (most, per_layer) in COUNTS.items():
        key = f"{architecture}.{name}"
        value = metadata.get(key, 0)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not per_layer and listed != [value]:
            raise ValueError(f"its {key} is a list")
        for number in listed:
            if type(number) is not int or not 0 <= number <= most:
                raise ValueError(f"its {key} is {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"


def _parts(path: Path) -> list[Path]:
    """All files of a split model, the file itself otherwise."""
    match = _SPLIT.search(path.name)
    if match is None:
        return [path]
    stem, total = path.name[: match.start()], int(match.group(2))
    return [path.with_name(f"{stem}-{part:05}-of-{total:05}.gguf") for part in range(1, total + 1)]


class Reader:
    """Reads the metadata of a GGUF file that is mapped into memory. Raises ``ValueError`` when it is none."""

    def __init__(self, data: mmap.mmap, longest_array: int = LONGEST_ARRAY) -> None:
        self._data = data
        self._longest_array = longest_array
        self._at = 4

    def read(self) -> tuple[dict[str, Any], int]:
        """The metadata, and the offset at which the tensors' table ends."""
        version = self._number("I")
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version} is not supported")
        tensors, pairs = self._number("Q"), self._number("Q")
        if pairs > 1 << 20 or tensors > 1 << 20:
            raise ValueError("its header counts too many entries")
        metadata = {}
        for _ in range(pairs):
            key = self._string()
            metadata[key] = self._value(self._number("I"))
        for _ in range(tensors):
            self._string()
            dimensions = self._number("I")
            self._skip(8 * dimensions + 4 + 8)
        return metadata, self._at

    def _skip(self, count: int) -> None:
        if self._at + count > len(self._data):
            raise ValueError("it ends inside its header")
        if self._at + count > MAX_HEADER:
            raise ValueError("its header is endless")
        self._at += count

    def _number(self, code: str) -> Any:
        size = struct.calcsize("<" + code)
        self._skip(size)
        return struct.unpack_from("<" + code, self._data, self._at - size)[0]

    def _string(self) -> str:
        count = self._number("Q")
        self._skip(count)
        return self._data[self._at - count : self._at].decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise ValueError(f"value type {kind} is unknown")
        return self._number(_SCALARS[kind])

    def _array(self) -> list[Any] | None:
        kind, count = self._number("I"), self._number("Q")
        if kind == _ARRAY:
            raise ValueError("it has an array of arrays")
        if count <= self._longest_array:
            return [self._value(kind) for _ in range(count)]
        if kind in _SCALARS:
            self._skip(count * struct.calcsize("<" + _SCALARS[kind]))
        elif kind == _STRING and count > MAX_ENTRIES:
            raise ValueError(f"it has an array of {count} texts")
        elif kind == _STRING:
            for _ in range(count):
                self._skip(self._number("Q"))
        else:
            raise ValueError(f"value type {kind} is unknown")
        return None
