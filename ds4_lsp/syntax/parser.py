"""The streaming parser: a reply's text in, whatever its pieces, the same events out.

No input raises, and none is lost: what is not syntax comes out in an event. Only a possible beginning of a mark is
held back; text after a fault inside a block is gathered until the block ends.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping, Sequence

from ds4_lsp.ports import ToolSpec
from ds4_lsp.syntax.block import Syntax
from ds4_lsp.syntax.calls import Calls
from ds4_lsp.syntax.events import CallsEnd, DroppedCall, Malformed, ParserEvent, Text, Thinking
from ds4_lsp.syntax.lines import Lines
from ds4_lsp.syntax.marks import Marker
from ds4_lsp.syntax.shape import flexible
from ds4_lsp.syntax.source import Ended, Fault, Source, Step
from ds4_lsp.syntax.thinking import DEFAULT, Marks

DROPPED = "A tool call inside thinking is not run. Finish thinking first, then write the call in the reply itself."
FENCED = "A tool call among other text in a code fence is not run. Write the call outside of fences."
STRAY = "That is no tool call: nothing was run. A call looks exactly like this:\n{example}"


class StreamParser:
    """One reply. ``syntaxes``: the first is the model's, calls of the others are understood too. ``thinking``: the
    reply begins inside thinking. ``quoted`` says whether a call's text stands in something that came from outside."""

    def __init__(
        self,
        specs: Mapping[str, ToolSpec],
        thinking: bool,
        syntaxes: Sequence[Syntax] = (),
        marks: Marks | None = None,
        quoted: Callable[[str], bool] = lambda text: False,
    ) -> None:
        if not syntaxes:
            from ds4_lsp.syntax.registry import default

            syntaxes = default()
        self._syntaxes = syntaxes
        self._marks = marks or DEFAULT
        self._source = Source()
        self._calls = Calls(specs, quoted)
        self._lines = Lines()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._done = False
        self._ended_by_itself = True
        self._stray_told = False
        self._openings: dict[Marker, Syntax] = {}
        for syntax in syntaxes:
            for opening in syntax.openings:
                self._openings.setdefault(opening, syntax)
        # Without a mark it is no call that a model would be told of.
        self._thinking_openings = tuple(o for o, syntax in self._openings.items() if syntax.entries)
        self._strays = tuple(stray for syntax in syntaxes for stray in syntax.strays)
        hidden = [*self._marks.hidden, *syntaxes[0].hidden]
        # The longest first: one may begin with another.
        self._hidden = tuple(filter(None, map(flexible, sorted(dict.fromkeys(hidden), key=len, reverse=True))))
        self._reading = self._reply(thinking)

    @property
    def held(self) -> str:
        """Input that waits for more: a possible beginning of a mark."""
        return self._source.rest

    def feed(self, text: str) -> list[ParserEvent]:
        """The events that ``text`` completes. Raises ``ValueError`` after ``finish``."""
        if self._source.final:
            raise ValueError("the reply is finished")
        self._source.text += text
        return self._run()

    def feed_bytes(self, data: bytes) -> list[ParserEvent]:
        """As ``feed``, for UTF-8 in any pieces; what is not UTF-8 becomes U+FFFD."""
        return self.feed(self._decoder.decode(data))

    def finish(self, *, broken_off: bool = False) -> list[ParserEvent]:
        """The reply ended here: what was held back, and what was left open. ``broken_off``: not by itself: then marks
        that are missing at its end are no slip."""
        if self._source.final:
            return []
        self._source.text += self._decoder.decode(b"", True)
        self._source.final = True
        self._source.complete = not broken_off
        return self._run()

    def _run(self) -> list[ParserEvent]:
        if not self._done:
            self._done = next(self._reading, self) is self
        self._source.drop()
        events, self._calls.events = self._calls.events, []
        return events

    # --- outside of calls -----------------------------------------------------------------------------------------

    def _reply(self, thinking: bool) -> Step[None]:
        if thinking:
            yield from self._think(None)
        elif (opening := (yield from self._begins_thinking())) is not None:
            yield from self._think(opening)
        watched = (*self._openings, *self._hidden, *self._marks.opens, *self._strays)
        while (found := (yield from self._source.until(watched, self._say))) is not None:
            marker, match = found
            if (syntax := self._openings.get(marker)) is not None:
                yield from self._block(syntax, match)
            elif marker in self._hidden:
                continue
            elif marker not in self._marks.opens:
                self._stray(match.group())
            elif not self._lines.quotes and (self._lines.blank or self._marks.anywhere(marker)):
                yield from self._think(marker)
            else:
                self._say(match.group())

    def _begins_thinking(self) -> Step[Marker | None]:
        """The thinking mark, where one is the first that is not white space; white space before it is said."""
        source = self._source
        while not source.rest.strip():
            if source.rest:
                self._say(source.advance(len(source.text)))
            if source.final:
                return None
            yield
        if head := len(source.rest) - len(source.rest.lstrip()):
            self._say(source.advance(source.at + head))
        try:
            while (found := (yield from source.tag((*self._hidden, *self._marks.opens)))) is not None:
                if found[0] not in self._hidden:
                    return found[0]
        except Ended:
            pass
        return None

    def _think(self, opening: Marker | None) -> Step[None]:
        closes = self._marks.closes(opening)
        watched = (*closes, *self._thinking_openings)
        while (found := (yield from self._source.until(watched, self._muse))) is not None:
            marker, match = found
            if marker in closes:
                return
            self._muse(match.group())
            self._calls.events.append(DroppedCall(DROPPED))

    def _stray(self, text: str) -> None:
        # Prose may quote a mark in the middle of a line; at a line's start it is meant.
        if self._lines.blank and not self._lines.quotes:
            self._tell_stray()
        self._say(text)

    def _tell_stray(self) -> None:
        if not self._stray_told:
            self._stray_told = True
            self._calls.events.append(Malformed(STRAY.format(example=self._syntaxes[0].example), ""))

    def _say(self, text: str) -> None:
        self._lines.say(text)
        self._calls.events.append(Text(text))

    def _muse(self, text: str) -> None:
        self._calls.events.append(Thinking(text))

    # --- calls ----------------------------------------------------------------------------------------------------

    def _block(self, syntax: Syntax, opening: re.Match[str]) -> Step[None]:
        calls, source, lines = self._calls, self._source, self._lines
        if not syntax.opens_here(lines):
            self._say(opening.group())
            return
        if syntax.refuses(lines):
            calls.events.append(Malformed(FENCED, ""))
            self._say(opening.group())
            return
        calls.id_in = syntax.id_in
        try:
            self._say_some((yield from syntax.read(source, calls, opening)))
        except Fault as fault:
            yield from self._fault(syntax, str(fault))
        except Ended:
            index, unsaid = calls.open, "" if calls.name else source.recorded
            message = f"Unfinished tool call: {syntax.unfinished(calls)}. It was not run; write the call again."
            calls.events.append(Malformed(message, unsaid + source.advance(len(source.text)), index))
            calls.abandon()

    def _say_some(self, text: str) -> None:
        if text:
            self._say(text)

    def _fault(self, syntax: Syntax, reason: str) -> Step[None]:
        """Tell what is wrong, with the text up to the end of the block."""
        calls, source = self._calls, self._source
        index = calls.open
        lost = "This call was not run" if index is not None else "Nothing after it in this block was run"
        message = f"Malformed tool call: {reason}. {lost}; write the call again."
        if not syntax.strict:
            message += f" It looks like this:\n{syntax.example}"
        gathered = ["" if index is not None else source.recorded.lstrip()]
        calls.abandon()
        ended = None
        if syntax.recovery:
            yield from source.ink()
            ended = yield from source.until(syntax.recovery, gathered.append)
        calls.events.append(Malformed(message, "".join(gathered), index))
        if ended is not None:
            calls.events.append(CallsEnd())
