"""Where a block of whole lines stands in a text, without splitting the text into lines."""

from __future__ import annotations

from ds4_lsp.edits.common import common_prefix, common_suffix
from ds4_lsp.edits.text import LineIndex, count_ends

_MOST = 2
"""Two are as bad as many: the block's place is not certain."""


def block_starts(text: str, block: str, low: int = 0, high: int | None = None) -> list[int]:
    """Offsets at which the lines of ``block`` stand in ``text`` as whole lines, byte for byte; at most two.

    Only within ``low`` to ``high`` (exclusive). An empty block stands nowhere. A block whose last line has no ending
    stands at the text's end only.
    """
    high = len(text) if high is None else high
    if not block:
        return []
    if block[-1] not in "\r\n":
        at = len(text) - len(block)
        is_there = low <= at and high == len(text) and text.endswith(block) and _is_line_start(text, at)
        return [at] if is_there else []
    # Where lines end at LFs only, the one before is looked for too, so that a find does not stop within lines. Where
    # there are CRs it would take two searches, of which the one for a lone CR is mostly in vain.
    lead = "\n" if text.find("\r", max(low - 1, 0), high) < 0 else ""
    needle = lead + block
    found = [0] if lead and low == 0 and text.startswith(block, 0, high) else []
    at = text.find(needle, max(low - len(lead), 0), high)
    while at >= 0 and len(found) < _MOST:
        start = at + len(lead)
        if _is_line_start(text, start) and _is_there(text, block, start):
            found.append(start)
        at = text.find(needle, at + 1, high)
    return found


def places_after(seen: LineIndex, current: str, low: int, high: int) -> list[tuple[int, int]]:
    """Where the lines ``low`` to ``high`` of ``seen``, which stand there once, stand in ``current``: offset and line.

    What is the same at both ends of the two texts holds those lines as often as ``seen`` does there, so that only what
    has changed between is searched and counted.
    """
    text, start, end = seen.text, seen.start(low), seen.end(high)
    head = common_prefix(text, current)
    tail = common_suffix(text, current, min(len(text), len(current)) - head)
    old_end, new_end = len(text) - tail, len(current) - tail
    # One code point more on each side decides whether lines begin and end there.
    if end < head:
        kept = [(start, low)]
    elif start > old_end:
        first = max(head - 1, 0)
        lines = count_ends(current, first, new_end + 1) - count_ends(text, first, old_end + 1)
        kept = [(start + new_end - old_end, low + lines)]
    else:
        kept = []
    size = end - start
    found = block_starts(current, text[start:end], max(0, head - size), min(len(current), new_end + size))
    return kept + [(at, LineIndex(current).line_at(at)) for at in found]


def _is_there(text: str, block: str, at: int) -> bool:
    # A CR with an LF behind it is half of a line's end.
    return text.startswith(block, at) and not (block[-1] == "\r" and text.startswith("\n", at + len(block)))


def _is_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n" or (text[at - 1] == "\r" and not text.startswith("\n", at))
