"""``make bench``: what the server adds, as ratios and counts, in a Markdown table on stdout and JSON beside it."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from benchmarks import edits, log, restore
from ds4_lsp.cli.catalogue import CATALOGUE, models_directory
from ds4_lsp.cli.fetch import fetch


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--json", type=Path, help="write the rows there")
    args = parser.parse_args()
    model = fetch(CATALOGUE["smollm2-135m"], models_directory(), on_bytes=lambda _what, _done, _total: None)
    if args.quick:
        rows = [*edits.rows(3, (1_000, 10_000)), *log.rows((1_000, 10_000)), *restore.rows(model, 1024, 1)]
    else:
        rows = [
            *edits.rows(9, (1_000, 10_000, 100_000)),
            *log.rows((1_000, 10_000, 100_000, 200_000)),
            *restore.rows(model, 4096, 3),
        ]
    print("| what | measured | reach |\n|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.value} | {row.target or '–'} |")
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
