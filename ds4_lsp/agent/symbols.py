"""What a file declares, line by line: for a file that is too large to be shown. Pure, and linear in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

MOST = 120
"""Declarations listed."""
WIDEST = 120
"""Code points of one."""

_WORDS = (
    r"(?:async\s+)?def|class|(?:export\s+)?(?:default\s+)?(?:async\s+)?function\*?|(?:pub(?:\([a-z]+\))?\s+)?(?:fn|struct|enum|"
    r"trait|impl|mod)|func|interface|type|namespace|module|protocol|record|sub|(?:static\s+|public\s+|private\s+|protected\s+|"
    r"abstract\s+|final\s+)+(?:class|interface|enum|[\w<>\[\],]+\s+\w+\s*\()|(?:typedef\s+)?(?:struct|enum|union)\s+\w+"
)
_DECLARES = re.compile(
    rf"[ \t]{{0,12}}(?:{_WORDS})\b.*"
    r"|(?:export\s+)?(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:function\b|\(|\w+\s*=>).*"
    r"|[A-Za-z_][\w \t*&:<>,]{0,80}\([^;{}=]{0,200}\)\s*\{?"
    r"|\[[^\]\n]{1,80}\][ \t]*"
    r"|#{1,6} .*"
    r"|[A-Z][A-Z0-9_]{2,40}\s*=.*"
)


def symbols(rows: Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Lines that declare something, with their numbers, as ``read`` shows lines, and which these are; empty where
    nothing is recognised."""
    found: list[str] = []
    numbers: list[int] = []
    for number, row in enumerate(rows, 1):
        line = row.rstrip()
        if not line or len(line) > 2000 or not _DECLARES.fullmatch(line):
            continue
        if len(found) == MOST:
            found.append("… [more below]")
            break
        short = len(line) <= WIDEST
        found.append(f"{number} {line if short else line[:WIDEST] + '…'}")
        if short and line == row:
            numbers.append(number)
    return "\n".join(found), tuple(numbers)
