"""Texts that could be written and not be read again as what they were: refused before anything is changed. Pure."""

from __future__ import annotations

import re

from ds4_lsp.edits.disk import SIZE_LIMIT
from ds4_lsp.edits.text import MARK

_SURROGATE = re.compile("[\ud800-\udfff]")


def unfit(before: str, new: str, after: str) -> str | None:
    """Why ``new`` must not turn a file's text from ``before`` to ``after``; None where it may.

    What the file held already is not held against the edit.
    """
    if "\0" in new:
        return "the new text contains NUL, which makes a file binary: it could not be read or edited any more"
    if _SURROGATE.search(new):
        return "the new text holds a lone surrogate, which no file can"
    if after.startswith(MARK) and not before.startswith(MARK):
        return (
            "its text would begin with U+FEFF, which is a byte order mark there and no text. Leave it out: a mark that "
            "the file has is kept"
        )
    size = len(after.encode("utf-8", "surrogatepass"))
    if size >= SIZE_LIMIT and len(after) > len(before):
        return f"it would become too large ({size:,} bytes; the limit is {SIZE_LIMIT:,})"
    return None
