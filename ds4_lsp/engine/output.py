"""The text of a reply as it grows: whole code points, quiet spans, stop rules, the grammar's trigger. No llama.cpp."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ds4_lsp.engine.partial import PartialMatcher

REACH = 256
"""Longest match of a stop rule, and longest mark, in code points."""


@dataclass(frozen=True)
class Stop:
    """A stop rule, compiled. ``cuts_tokens``: the tokens end before the match too, and the reply counts as ended."""

    name: str | None
    pattern: re.Pattern[str]
    keep: bool
    cuts_tokens: bool = False


@dataclass(frozen=True)
class Match:
    """Positions are code points from the start of the reply."""

    stop: Stop
    start: int
    end: int


class Marks:
    """Texts of which the first to be complete counts, the longest where several end there: the same one is found
    however the text arrives."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._texts = tuple(dict.fromkeys(texts))
        self.longest = max(map(len, self._texts), default=0)

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """Start and end of the first mark at or after ``start``."""
        found = [(at + len(mark), at) for mark in self._texts if (at := text.find(mark, start)) >= 0]
        if not found:
            return None
        end, at = min(found)
        return at, end


class Output:
    """Fed each sampled token's bytes; says when a stop rule matched, and which text may be shown.

    In a quiet span neither stops nor triggers work. Marks, matches and triggers may be split over tokens. Where several
    compete, the one that is complete first wins, and the beginning of a quiet span where two are at once.
    """

    def __init__(
        self,
        stops: Sequence[Stop] = (),
        quiet: tuple[Sequence[str], Sequence[str], bool] | None = None,
        triggers: Sequence[str] = (),
    ) -> None:
        opens, closes, self._quiet = quiet or ((), (), False)
        self._stops = stops
        self._opens, self._closes, self._triggers = Marks(opens), Marks(closes), Marks(triggers)
        self.trigger_at: int | None = None
        """Position of the trigger's first character, once one was seen."""
        self.bound = False
        """The grammar is in force: what looks like the beginning of a quiet span is a value in a call."""
        self._awaited = 0
        """Where a trigger may begin at the earliest."""
        self._partials = [PartialMatcher(stop.pattern.pattern) for stop in stops if not stop.keep]
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._window = ""
        self._base = 0
        self._span = 0
        """Where the current span, quiet or not, began."""
        self._scanned = 0
        self._fed = 0
        self._taken = 0
        self.starts: list[int | None] = []
        """Position at which each token's text begins; None where it begins inside a code point."""

    @property
    def end(self) -> int:
        """Code points so far."""
        return self._base + len(self._window)

    def add(self, piece: bytes) -> Match | None:
        """The next token's bytes; the first stop rule that matched."""
        self.starts.append(None if self._decoder.getstate()[0] else self.end)
        text = self._decoder.decode(piece)
        if not text:
            return None
        self._window += text
        match = self._scan()
        self._scanned = self.end
        self._trim()
        return match

    def mark(self) -> Any:
        """What ``undo`` needs to forget everything added since; nothing may be taken in between."""
        return (
            self._decoder.getstate(),
            self._window,
            self._base,
            self._span,
            self._scanned,
            self._fed,
            self._quiet,
            len(self.starts),
            [partial.state() for partial in self._partials],
        )

    def undo(self, mark: Any) -> None:
        state, self._window, self._base, self._span, self._scanned, self._fed, self._quiet, count, partials = mark
        self._decoder.setstate(state)
        del self.starts[count:]
        self.trigger_at = None
        for partial, kept in zip(self._partials, partials, strict=True):
            partial.set_state(kept)

    def take(self) -> str:
        """Text that can be shown and was not yet: all but what may become a match that is cut off."""
        holds = [position for partial in self._partials if (position := partial.earliest) is not None]
        return self._take_until(max(min(holds, default=self.end), self.end - REACH))

    def finish(self, match: Match | None) -> str:
        """The rest of the text, up to a match that is not kept; bytes of an unfinished code point are dropped."""
        cut = match is not None and not match.stop.keep
        return self._take_until(match.start if match is not None and cut else self.end)

    def slice(self, start: int, end: int) -> str:
        """Recent text between two positions."""
        return self._window[start - self._base : end - self._base]

    def _take_until(self, position: int) -> str:
        text = self._window[self._taken - self._base : max(position, self._taken) - self._base]
        self._taken = max(position, self._taken)
        return text

    def rearm(self) -> None:
        """Await the next trigger, in the text that follows."""
        self.trigger_at = None
        self._awaited = self.end

    def _scan(self) -> Match | None:
        while True:
            if self._quiet:
                closed = self._find(self._closes)
                if closed is None:
                    return None
                self._quiet = False
                self._span = self._fed = closed[1]
                continue
            opened = None if self.bound else self._find(self._opens)
            limit = self.end if opened is None else opened[1] - 1
            match = self._first_match(limit)
            self._feed(limit, match)
            if match is not None:
                return match
            self._look_for_trigger(limit)
            if opened is None:
                return None
            self._quiet = True
            self._span = opened[1]
            for partial in self._partials:
                partial.reset()

    def _find(self, marks: Marks, start: int = 0) -> tuple[int, int] | None:
        """The first of the marks in the current span, of those that the last token completed."""
        start = max(start, self._span, self._scanned - marks.longest + 1)
        found = marks.find(self._window, max(0, start - self._base))
        return None if found is None else (found[0] + self._base, found[1] + self._base)

    def _first_match(self, limit: int) -> Match | None:
        start = max(self._span, self._scanned - REACH) - self._base
        first: Match | None = None
        for stop in self._stops:
            found = stop.pattern.search(self._window, max(0, start), limit - self._base)
            if found and found.end() > found.start() and (first is None or found.start() + self._base < first.start):
                first = Match(stop, found.start() + self._base, found.end() + self._base)
        return first

    def _feed(self, limit: int, match: Match | None) -> None:
        if match is None and limit > self._fed:
            text = self.slice(self._fed, limit)
            for partial in self._partials:
                partial.feed(text, self._fed)
        self._fed = max(self._fed, limit)

    def _look_for_trigger(self, limit: int) -> None:
        if self.trigger_at is None and (found := self._find(self._triggers, self._awaited)) and found[1] <= limit:
            self.trigger_at = found[0]

    def _trim(self) -> None:
        """Forget text that was taken and that no match can reach."""
        keep = min(self._taken, self.end - 2 * REACH)
        if keep - self._base > 4 * REACH:
            self._window = self._window[keep - self._base :]
            self._base = keep
