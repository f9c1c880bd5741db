"""One generation as it arrives: tokens to the log's shape, text through the model's syntax to events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ds4_lsp.agent.repetition import Repetition
from ds4_lsp.agent.speech import Speech
from ds4_lsp.ports import ToolSpec
from ds4_lsp.syntax import events as syntax
from ds4_lsp.syntax.parser import StreamParser

Emit = Callable[..., None]


@dataclass
class ReplyCall:
    call_id: str
    name: str
    arguments: dict[str, Any]
    error: str | None
    written_id: str = ""
    """The id that the model gave it, where its syntax has such."""

    def wire(self) -> dict[str, Any]:
        shape: dict[str, Any] = {"callId": self.call_id, "name": self.name, "arguments": self.arguments}
        shape |= {"id": self.written_id} if self.written_id else {}
        return shape if self.error is None else shape | {"error": self.error}


@dataclass
class Reply:
    """Collects one reply. ``emit(kind, **fields)`` tells the user; ``next_call_id`` numbers the calls."""

    specs: Sequence[ToolSpec]
    thinking: bool
    emit: Emit
    next_call_id: Callable[[], str]
    speech: Speech
    quoted: Callable[[str], bool]
    """Whether a call's text stands in something that came from outside."""
    tokens: list[int] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    calls: list[ReplyCall] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What the model is told of syntax that was not run."""
    told: dict[str, str] = field(default_factory=dict)
    """Calls, with their tools, that the user was told of and that have no result yet."""
    repeats: bool = False
    """Whether it says the same over and over: it is to be cut."""
    _ids: dict[int, str] = field(default_factory=dict)
    _repetition: Repetition = field(default_factory=Repetition)

    def __post_init__(self) -> None:
        specs = {spec.name: spec for spec in self.specs}
        spoken = self.speech
        self._parser = StreamParser(specs, self.thinking, spoken.understood, spoken.marks, self.quoted)

    def feed(self, ids: Sequence[int], text: str) -> None:
        self.tokens += ids
        if text:
            self.raw.append(text)
            self.repeats = self.repeats or self._repetition.feed(text)
            for event in self._parser.feed(text):
                self._take(event)

    def finish(self, *, broken_off: bool = False) -> None:
        """``broken_off``: the reply ends where the model did not mean it to: an open call is not its mistake."""
        for event in self._parser.finish(broken_off=broken_off):
            self._take(event, broken_off=broken_off)

    @property
    def raw_text(self) -> str:
        return "".join(self.raw)

    def parts(self) -> dict[str, str]:
        """The text and the thoughts apart, for the log, where they are not all that was written."""
        said, thought = "".join(self.text), "".join(self.thought)
        return {} if said == self.raw_text else {"said": said} | ({"thought": thought} if thought else {})

    @property
    def visible(self) -> str:
        """What the user reads: no thinking, no calls."""
        return "".join(self.text).strip()

    def _take(self, event: syntax.ParserEvent, *, broken_off: bool = False) -> None:
        match event:
            case syntax.Text(delta):
                self.text.append(delta)
                self.emit("text", delta=delta)
            case syntax.Thinking(delta):
                self.thought.append(delta)
                self.emit("thinking", delta=delta)
            case syntax.ToolStart(index, name):
                self._ids[index] = self.next_call_id()
                self.told[self._ids[index]] = name
                self.emit("tool.start", callId=self._ids[index], name=name)
            case syntax.ParameterDelta(index, name, parameter, delta):
                self.emit("tool.delta", callId=self._ids[index], name=name, parameter=parameter, delta=delta)
            case syntax.ToolCall(index, name, arguments, error, written_id):
                call = ReplyCall(self._ids.get(index) or self.next_call_id(), name, arguments, error, written_id)
                self.calls.append(call)
                self.told[call.call_id] = name
                self.emit("tool.call", callId=call.call_id, name=name, arguments=arguments)
            case syntax.Malformed(message, index=index):
                self.complaints.append(message)
                if index in self._ids and not broken_off:
                    # The log knows no such call: this result is for those who heard it begin.
                    call_id = self._ids[index]
                    self.emit("tool.result", callId=call_id, name=self.told.pop(call_id), ok=False, text=message)
            case syntax.DroppedCall(message):
                self.complaints.append(message)
            case _:
                return
