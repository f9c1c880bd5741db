"""Ages and sizes as ``ds4-lsp sessions prune`` is given them."""

from __future__ import annotations

import argparse
import re

_SECONDS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_NUMBER = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*"
_AGE = re.compile(_NUMBER + r"([hdw]?)\s*", re.IGNORECASE | re.ASCII)
_SIZE = re.compile(_NUMBER + r"(?:([kmgt])(?:i?b)?)?\s*", re.IGNORECASE | re.ASCII)


def age(text: str) -> float:
    """Seconds: ``7d``, ``12h``, ``8w``; a bare number counts days. Raises ``ArgumentTypeError``."""
    return _measured(_AGE, text, _SECONDS, "d", "an age: a number of days, or with a unit: 12h, 7d, 8w")


def size(text: str) -> float:
    """Bytes: ``500MB``, ``1GB``, where a KB has 1024; a bare number counts MB. Raises ``ArgumentTypeError``."""
    return _measured(_SIZE, text, _BYTES, "M", "a size: a number of MB, or with a unit: 900KB, 500MB, 1GB")


def _measured(
    pattern: re.Pattern[str], text: str, units: dict[str, float] | dict[str, int], usual: str, what: str
) -> float:
    found = pattern.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    unit = found.group(2) or usual
    amount = float(found.group(1)) * (units.get(unit.lower()) or units[unit.upper()])
    if not 0 < amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} must be more than 0 and finite; it is {what}")
    return amount
