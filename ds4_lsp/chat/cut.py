"""Cutting rendered texts at control tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

MARK = re.compile(r"<[^<>\s]{1,48}>|\[/?[A-Z][A-Z_]{2,24}\]|◁[^◁▷\s]{1,24}▷|〈[^〈〉\s]{1,24}〉|\]~!b\[|\]~b\]|\[e~\[")
"""Control tokens as templates write them."""


def marks(text: str) -> list[str]:
    """The control tokens in ``text``, each once, in order."""
    return list(dict.fromkeys(match.group() for match in MARK.finditer(text)))


def common_start(*texts: str) -> str:
    """The longest common beginning that cuts no mark."""
    first, length = texts[0], min(map(len, texts))
    while not all(text.startswith(first[:length]) for text in texts):
        length -= 1
    return first[: _outside(texts, length)]


def common_end(one: str, other: str) -> str:
    """The longest common end that cuts no mark."""
    length = min(len(one), len(other))
    while length and one[-length:] != other[-length:]:
        length -= 1
    while length and any(
        match.start() < len(text) - length < match.end() for text in (one, other) for match in MARK.finditer(text)
    ):
        length -= 1
    return one[len(one) - length :]


def gaps(text: str, sentinels: Sequence[str]) -> list[str] | None:
    """What stands before, between and after the sentinels; None unless each occurs once, in order."""
    found: list[str] = []
    for sentinel in sentinels:
        if text.count(sentinel) != 1:
            return None
        gap, _, text = text.partition(sentinel)
        found.append(gap)
    return [*found, text]


def after(text: str, sentinel: str) -> str | None:
    """What follows ``sentinel``; None unless it occurs once."""
    return text.partition(sentinel)[2] if text.count(sentinel) == 1 else None


def end_of_reply(closing: str, eos: str, next_frame: str = "") -> tuple[str, str]:
    """What closes a reply, cut behind the token that ends it. Where neither that nor ``next_frame`` has a mark, EOS
    ends it."""
    if eos and eos in closing:
        cut = closing.index(eos) + len(eos)
        return closing[:cut], closing[cut:]
    # A reply's own parts may be closed before it is: the last mark ends it.
    if found := list(MARK.finditer(closing)):
        return closing[: found[-1].end()], closing[found[-1].end() :]
    return ("" if MARK.search(next_frame) or closing.strip("\n") != closing else eos), closing


def _outside(texts: Sequence[str], length: int) -> int:
    for text in texts:
        for match in MARK.finditer(text):
            if match.start() < length < match.end():
                length = match.start()
    return length
