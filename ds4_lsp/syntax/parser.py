"""The streaming parser: a reply's text in, whatever its pieces, the same events out.

No input raises, and none is lost: what is not syntax comes out in an event. Only a possible beginning of a mark is
held back (under 200 characters); text after a fault inside a block is gathered until the block ends.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from enum import Enum, auto

from ds4_lsp.ports import ToolSpec
from ds4_lsp.syntax import marks
from ds4_lsp.syntax.arguments import Written, resolve
from ds4_lsp.syntax.events import (
    CallsEnd,
    DroppedCall,
    Malformed,
    ParameterDelta,
    ParserEvent,
    Text,
    Thinking,
    ToolCall,
    ToolStart,
)
from ds4_lsp.syntax.marks import Marker

_INK = re.compile("[^ \t\r\n]")

DROPPED = "A tool call inside thinking is not run. Finish thinking first, then write the call in the reply itself."
STRAY = (
    "That is no tool call: nothing was run. A call is one block that begins with "
    f"{marks.TOOL_CALLS_OPEN} and holds invoke and parameter tags with exactly the bars shown in the system prompt."
)


class _State(Enum):
    START = auto()
    """Only white space so far: a ``<think>`` here opens thinking."""
    TEXT = auto()
    THINK = auto()
    BLOCK = auto()
    """In a block of calls, between calls."""
    INVOKE = auto()
    """In a call, between parameters."""
    VALUE = auto()
    FAULT = auto()
    """After a fault in a block, until the block closes."""


class StreamParser:
    """One reply. ``thinking``: the reply begins inside ``<think>``."""

    def __init__(self, specs: Mapping[str, ToolSpec], thinking: bool) -> None:
        self._specs = specs
        self._state = _State.THINK if thinking else _State.START
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._buffer = ""
        self._at = 0
        self._final = False
        self._events: list[ParserEvent] = []
        self._matched = ""
        self._line_is_blank = True
        self._stray_told = False
        self._calls = 0
        self._calls_in_block = 0
        self._name = ""
        self._parameters: list[Written] = []
        self._parameter = ""
        self._is_text = True
        self._value: list[str] = []
        self._fault: tuple[str, int | None] = ("", None)
        self._faulty: list[str] = []
        self._steps: dict[_State, Callable[[], bool]] = {
            _State.START: self._start,
            _State.TEXT: self._text,
            _State.THINK: self._think,
            _State.BLOCK: self._block,
            _State.INVOKE: self._invoke,
            _State.VALUE: self._in_value,
            _State.FAULT: self._in_fault,
        }

    @property
    def held(self) -> str:
        """Input that waits for more: a possible beginning of a mark."""
        return self._buffer

    def feed(self, text: str) -> list[ParserEvent]:
        """The events that ``text`` completes. Raises ``ValueError`` after ``finish``."""
        if self._final:
            raise ValueError("the reply is finished")
        self._buffer += text
        return self._run()

    def feed_bytes(self, data: bytes) -> list[ParserEvent]:
        """As ``feed``, for UTF-8 in any pieces; what is not UTF-8 becomes U+FFFD."""
        return self.feed(self._decoder.decode(data))

    def finish(self) -> list[ParserEvent]:
        """The reply ended here, by itself or by a cancel: what was held back, and what was left open."""
        if self._final:
            return []
        self._buffer += self._decoder.decode(b"", True)
        self._final = True
        events = self._run()
        if self._state is _State.FAULT:
            message, index = self._fault
            return [*events, Malformed(message, "".join(self._faulty), index)]
        if self._state in (_State.BLOCK, _State.INVOKE, _State.VALUE):
            return [*events, Malformed(self._unfinished(), self._buffer, self._open_call())]
        return events

    # --- the machine ----------------------------------------------------------------------------------------------

    def _run(self) -> list[ParserEvent]:
        while self._at < len(self._buffer) and self._steps[self._state]():
            pass
        self._buffer = self._buffer[self._at :]
        self._at = 0
        events, self._events = self._events, []
        return events

    def _until(self, markers: tuple[Marker, ...], emit: Callable[[str], None]) -> Marker | None:
        """Emit text up to the first of ``markers`` and step over that. None: there is none yet. Where two could
        match in one place the earlier in the list wins, so it is waited for."""
        text, start = self._buffer, self._at
        at = text.find("<", start)
        while at >= 0:
            for marker in markers:
                match = marker.at(text, at)
                if match or (not self._final and marker.may_begin(text, at)):
                    if at > start:
                        emit(text[start:at])
                    self._at = match.end() if match else at
                    self._matched = match.group() if match else ""
                    return marker if match else None
            at = text.find("<", at + 1)
        emit(text[start:])
        self._at = len(text)
        return None

    def _tag(self, markers: tuple[Marker, ...]) -> tuple[Marker | None, str, bool]:
        """The tag after white space, stepped over, with the name in it. The last is False where more input decides."""
        text = self._buffer
        ink = _INK.search(text, self._at)
        at = self._at = ink.start() if ink else len(text)
        for marker in markers:
            if match := marker.at(text, at):
                self._at = match.end()
                return marker, match.group(1) if match.re.groups else "", True
        decided = at < len(text) and not any(marker.may_begin(text, at) for marker in markers)
        return None, "", decided

    # --- outside a block ------------------------------------------------------------------------------------------

    def _start(self) -> bool:
        text = self._buffer
        end = len(text) - len(text[self._at :].lstrip())
        if end > self._at:
            self._say(text[self._at : end])
            self._at = end
        if end == len(text):
            return False
        if match := marks.THINK_OPENING.at(text, end):
            self._at = match.end()
            self._state = _State.THINK
            return True
        if not self._final and marks.THINK_OPENING.may_begin(text, end):
            return False
        self._state = _State.TEXT
        return True

    def _text(self) -> bool:
        marker = self._until((*marks.CALLS_OPENINGS, *marks.STRAYS), self._say)
        if marker is None:
            return False
        if marker in marks.CALLS_OPENINGS:
            self._calls_in_block = 0
            self._state = _State.BLOCK
            return True
        # Prose may quote a tag in the middle of a line; at a line's start it is meant.
        if self._line_is_blank and not self._stray_told:
            self._stray_told = True
            self._events.append(Malformed(STRAY, ""))
        self._say(self._matched)
        return True

    def _think(self) -> bool:
        marker = self._until((marks.THINK_CLOSING, *marks.CALLS_OPENINGS), self._muse)
        if marker is None:
            return False
        if marker is marks.THINK_CLOSING:
            self._state = _State.TEXT
        else:
            self._muse(self._matched)
            self._events.append(DroppedCall(DROPPED))
        return True

    def _say(self, text: str) -> None:
        line = text[text.rfind("\n") + 1 :]
        self._line_is_blank = not line.strip() and ("\n" in text or self._line_is_blank)
        self._events.append(Text(text))

    def _muse(self, text: str) -> None:
        self._events.append(Thinking(text))

    # --- inside a block -------------------------------------------------------------------------------------------

    def _block(self) -> bool:
        marker, name, decided = self._tag((marks.INVOKE_OPENING, marks.CALLS_CLOSING))
        if marker is marks.INVOKE_OPENING:
            self._name, self._parameters = name, []
            self._calls_in_block += 1
            self._events.append(ToolStart(self._calls, name))
            self._state = _State.INVOKE
        elif marker is marks.CALLS_CLOSING:
            if not self._calls_in_block:
                self._events.append(Malformed("The block of tool calls held no call: nothing was run.", ""))
            self._events.append(CallsEnd())
            self._state = _State.TEXT
        elif decided:
            self._fail(f'expected <{marks.DSML}invoke name="TOOL"> or {marks.TOOL_CALLS_CLOSE}')
        return marker is not None or decided

    def _invoke(self) -> bool:
        openings = (marks.PARAMETER_TEXT_OPENING, marks.PARAMETER_JSON_OPENING)
        marker, name, decided = self._tag((*openings, marks.INVOKE_CLOSING))
        if marker in openings:
            self._parameter, self._value = name, []
            self._is_text = marker is marks.PARAMETER_TEXT_OPENING
            self._state = _State.VALUE
        elif marker is marks.INVOKE_CLOSING:
            arguments, error = resolve(self._specs, self._name, self._parameters)
            self._events.append(ToolCall(self._calls, self._name, arguments, error))
            self._calls += 1
            self._state = _State.BLOCK
        elif decided:
            self._fail(
                f'in the call of {self._name} expected <{marks.DSML}parameter name="NAME" string="true"> '
                f'(string="false" for JSON) or {marks.INVOKE_CLOSE}'
            )
        return marker is not None or decided

    def _in_value(self) -> bool:
        if self._until((marks.PARAMETER_CLOSING,), self._append) is None:
            return False
        self._parameters.append(Written(self._parameter, "".join(self._value), self._is_text))
        self._state = _State.INVOKE
        return True

    def _append(self, text: str) -> None:
        if text:
            self._value.append(text)
            self._events.append(ParameterDelta(self._calls, self._name, self._parameter, text))

    # --- faults ---------------------------------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        index = self._open_call()
        self._calls += index is not None
        lost = "This call was not run" if index is not None else "Nothing after it in this block was run"
        self._fault = (f"Malformed tool call: {reason}. {lost}; write the call again.", index)
        self._faulty = []
        self._state = _State.FAULT

    def _in_fault(self) -> bool:
        if self._until((marks.CALLS_CLOSING,), self._faulty.append) is None:
            return False
        message, index = self._fault
        self._events += [Malformed(message, "".join(self._faulty), index), CallsEnd()]
        self._state = _State.TEXT
        return True

    def _open_call(self) -> int | None:
        return self._calls if self._state in (_State.INVOKE, _State.VALUE) else None

    def _unfinished(self) -> str:
        wanted = {
            _State.VALUE: f"{self._parameter} of {self._name} was not closed by {marks.PARAMETER_CLOSE}",
            _State.INVOKE: f"the call of {self._name} was not closed by {marks.INVOKE_CLOSE}",
        }.get(self._state, f"the block was not closed by {marks.TOOL_CALLS_CLOSE}")
        return f"Unfinished tool call: {wanted}. It was not run; write the call again."
