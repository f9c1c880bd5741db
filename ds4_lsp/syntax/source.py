"""The text of a reply as it comes, and how to read on in it: what parsers share.

Parsers are generators: they yield where only more text can decide, and are resumed when there is some. So a parser
reads from top to bottom, and cannot see how the text was cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from ds4_lsp.syntax.marks import Marker, beginnings

T = TypeVar("T")
Step: TypeAlias = Generator[None, None, T]
"""A parser that is done with a ``T``; each yield waits for more text."""

_INK = re.compile("[^ \t\r\n]")


class Ended(Exception):
    """The reply ended where something had to follow."""


class Fault(Exception):
    """What stands here is no call. The argument: what was expected, in words for the model."""


class Source:
    """Text that was fed and not yet used. ``final``: there will be no more."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.final = False
        self.complete = True
        """Where ``final``: the reply ended by itself."""
        self._tape: list[str] | None = None

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def drop(self) -> None:
        """Forget what was used."""
        self.text = self.text[self.at :]
        self.at = 0

    def advance(self, to: int) -> str:
        """Use the text up to ``to``."""
        used = self.text[self.at : to]
        self.at = to
        if self._tape is not None:
            self._tape.append(used)
        return used

    def rewind(self, count: int) -> None:
        """Take back that many characters that were just used."""
        self.at -= count

    def record(self) -> None:
        """Keep what is used from here on, for ``recorded``."""
        self._tape = []

    @property
    def recorded(self) -> str:
        return "".join(self._tape or ())

    def until(
        self, markers: tuple[Marker, ...], emit: Callable[[str], None]
    ) -> Step[tuple[Marker, re.Match[str]] | None]:
        """Emit text up to the first of ``markers`` and step over that; None at the reply's end. Where two could match
        in one place the earlier in the list wins, so it is waited for."""
        begin = beginnings(markers)
        while True:
            text, start = self.text, self.at
            found, waits = _first(markers, begin, text, start, self.final)
            if found is not None:
                self._emit(found[1].start(), emit)
                self.advance(found[1].end())
                return found
            self._emit(waits, emit)
            if self.final:
                return None
            yield

    def _emit(self, to: int, emit: Callable[[str], None]) -> None:
        if to > self.at:
            emit(self.advance(to))

    def tag(self, markers: tuple[Marker, ...]) -> Step[tuple[Marker, re.Match[str]] | None]:
        """The mark after white space, stepped over; None, and nothing used, where something else stands there. Raises
        ``Ended`` where the reply ends before it is decided."""
        while True:
            ink = _INK.search(self.text, self.at)
            at = ink.start() if ink else len(self.text)
            for marker in markers:
                if match := marker.at(self.text, at):
                    self.advance(match.end())
                    return marker, match
                if marker.may_begin(self.text, at):
                    break
            else:
                return None
            if self.final:
                raise Ended
            yield

    def ink(self) -> Step[str]:
        """Step over white space; the character after it, or nothing at the reply's end."""
        while True:
            match = _INK.search(self.text, self.at)
            self.advance(match.start() if match else len(self.text))
            if match or self.final:
                return match.group() if match else ""
            yield

    def word(self, pattern: re.Pattern[str]) -> Step[str]:
        """The longest text here that ``pattern`` matches; nothing used where it does not."""
        while True:
            match = pattern.match(self.text, self.at)
            if self.final or (self.at < len(self.text) and (match is None or match.end() < len(self.text))):
                return self.advance(match.end()) if match else ""
            yield

    def more(self) -> Step[None]:
        """Wait for text. Raises ``Ended`` where none comes."""
        size = len(self.text) - self.at
        while len(self.text) - self.at == size:
            if self.final:
                raise Ended
            yield


def _first(
    markers: tuple[Marker, ...], begin: re.Pattern[str], text: str, start: int, final: bool
) -> tuple[tuple[Marker, re.Match[str]] | None, int]:
    """The first mark, or up to where there is surely none."""
    here = begin.search(text, start)
    while here is not None:
        at = here.start()
        for marker in markers:
            if match := marker.at(text, at):
                return (marker, match), at
            if not final and marker.may_begin(text, at):
                return None, at
        here = begin.search(text, at + 1)
    return None, len(text)
