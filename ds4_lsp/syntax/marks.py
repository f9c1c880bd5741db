"""Marks in a stream: what opens, what closes, and what may still become either."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

SPACE = "[ \t\r\n]{0,8}"
"""White space that a model may write inside a mark, or leave out."""
NAME = r"([\w.\-]{1,64})"
"""A tool's or a parameter's name."""


@dataclass(frozen=True)
class Marker:
    """A mark: ``full`` matches it whole, ``partial`` any text that could still become it."""

    full: re.Pattern[str]
    partial: re.Pattern[str]
    first: str
    """Its first character, as a part of a character class."""

    def at(self, text: str, position: int) -> re.Match[str] | None:
        return self.full.match(text, position)

    def may_begin(self, text: str, position: int) -> bool:
        """Whether the rest of ``text`` is a beginning of this mark: more input must decide."""
        return self.partial.fullmatch(text, position) is not None


def marker(*parts: str | tuple[str]) -> Marker:
    """``parts`` in order: a text stands for itself, a 1-tuple holds a pattern that takes characters one by one."""
    pieces: list[str] = []
    for part in parts:
        pieces += [part[0]] if isinstance(part, tuple) else [re.escape(character) for character in part]
    partial = ""
    for piece in reversed(pieces):
        partial = f"(?:{piece}{partial})?"
    head = parts[0]
    # A pattern at the head is not known by a character: it may begin anywhere.
    first = r"\s\S" if isinstance(head, tuple) else re.escape(head[0])
    return Marker(re.compile("".join(pieces)), re.compile(partial), first)


@lru_cache(maxsize=256)
def beginnings(markers: tuple[Marker, ...]) -> re.Pattern[str]:
    """Finds where one of ``markers`` may begin."""
    return re.compile("[" + "".join(sorted({marker.first for marker in markers})) + "]")
