"""Which KV snapshots exist, which one fits, which ones go. The engine writes and checks the files themselves.

A name says what a file holds: the model's fingerprint (hashed), how many tokens, and a hash of their ids. So a snapshot
is found by what the transcript begins with, and none is tried that cannot fit.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ds4_lsp.session.storage import make_directory, storing

DEFAULT_LIMIT = 8 << 30
"""Bytes that all snapshots under one base may take."""
SYSPROMPT_NAME = "sysprompt"
_NAME = re.compile(r"([0-9a-f]{16})-(\d+)-([0-9a-f]{24})\.kv\Z")
_STRAY_AGE = 3600.0
"""Seconds after which a file without a snapshot's name is no write in progress."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """One file. ``tokens``: how many it holds; ``size``: bytes; ``used``: Unix seconds of its last use."""

    path: Path
    fingerprint: str
    tokens: int
    digest: str
    size: int
    used: float


@dataclass(frozen=True)
class Held:
    """What a snapshot file itself says that it holds. ``tokens``: their ids."""

    fingerprint: str
    tokens: Sequence[int]


def unusable(directory: Path, inspect: Callable[[Path], Held | str]) -> Iterator[tuple[Path, str]]:
    """The snapshots in ``directory`` that do not hold what their names say, and why. ``inspect`` reads one, or says
    why it cannot be read."""
    for item in _read(directory):
        held = inspect(item.path)
        if isinstance(held, str):
            yield item.path, held
        elif len(held.tokens) != item.tokens:
            yield item.path, f"its name says {item.tokens} tokens, and it holds {len(held.tokens)}"
        elif _digest(held.tokens) != item.digest:
            yield item.path, "it holds other tokens than its name says"
        elif _short(held.fingerprint) != item.fingerprint:
            yield item.path, "it is of another model than its name says"


def name_for(fingerprint: str, tokens: Sequence[int]) -> str:
    """The file name for a KV that holds exactly ``tokens`` of the model ``fingerprint``."""
    return f"{_short(fingerprint)}-{len(tokens)}-{_digest(tokens)}.kv"


class Snapshots:
    """All snapshots under ``base``: each session's own (``<workspace>/<session>/kv/``) and the system prompts'."""

    def __init__(self, base: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.base = base
        self.limit = limit

    @property
    def sysprompts(self) -> Path:
        """Where system prompts are kept, shared by all workspaces. Raises ``StorageFailed``."""
        directory = self.base / SYSPROMPT_NAME
        with storing("create", directory):
            make_directory(directory)
        return directory

    def sysprompt(self, fingerprint: str, tokens: Sequence[int]) -> Path:
        """Where the snapshot of a system prompt belongs."""
        return self.sysprompts / name_for(fingerprint, tokens)

    def session(self, kv_dir: Path, fingerprint: str, tokens: Sequence[int]) -> Path:
        """Where a session's snapshot belongs; ``kv_dir`` is the session's, which only the session makes."""
        return kv_dir / name_for(fingerprint, tokens)

    def find(self, directory: Path, fingerprint: str, tokens: Sequence[int]) -> Snapshot | None:
        """The snapshot that covers most of a transcript: it holds the first ``snapshot.tokens`` of ``tokens``."""
        short = _short(fingerprint)
        fitting = [item for item in _read(directory) if item.fingerprint == short and item.tokens <= len(tokens)]
        for item in sorted(fitting, key=lambda item: item.tokens, reverse=True):
            if item.digest == _digest(tokens[: item.tokens]):
                return item
        return None

    def written(self, path: Path) -> list[Path]:
        """After a snapshot was written to ``path``: it replaces the session's older ones, and the least recently used
        of all others go until the rest fits the limit. Returns what was removed."""
        self.used(path)
        removed: list[Path] = []
        if path.parent != self.base / SYSPROMPT_NAME:
            removed += [item.path for item in _read(path.parent) if item.path != path and _remove(item.path)]
        return removed + self.enforce(keep=path)

    def used(self, path: Path) -> None:
        """Note that a snapshot was restored or written now."""
        with suppress(OSError):
            os.utime(path)

    def discard(self, path: Path) -> None:
        """Remove a snapshot that the engine found unusable."""
        _remove(path)

    def listing(self) -> list[Snapshot]:
        """Every snapshot, least recently used first."""
        return sorted((item for place in self._places() for item in _read(place)), key=lambda item: item.used)

    def enforce(self, keep: Path | None = None) -> list[Path]:
        """Remove the least recently used until the limit holds, never ``keep``; and leftovers of writes cut short."""
        for place in self._places():
            _sweep(place)
        items = self.listing()
        total = sum(item.size for item in items)
        removed = []
        for item in items:
            if total <= self.limit:
                break
            if item.path != keep and _remove(item.path):
                total -= item.size
                removed.append(item.path)
        if removed:
            _log.info("removed %d snapshots to stay below %d bytes", len(removed), self.limit)
        return removed

    def _places(self) -> Iterator[Path]:
        yield self.base / SYSPROMPT_NAME
        yield from self.base.glob("*/*/kv")


def _read(directory: Path) -> Iterator[Snapshot]:
    with suppress(OSError):
        for path in sorted(directory.iterdir()):
            found = _NAME.match(path.name)
            if found is None:
                continue
            with suppress(OSError):
                status = path.stat()
                yield Snapshot(
                    path, found.group(1), int(found.group(2)), found.group(3), status.st_size, status.st_mtime
                )


def _sweep(directory: Path) -> None:
    with suppress(OSError):
        for path in directory.iterdir():
            if not _NAME.match(path.name) and time.time() - path.stat().st_mtime > _STRAY_AGE:
                _remove(path)


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError as error:
        _log.warning("could not remove the snapshot %s: %s", path, error)
        return False
    return True


def _short(fingerprint: str) -> str:
    return hashlib.sha256(fingerprint.encode()).hexdigest()[:16]


def _digest(tokens: Sequence[int]) -> str:
    return hashlib.sha256(array("i", tokens).tobytes()).hexdigest()[:24]
