"""``ds4-lsp sessions``: look at, export, check and prune what is kept on disk, without a server."""

from __future__ import annotations

import argparse
import io
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4_lsp.agent.documents import plain_text
from ds4_lsp.protocol.errors import Ambiguous, Ds4Error, NotFound
from ds4_lsp.session.history import entries, jsonl_lines, markdown_pieces
from ds4_lsp.session.meta import SessionSummary
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.store import SessionStore, every_store
from ds4_lsp.session.verify import verify

_DAY = 86400.0
_MIB = 1 << 20


@dataclass(frozen=True)
class Kept:
    """One session on disk and the store that it is in. ``size``: bytes of everything beside its log too."""

    store: SessionStore
    summary: SessionSummary
    size: int

    @property
    def directory(self) -> Path:
        return self.store.directory / self.summary.session_id


def add_parser(subparsers: Any) -> None:
    """Register ``sessions`` and its verbs."""
    parser = subparsers.add_parser("sessions", help="list, show, export, verify and prune sessions")
    parser.add_argument("--directory", type=Path, default=None, help="where sessions are kept (ds4.sessions.directory)")
    parser.add_argument("--workspace", type=Path, default=None, help="only the sessions of this folder")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="every session, newest first")
    show = verbs.add_parser("show", help="what was said, as it was seen")
    show.add_argument("id", help="any unique beginning of a session's id")
    show.add_argument("--turns", type=_count_of, default=None, help="only the last TURNS turns")
    export = verbs.add_parser("export", help="write a session to stdout or a file")
    export.add_argument("id", help="any unique beginning of a session's id")
    export.add_argument("--format", choices=("markdown", "jsonl"), default="markdown")
    export.add_argument("--output", type=Path, default=None, metavar="FILE", help="write there instead of to stdout")
    check = verbs.add_parser("verify", help="check every rule of a log; changes nothing")
    check.add_argument("id", nargs="?", default=None, help="any unique beginning of a session's id (default: all)")
    prune = verbs.add_parser("prune", help="delete old or large sessions, after asking")
    prune.add_argument("--older-than", type=_positive, default=None, metavar="DAYS", help="not used for DAYS days")
    prune.add_argument("--larger-than", type=_positive, default=None, metavar="MB", help="larger than MB mebibytes")
    prune.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0, or 1 for a failure or a broken session."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What was said may hold halves of surrogate pairs, which no encoding takes.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _VERBS[args.verb](args)
    except Ds4Error as error:
        print(error.message, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Could not go on: {error}", file=sys.stderr)
        return 1


def _list(args: argparse.Namespace) -> int:
    kept = _all(args)
    if not kept:
        print("No sessions.")
    for store in dict.fromkeys(item.store for item in kept):
        print(", ".join(store.workspace) or "(no workspace)")
        for item in kept:
            if item.store is store:
                print(_line(item))
    return 0


def _show(args: argparse.Namespace) -> int:
    item = _one(args)
    print(_line(item))
    for entry in entries(read_file(item.directory), clean=plain_text, turns=args.turns):
        extra = entry.model_extra or {}
        name = f" {extra['name']}" if entry.role == "tool" else ""
        print(f"\n[{extra.get('turn')}] {entry.role}{name}")
        if entry.text:
            print(_harmless(entry.text))
        for call in extra.get("calls") or ():
            print(f"→ {call.get('name')} {call.get('arguments')}")
    return 0


def _export(args: argparse.Namespace) -> int:
    events = read_file(_one(args).directory)
    pieces = jsonl_lines(events) if args.format == "jsonl" else markdown_pieces(events, clean=plain_text)
    if args.output is None:
        sys.stdout.writelines(pieces)
        return 0
    with args.output.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.writelines(pieces)
    print(f"Wrote {args.output}.", file=sys.stderr)
    return 0


def _verify(args: argparse.Namespace) -> int:
    chosen = [_one(args)] if args.id else _all(args)
    broken = 0
    for item in chosen:
        report = verify(item.directory)
        broken += not report.ok
        print(f"{report.session_id}: {'ok' if report.ok else 'BROKEN'}, {report.events} events")
        for problem in report.problems:
            print(f"  problem: {problem}")
        for repair in report.repairs:
            print(f"  opening it would {repair}")
    if not chosen:
        print("No sessions.")
    return 1 if broken else 0


def _prune(args: argparse.Namespace) -> int:
    if args.older_than is None and args.larger_than is None:
        print(
            "Say what to delete: --older-than DAYS, --larger-than MB, or both (then both must hold).", file=sys.stderr
        )
        return 2
    doomed = [item for item in _all(args) if _is_doomed(item, args.older_than, args.larger_than)]
    if not doomed:
        print("No session is that old or large.")
        return 0
    for item in doomed:
        print(_line(item))
    total = sum(item.size for item in doomed)
    if not args.yes and not _confirmed(f"Delete {_count(len(doomed))}, {total / _MIB:.1f} MiB? [y/N] "):
        print("Nothing was deleted.")
        return 0
    failed = 0
    for item in doomed:
        try:
            item.store.delete(item.summary.session_id)
        except Ds4Error as error:
            print(f"Kept: {error.message}", file=sys.stderr)
            failed += 1
    for store in {item.store.directory: item.store for item in doomed}.values():
        store.clean()
    print(f"Deleted {_count(len(doomed) - failed)}.")
    return 1 if failed else 0


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "export": _export,
    "verify": _verify,
    "prune": _prune,
}


def _stores(args: argparse.Namespace) -> Iterator[SessionStore]:
    if args.workspace is not None:
        yield SessionStore(args.directory, [args.workspace])
    else:
        yield from every_store(args.directory)


def _all(args: argparse.Namespace) -> list[Kept]:
    """Newest first."""
    kept = [
        Kept(store, summary, _size(store.directory / summary.session_id))
        for store in _stores(args)
        for summary in store.list()
    ]
    return sorted(kept, key=lambda item: item.summary.updated_at, reverse=True)


def _one(args: argparse.Namespace) -> Kept:
    """The session whose id begins with ``args.id``. Raises ``NotFound`` or ``Ambiguous``."""
    found = [item for item in _all(args) if args.id and item.summary.session_id.startswith(args.id)]
    if not found:
        raise NotFound(f"No session's id begins with {args.id!r}. `ds4-lsp sessions list` names them.")
    if len(found) > 1:
        names = ", ".join(item.summary.session_id for item in found[:5])
        raise Ambiguous(f"{len(found)} sessions begin with {args.id!r}: {names}. Give more of the id.")
    return found[0]


def _is_doomed(item: Kept, days: float | None, mebibytes: float | None) -> bool:
    # A damaged session has no date that could be trusted: it is never old.
    old = days is None or (item.summary.problem is None and item.summary.updated_at < time.time() - days * _DAY)
    return old and (mebibytes is None or item.size > mebibytes * _MIB)


def _confirmed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _line(item: Kept) -> str:
    summary = item.summary
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.updated_at)) if summary.updated_at else "-" * 16
    title = _harmless(summary.title) or "(no prompt yet)"
    problem = f"  BROKEN: {summary.problem}" if summary.problem else ""
    turns = f"{summary.turns} turns" if summary.turns != 1 else "1 turn"
    return f"{summary.session_id}  {when}  {turns:>9}  {item.size / _MIB:8.1f} MiB  {title}{problem}"


def _harmless(text: str) -> str:
    """``text`` without what a terminal would obey."""
    return "".join(char if char in "\n\t" or unicodedata.category(char) != "Cc" else "�" for char in text)


def _count(number: int) -> str:
    return "1 session" if number == 1 else f"{number} sessions"


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def _count_of(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
