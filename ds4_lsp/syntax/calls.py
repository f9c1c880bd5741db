"""The calls of one reply, numbered, as events. Syntaxes say what they read; what is wrong with it is found here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ds4_lsp.ports import ToolSpec
from ds4_lsp.syntax.arguments import Written, check, plain_name, resolve
from ds4_lsp.syntax.events import ParameterDelta, ParserEvent, ToolCall, ToolStart

QUOTED = (
    "this call stands word for word in what was read before: a quotation is not run. "
    "If it is needed, make it in your own words"
)


class Calls:
    """``quoted`` says whether a call's text stands in something that came from outside."""

    def __init__(self, specs: Mapping[str, ToolSpec], quoted: Callable[[str], bool]) -> None:
        self.specs = specs
        self.events: list[ParserEvent] = []
        self.count = 0
        self.name: str | None = None
        """The tool of the call that is being read."""
        self.written: list[Written] = []
        """Its parameters so far, of syntaxes that write them one by one."""
        self.unclosed = ""
        """The parameter whose value the reply's end cut off."""
        self.id_in: Callable[[str], str] = lambda raw: ""
        self._quoted = quoted

    @property
    def open(self) -> int | None:
        """The number of the call that is being read."""
        return None if self.name is None else self.count

    def start(self, name: str) -> None:
        self.name, self.written = plain_name(name), []
        self.events.append(ToolStart(self.count, self.name))

    def delta(self, parameter: str, text: str) -> None:
        if text and self.name is not None:
            self.events.append(ParameterDelta(self.count, self.name, parameter, text))

    def finish_written(self, raw: str) -> None:
        """The call is whole. ``raw``: how it was written, marks included."""
        arguments, error = resolve(self.specs, self.name or "", self.written)
        self._end(arguments, error, raw)

    def finish(self, arguments: Mapping[str, Any], faults: Sequence[str], raw: str) -> None:
        """The same for arguments that came as values."""
        self._end(dict(arguments), check(self.specs, self.name or "", arguments, faults), raw)

    def _end(self, arguments: dict[str, Any], error: str | None, raw: str) -> None:
        if error is None and self._quoted(raw):
            error = QUOTED
        self.events.append(ToolCall(self.count, self.name or "", arguments, error, self.id_in(raw)))
        self.abandon()

    def abandon(self) -> None:
        """The call that is being read comes to nothing more."""
        self.count += self.name is not None
        self.name = None
