"""The same lines at another indentation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd


def reindent(named: Sequence[str], there: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """``new`` shifted as ``named`` must be to stand where ``there`` stands: the same lines but for indentation.

    None where no one shift turns the one into the other, or ``new`` goes out of the shift's range.
    """
    pairs = [(_indent(a), _indent(b)) for a, b in zip(named, there, strict=True) if a.strip()]
    if not pairs:
        return None
    known = dict(pairs)
    if any(known[a] != b for a, b in pairs):
        return None
    rows: list[str] = []
    for row in new:
        if not row.strip():
            rows.append(row)
            continue
        indent = _indent(row)
        shifted = _shift(indent, known)
        if shifted is None:
            return None
        rows.append(shifted + row[len(indent) :])
    return rows


def _shift(indent: str, known: Mapping[str, str]) -> str | None:
    if indent in known:
        return known[indent]
    lost = {b.removesuffix(a) if b.endswith(a) else None for a, b in known.items()}
    if len(lost) == 1 and (lead := lost.pop()) is not None:
        # All the named lines lack the same: so do the new ones.
        return lead + indent
    extra = {a.removesuffix(b) if a.endswith(b) else None for a, b in known.items()}
    if len(extra) == 1 and (lead := extra.pop()) is not None:
        # All the named lines have too much of it.
        return indent.removeprefix(lead) if indent.startswith(lead) else None
    # Spaces for tabs, or another width: from the deepest line that is known, step by step.
    base = max((a for a in known if indent.startswith(a)), key=len, default=None)
    step, unit = _step(known)
    if base is None or not step:
        return None
    deeper = indent[len(base) :]
    if len(deeper) % step or deeper.strip(indent[:1]):
        return None
    return known[base] + unit * (len(deeper) // step)


def _step(known: Mapping[str, str]) -> tuple[int, str]:
    """How many characters of the named indentation are one step, and what a step is in the file."""
    step = gcd(*(len(a) for a in known))
    deepest = max(known, key=len)
    levels = len(deepest) // step if step else 0
    there = known[deepest]
    if not levels or len(there) % levels:
        return 0, ""
    return step, there[: len(there) // levels]


def _indent(row: str) -> str:
    return row[: len(row) - len(row.lstrip())]
