"""The sessions that are on disk, as ``ds4-lsp sessions`` finds and names them."""

from __future__ import annotations

import argparse
import os
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ds4_lsp.protocol.errors import Ambiguous, Ds4Error, NotFound
from ds4_lsp.session.meta import SessionSummary
from ds4_lsp.session.store import SessionStore, every_store

MIB = 1 << 20
_BREAKS = frozenset("\n\r\t\v\f\x85\u2028\u2029")
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks, embeddings, overrides and isolates of the bidirectional algorithm (Unicode, UAX 9)."""


@dataclass(frozen=True)
class Kept:
    """One session on disk and the store that it is in. ``size``: bytes of everything beside its log too."""

    store: SessionStore
    summary: SessionSummary
    size: int

    @property
    def directory(self) -> Path:
        return self.store.directory / self.summary.session_id


@dataclass(frozen=True)
class Leftover:
    """A directory of a session whose log is gone. ``size``: bytes."""

    store: SessionStore
    path: Path
    size: int

    def __str__(self) -> str:
        return f"{self.path.name}  no log, {self.size / MIB:.1f} MiB left of a session in {self.path.parent}"


@dataclass
class Found:
    """The sessions that could be listed, newest first, and how many workspaces could not (they were named)."""

    kept: list[Kept]
    unreadable: int = 0
    leftovers: list[Leftover] = field(default_factory=list)

    @property
    def status(self) -> int:
        return 1 if self.unreadable else 0


def _stores(args: argparse.Namespace) -> Iterator[SessionStore]:
    if args.workspace is not None:
        yield SessionStore(args.directory, [args.workspace])
    else:
        yield from every_store(args.directory)


def every(args: argparse.Namespace) -> Found:
    """Every session. A workspace whose sessions cannot be read is named, and the others are listed."""
    found = Found([])
    for store in _stores(args):
        try:
            found.kept += [
                Kept(store, summary, _size(store.directory / summary.session_id)) for summary in store.list()
            ]
            found.leftovers += [Leftover(store, path, _size(path)) for path in store.leftovers()]
        except Ds4Error as error:
            print(error.message, file=sys.stderr)
            found.unreadable += 1
    found.kept.sort(key=lambda item: item.summary.updated_at, reverse=True)
    return found


def one(args: argparse.Namespace) -> Kept:
    """The session whose id begins with ``args.id``. Raises ``NotFound`` or ``Ambiguous``."""
    found = [item for item in every(args).kept if args.id and item.summary.session_id.startswith(args.id)]
    if not found:
        raise NotFound(f"No session's id begins with {args.id!r}. `ds4-lsp sessions list` names them.")
    if len(found) > 1:
        names = ", ".join(item.summary.session_id for item in found[:5])
        raise Ambiguous(f"{len(found)} sessions begin with {args.id!r}: {names}. Give more of the id.")
    return found[0]


def line(item: Kept) -> str:
    """One session in a list."""
    summary = item.summary
    when = _date(summary.updated_at) if summary.updated_at > 0 else "-" * 16
    title = one_line(summary.title) or "(no prompt yet)"
    problem = f"  BROKEN: {one_line(summary.problem)}" if summary.problem else ""
    turns = f"{summary.turns} turns" if summary.turns != 1 else "1 turn"
    return f"{summary.session_id}  {when}  {turns:>9}  {item.size / MIB:8.1f} MiB  {title}{problem}"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def one_line(text: str) -> str:
    """``text`` as part of a line: neither does it end the line, nor does it change the order of what follows it."""
    return harmless("".join(" " if char in _BREAKS else "�" if char in _TURNS else char for char in text))


def harmless(text: str) -> str:
    """``text`` without what a terminal would obey."""
    return "".join(char if char in "\n\t" or unicodedata.category(char) != "Cc" else "�" for char in text)


def _size(directory: Path) -> int:
    """Bytes of its files. What vanishes or cannot be read meanwhile counts nothing."""
    total = 0
    for place, _folders, files in os.walk(directory):
        for name in files:
            with suppress(OSError):
                total += Path(place, name).lstat().st_size
    return total
