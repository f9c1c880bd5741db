"""Tag, guard and rebase, by lines of the file, against a bare CRC-32 of the same text and against ``difflib``."""

from __future__ import annotations

import difflib
import statistics
import zlib
from collections.abc import Callable

from benchmarks.measure import Row, ratio, seconds, shown
from ds4_lsp.edits.guard import Lines, Resolution, resolve
from ds4_lsp.edits.text import file_tag
from ds4_lsp.edits.views import View

LINE = "line {} of the file, as long as lines of code are{}"
TYPED = "typed by the user"
TEXTS = {"LF": ("", "\n"), "CRLF": ("", "\r\n"), "LF, not ASCII": (" ä😀", "\n")}
"""What lines of each kind of text have at their end."""


def rows(rounds: int, sizes: tuple[int, ...]) -> list[Row]:
    # Short files take microseconds: more rounds cost nothing there.
    found = [row for size in sizes for row in _size(size, "LF", max(rounds, 200_000 // size))]
    return found + [row for kind in list(TEXTS)[1:] for row in _size(sizes[-1], kind, rounds)]


def _size(size: int, kind: str, rounds: int) -> list[Row]:
    words, ending = TEXTS[kind]
    seen = "".join(LINE.format(number, words) + ending for number in range(size))
    # Another object each, as a file read anew is: comparing a text with itself costs nothing.
    same, below, above = (seen.encode().decode(), seen + TYPED + ending, TYPED + ending + seen)
    view, tag = View(seen, ((1, size),), ((1, size),)), file_tag(seen)
    target = Lines(size // 2, size // 2 + 2)

    def guard(text: str) -> None:
        found = resolve(target, "new", tag=tag, current=text, view=view)
        assert isinstance(found, Resolution)
        assert found.start_line == target.start + (text is above)

    def crc() -> None:
        zlib.crc32(seen.encode())

    def diff() -> None:
        before, after = seen.splitlines(keepends=True), above.splitlines(keepends=True)
        difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()

    name = f"{size:,} lines ({kind})"
    steps: tuple[tuple[str, Callable[[], None], str], ...] = (
        ("tag", lambda: _drop(file_tag(seen)), "≤ 3 × `crc32`"),
        ("guard, unchanged", lambda: guard(same), "≤ 3 × `crc32`"),
        ("guard, changed elsewhere", lambda: guard(below), "≤ 3 × `crc32`"),
        ("rebase, lines moved", lambda: guard(above), "≤ 3 × `crc32`, < 1 × `difflib`"),
    )
    found = []
    for what, work, target_text in steps:
        value = f"{_milliseconds(work, rounds)}; {shown(ratio(work, crc, rounds))} `zlib.crc32`"
        if what.startswith("rebase"):
            value += f"; {shown(ratio(work, diff, 3))} `difflib`"
        found.append(Row(f"{what}, {name}", value, target_text))
    return found


def _milliseconds(work: Callable[[], None], rounds: int) -> str:
    took = [seconds(work) * 1000 for _ in range(rounds)]
    low, middle, high = statistics.quantiles(took, n=4)
    return f"{middle:.3g} ms (± {(high - low) / 2:.2g})"


def _drop(_value: object) -> None:
    return
