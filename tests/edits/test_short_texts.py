"""Every short text: where half a CRLF stands next to what is asked for, random ones seldom do."""

from __future__ import annotations

from itertools import product

from plain_guard import PlainIndex

from ds4_lsp.edits.blocks import block_starts
from ds4_lsp.edits.text import LineIndex, lines

TEXTS = ["".join(marks) for size in range(1, 6) for marks in product("a\r\n", repeat=size)]


def test_the_line_of_every_offset_is_that_of_the_list_of_lines():
    for text in TEXTS:
        plain = PlainIndex(text)
        for offset in range(len(text) + 1):
            assert LineIndex(text).line_at(offset) == plain.line_at(offset), (text, offset)


def test_a_block_is_found_in_every_window_that_holds_it_and_in_no_other():
    for text in TEXTS:
        rows = lines(text)
        starts = [sum(map(len, rows[:row])) for row in range(len(rows) + 1)]
        spans = [(start, end) for row, start in enumerate(starts) for end in starts[row + 1 :]]
        for block in {text[start:end] for start, end in spans}:
            for low, high in product(range(len(text)), range(len(text) + 1)):
                if block[-1] not in "\r\n" and high < len(text):
                    continue
                there = [start for start, end in spans if low <= start and end <= high and text[start:end] == block]
                found = block_starts(text, block, low, high)
                assert len(found) == min(len(there), 2), (text, block, low, high)
                assert set(found) <= set(there), (text, block, low, high)
