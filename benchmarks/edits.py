"""Tag, guard and rebase, by lines of the file, against a bare CRC-32 and against ``difflib``."""

from __future__ import annotations

import difflib
import zlib

from benchmarks.measure import Row, ratio, seconds, shown
from ds4_lsp.edits.guard import Lines, Resolution, resolve
from ds4_lsp.edits.text import file_tag
from ds4_lsp.edits.views import View


def rows(rounds: int, sizes: tuple[int, ...]) -> list[Row]:
    return [row for size in sizes for row in _size(size, rounds)]


def _size(size: int, rounds: int) -> list[Row]:
    seen = "".join(f"line {number} of the file, as long as lines of code are\n" for number in range(size))
    current = "typed by the user\n" + seen
    view, tag = View(seen, ((1, size),), ((1, size),)), file_tag(seen)
    target = Lines(size // 2, size // 2 + 2)

    def guard(text: str) -> None:
        assert isinstance(resolve(target, "new", tag=tag, current=text, view=view), Resolution)

    def diff() -> None:
        before, after = seen.splitlines(keepends=True), current.splitlines(keepends=True)
        difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()

    name = f"{size:,} lines"
    crc = ratio(lambda: file_tag(seen), lambda: zlib.crc32(seen.encode()), rounds)
    same = ratio(lambda: guard(seen), lambda: zlib.crc32(seen.encode()), rounds)
    rebased = ratio(lambda: guard(current), diff, max(3, rounds // 2))
    cost = [min(seconds(lambda text=text: guard(text)) for _ in range(3)) * 1000 for text in (seen, current)]
    return [
        Row(f"tag, {name}", f"{shown(crc)} `zlib.crc32`", "≤ 3"),
        Row(f"guard of unchanged text, {name}", f"{shown(same)} `zlib.crc32`; {cost[0]:.1f} ms"),
        Row(f"guard with rebase, {name}", f"{shown(rebased)} `difflib`; {cost[1]:.1f} ms", "< 1"),
    ]
