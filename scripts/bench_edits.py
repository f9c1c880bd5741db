"""What guarding costs: milliseconds of processor time for 100,000 lines. ``python scripts/bench_edits.py``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ds4_lsp.edits.guard import Lines, Resolution, resolve
from ds4_lsp.edits.plan import plan
from ds4_lsp.edits.text import LineIndex, file_tag
from ds4_lsp.edits.views import View
from ds4_lsp.server.client import Client
from ds4_lsp.server.workspace_edit import workspace_edit

LINES = 100_000
ROUNDS = 7


def milliseconds(what: Callable[[], object]) -> float:
    """The best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        what()
        best = min(best, time.process_time() - began)
    return best * 1000


def main() -> None:
    seen = "".join(f"line {number} of the file, as long as lines of code are\n" for number in range(LINES))
    current = "typed by the user\n" + seen
    view, tag = View(seen, ((1, LINES),), ((1, LINES),)), file_tag(seen)
    target = Lines(LINES // 2, LINES // 2 + 2)

    def guard(text: str) -> Resolution:
        found = resolve(target, "new", tag=tag, current=text, view=view)
        assert isinstance(found, Resolution)
        return found

    found, path = guard(current), Path("/ws/a.txt")
    place = {"start": found.start, "end": found.end, "new_text": found.new_text}
    edit = plan(uri="file:///ws/a.txt", path=path, version=1, before=current, label="edit", **place)
    for name, what in {
        "tag": lambda: file_tag(seen),
        "lines": lambda: LineIndex(seen),
        "guard, same text": lambda: guard(seen),
        "guard, rebased": lambda: guard(current),
        "plan": lambda: plan(uri=edit.uri, path=path, version=1, before=current, label="edit", **place),
        "workspace edit": lambda: workspace_edit(edit, edit.uri, Client(document_changes=True), confirm=False),
    }.items():
        print(f"{name:<17} {milliseconds(what):7.1f} ms")
    print(f"({LINES:,} lines, {len(seen) / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()
