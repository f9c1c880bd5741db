"""Cutting text where a reader sees a border: never inside a grapheme cluster or a surrogate pair.

The rules are those of Unicode's UAX 29 (extended grapheme clusters), made coarser where the standard library lacks
the property: a border may be refused that would be allowed, never the other way round.
"""

from __future__ import annotations

import unicodedata

_ZWJ = "\u200d"
_VIRAMA = 9
_PREPEND = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"
    "\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f\U00011941\U00011a3a\U00011d46\U00011f02"
)


def joined(before: str, after: str) -> bool:
    """Whether two neighbouring code points belong together."""
    if before < "\u0300" and after < "\u0300":
        return before == "\r" and after == "\n"
    return (
        _extends(after)
        or before == _ZWJ
        or before in _PREPEND
        or unicodedata.combining(before) == _VIRAMA
        or (_regional(before) and _regional(after))
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
        or _hangul_joined(before, after)
    )


def _extends(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Mn", "Mc", "Me")
        or char in ("\u200c", _ZWJ, "\uff9e", "\uff9f")
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        # Thai and Lao vowels that UAX 29 counts as spacing marks.
        or char in ("\u0e33", "\u0eb3")
    )


def _regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _hangul_joined(before: str, after: str) -> bool:
    vowel_or_final = "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb"
    if vowel_or_final:
        return "\u1100" <= before <= "\u11ff" or "\ua960" <= before <= "\ua97c" or "\uac00" <= before <= "\ud7fb"
    leading = "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    return leading and ("\u1100" <= after <= "\u115f" or "\ua960" <= after <= "\ua97c" or "\uac00" <= after <= "\ud7a3")


def border(text: str, index: int) -> bool:
    """Whether ``text`` can be cut before code point ``index``."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if _regional(before) and _regional(after):
        # Flags are pairs: only the run before the cut tells which of its letters belong together.
        start = index
        while start > 0 and _regional(text[start - 1]):
            start -= 1
        return (index - start) % 2 == 0
    return not joined(before, after)


def head(text: str, length: int) -> str:
    """The longest beginning of at most ``length`` code points that ends at a border."""
    index = min(max(length, 0), len(text))
    while not border(text, index):
        index -= 1
    return text[:index]


def tail(text: str, length: int) -> str:
    """The longest end of at most ``length`` code points that begins at a border."""
    index = len(text) - min(max(length, 0), len(text))
    while not border(text, index):
        index += 1
    return text[index:]


def one_line(text: str, length: int) -> str:
    """``text`` on one line, line ends shown as ``\\n``, cut to ``length`` code points with an ellipsis."""
    flat = "".join(_shown(char) for char in text[: 2 * length + 2])
    return flat if len(flat) <= length else head(flat, length - 1) + "…"


def _shown(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) == "Cf":
        return char
    return {"\n": "\\n", "\r": "\\r", "\t": " "}.get(char, " " if char.isspace() else "\ufffd")
