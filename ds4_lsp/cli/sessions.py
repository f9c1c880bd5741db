"""``ds4-lsp sessions``: look at, export, check and prune what is kept on disk, without a server."""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ds4_lsp.agent.documents import plain_text
from ds4_lsp.cli.sessions_found import MIB, Found, Kept, Leftover, every, harmless, line, one, one_line
from ds4_lsp.cli.sessions_units import age, size
from ds4_lsp.engine import snapshot
from ds4_lsp.protocol.errors import Ds4Error, NotFound
from ds4_lsp.session import meta
from ds4_lsp.session.events import Event
from ds4_lsp.session.history import entries, jsonl_lines, markdown_pieces, stream, write_export
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.snapshots import Held
from ds4_lsp.session.verify import verify

_WHAT = (
    "Say what to delete: --older-than AGE (days, or with a unit: 7d, 12h), --larger-than SIZE (MB, or with a unit: "
    "500MB, 1GB), or both (then both must hold)."
)


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
    prune.add_argument(
        "--older-than", type=age, default=None, metavar="AGE", help="not used for so long: 90 or 90d (days), 12h, 8w"
    )
    prune.add_argument(
        "--larger-than", type=size, default=None, metavar="SIZE", help="larger than that: 500 or 500MB, 1GB"
    )
    prune.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Returns the exit status: 0, or 1 for a failure or a broken session. Raises ``BrokenPipeError``."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What was said may hold halves of surrogate pairs, which no encoding takes.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        _check_directory(args.directory)
        status = _VERBS[args.verb](args)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        raise  # an OSError too, but no failure of ours: nobody reads any more
    except Ds4Error as error:
        print(error.message, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Could not go on: {error}", file=sys.stderr)
        return 1


def _check_directory(directory: Path | None) -> None:
    """A place that was named has to be there; the usual one is missing before the first session."""
    if directory is not None and not directory.is_dir():
        what = "is no directory" if directory.exists() else "does not exist"
        raise NotFound(f"--directory: {directory} {what}. Leave the option out for the usual place.")


def _list(args: argparse.Namespace) -> int:
    found = every(args)
    if not found.kept and not found.unreadable:
        print("No sessions.")
    for store in dict.fromkeys(item.store for item in found.kept):
        print(one_line(", ".join(store.workspace)) or "(no workspace)")
        for item in found.kept:
            if item.store is store:
                print(line(item))
    return found.status


def _show(args: argparse.Namespace) -> int:
    """What precedes a damage is shown, then the damage."""
    item = one(args)
    print(line(item))
    damage: list[Ds4Error] = []
    events = _until_damage(read_file(item.directory), damage)
    shown = (
        stream(events, clean=plain_text) if args.turns is None else entries(events, clean=plain_text, turns=args.turns)
    )
    for entry in shown:
        extra = entry.model_extra or {}
        name = f" {extra['name']}" if entry.role == "tool" else ""
        print(harmless(f"\n[{extra.get('turn')}] {entry.role}{name}"))
        if entry.text:
            print(harmless(entry.text))
        for call in extra.get("calls") or ():
            print(harmless(f"→ {call.get('name')} {call.get('arguments')}"))
    sys.stdout.flush()
    for error in damage:
        raise error
    return 0


def _until_damage(events: Iterator[Event], damage: list[Ds4Error]) -> Iterator[Event]:
    """The events up to where the log cannot be read any more; ``damage`` then gets the reason."""
    try:
        yield from events
    except Ds4Error as error:
        damage.append(error)


def _export(args: argparse.Namespace) -> int:
    events = read_file(one(args).directory)
    pieces = jsonl_lines(events) if args.format == "jsonl" else markdown_pieces(events, clean=plain_text)
    if args.output is None:
        sys.stdout.writelines(pieces)
        return 0
    target = args.output.resolve()
    if target.exists() and not target.is_file():
        # A device or a pipe takes no other file in its place.
        with target.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.writelines(pieces)
    else:
        write_export(target, pieces)
    print(f"Wrote {args.output}.", file=sys.stderr)
    return 0


def _verify(args: argparse.Namespace) -> int:
    found = Found([one(args)]) if args.id else every(args)
    broken = 0
    for item in found.kept:
        report = verify(item.directory, _held)
        broken += not report.ok
        print(f"{report.session_id}: {'ok' if report.ok else 'BROKEN'}, {report.events} events")
        if report.held:
            who = "another process" if report.holder is None else f"process {report.holder}"
            print(f"  it is open in {who}: what is unfinished may be going on there")
        for problem in report.problems:
            print(harmless(f"  problem: {problem}"))
        for repair in report.repairs:
            print(harmless(f"  using it would {repair}"))
    for left in found.leftovers:
        broken += 1
        print(f"{left.path.name}: BROKEN, no log")
        print(
            f"  problem: {harmless(str(left.path))} is what is left of a session; `ds4-lsp sessions prune` removes it"
        )
    if not found.kept and not found.leftovers and not found.unreadable:
        print("No sessions.")
    return 1 if broken else found.status


def _held(path: Path) -> Held | str:
    """What a snapshot holds, as ``verify`` asks."""
    found = snapshot.inspect(path)
    return found if isinstance(found, str) else Held(*found)


def _prune(args: argparse.Namespace) -> int:
    found = every(args)
    seconds, size = args.older_than, args.larger_than
    if seconds is None and size is None and not found.leftovers:
        print(_WHAT, file=sys.stderr)
        return 2
    # Twice, since it takes the whole log to know its date for certain.
    old = [item for item in found.kept if _is_doomed(item, seconds, size)]
    old = [item for item in map(_dated, old) if _is_doomed(item, seconds, size)]
    doomed: list[Kept | Leftover] = [*old, *found.leftovers]
    if not doomed:
        print("No session is that old or large.")
        return found.status
    for item in doomed:
        print(harmless(str(item)) if isinstance(item, Leftover) else line(item))
    total = sum(item.size for item in doomed)
    if not args.yes and not _confirmed(f"Delete {_count(len(doomed))}, {total / MIB:.1f} MiB? [y/N] "):
        print("Nothing was deleted.")
        return found.status
    failed = 0
    for item in doomed:
        try:
            if isinstance(item, Leftover):
                item.store.remove_leftover(item.path)
            else:
                item.store.delete(item.summary.session_id)
        except Ds4Error as error:
            print(f"Kept: {error.message}", file=sys.stderr)
            failed += 1
    for store in {item.store.directory: item.store for item in doomed}.values():
        store.clean()
    print(f"Deleted {_count(len(doomed) - failed)}.")
    return 1 if failed else found.status


def _dated(item: Kept) -> Kept:
    """The session under the date that its log has: what is deleted does not hang on a cache."""
    return replace(item, summary=meta.rebuilt(item.directory))


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "export": _export,
    "verify": _verify,
    "prune": _prune,
}


def _is_doomed(item: Kept, seconds: float | None, size: float | None) -> bool:
    if seconds is None and size is None:
        return False
    # A damaged session has no date that could be trusted: it is never old.
    old = seconds is None or (item.summary.problem is None and item.summary.updated_at < time.time() - seconds)
    return old and (size is None or item.size > size)


def _confirmed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def _count(number: int) -> str:
    return "1 session" if number == 1 else f"{number} sessions"


def _count_of(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
