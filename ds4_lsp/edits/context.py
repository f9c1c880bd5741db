"""What the author of an edit is told: the text around it, or why it was refused and what to do."""

from __future__ import annotations

from ds4_lsp.edits.guard import Refusal
from ds4_lsp.edits.views import Ranges, merge

BEFORE = 5
AFTER = 8
HEAD = 18
TAIL = 18
"""Lines shown before and after an edit, and of a long one its first and last."""


def around(start: int, end: int, total: int) -> Ranges:
    """The lines to show after an edit that now is lines ``start`` to ``end`` (``start - 1`` for none) of ``total``."""
    parts = [(max(1, start - BEFORE), start - 1), (end + 1, min(total, end + AFTER))]
    if end - start + 1 > HEAD + TAIL:
        parts += [(start, start + HEAD - 1), (end - TAIL + 1, end)]
    else:
        parts.append((start, end))
    return merge(parts)


def refusal(path: str, why: Refusal, expected: str, current: str) -> str:
    """The whole refusal: nothing changed, expected and current tag, and the recovery that works."""
    if why.code == "invalid":
        return f"{path} was not changed: {why.message}."
    if not expected:
        tags = f"Its file_tag is {current}."
    elif expected == current:
        tags = f"Its file_tag is {current}, as you named."
    else:
        tags = f"Expected file_tag={expected}, current file_tag={current}."
    return f"{path} was not changed: {why.message}. {tags} {_recovery(path, why, expected == current)}"


def _recovery(path: str, why: Refusal, current: bool) -> str:
    if why.code == "ambiguous" and current:
        return "Give more of the text around it as `old`, or name line numbers."
    if why.read is None:
        return f'Read it again (read path="{path}" whole=true), then edit with the file_tag and the text shown there.'
    start, end = why.read
    # A few lines more, so that the place is found although lines have moved a little.
    first = max(1, start - BEFORE)
    count = end + AFTER - first + 1
    return (
        f'Read those lines again (read path="{path}" start_line={first} max_lines={count}), '
        "then edit with the file_tag and the line numbers shown there."
    )
