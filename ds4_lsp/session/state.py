"""What is open in a log: a turn, calls, a compaction, jobs, the queue; and the counts that a list of sessions shows.

Memory is bounded by what is open, not by the log's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from ds4_lsp.protocol.errors import CorruptSession
from ds4_lsp.session.events import HEADER, Event, Header

TITLE_LENGTH = 80
"""Longest title taken from a prompt, in code points."""
_CALL_NUMBER = re.compile(r"c(\d+)\Z")


@dataclass
class OpenTurn:
    """``queued``: the ``prompt/queued`` event that it came from. ``prompted``: its user message is in the log.
    ``seq``: of its ``turn/start``."""

    seq: int
    turn: int
    queued: Event | None = None
    prompted: bool = False


@dataclass
class OpenCall:
    call_id: str
    name: str
    turn: int
    started: bool = False


@dataclass
class OpenCompaction:
    """``replaced``: the message that commits it is in the log."""

    seq: int
    turn: int
    replaced: bool = False


@dataclass
class OpenJob:
    """``seq``: of the event that it started with."""

    seq: int
    command: str


@dataclass
class LogState:
    """The fold of a log's events. :meth:`apply` takes any order of them (``rules`` says what does not fit), and raises
    ``CorruptSession`` for an event whose data has not the shape of its type."""

    header: Header | None = None
    turn: OpenTurn | None = None
    calls: dict[str, OpenCall] = field(default_factory=dict)
    """Calls without a result, in order."""
    compaction: OpenCompaction | None = None
    jobs: dict[int | str, OpenJob] = field(default_factory=dict)
    """Those that run, by number."""
    queue: dict[int, Event] = field(default_factory=dict)
    """``prompt/queued`` events that no turn has taken, by seq."""
    title: str = ""
    last_turn: int = 0
    last_call: int = 0
    turns: int = 0
    tokens: int = 0
    retokenised: str | None = None
    """The tokenizer for which replies of others were last tokenised anew."""
    compactions: int = 0
    updated_at: float = 0.0
    events: int = 0

    @property
    def whole(self) -> bool:
        """Whether a fork may cut here: every call has its result and no compaction is under way."""
        return not self.calls and self.compaction is None

    def awaits(self, event: Event) -> bool:
        """Whether a call waits for this ``tool/result``, or it takes the place of one on the surface."""
        return not appends(event) or event.data.get("callId") in self.calls

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        self.events += 1
        self.updated_at = event.time
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            try:
                handler(self, event)
            except GARBLED as error:
                raise garbled(event, error) from error

    def _header(self, event: Event) -> None:
        self.header = Header.from_event(event)
        self.title = self.header.title or ""

    def _user(self, event: Event) -> None:
        data = event.data
        if not appends(event):
            if self.compaction is not None and self.compaction.seq in event.sources:
                self.compaction.replaced = True
            return
        if data.get("kind", "prompt") == "prompt":
            self.title = self.title or first_line(str(data.get("text", "")))
            if self.turn is not None:
                self.turn.prompted = True

    def _assistant(self, event: Event) -> None:
        if not appends(event):
            return
        self.tokens += len(event.data.get("tokens") or ())
        for call in event.data.get("calls") or ():
            call_id = str(call.get("callId"))
            self.last_call = max(self.last_call, call_number(call_id))
            self.calls[call_id] = OpenCall(call_id, str(call.get("name")), _turn(event, self.last_turn))

    def _result(self, event: Event) -> None:
        if appends(event):
            self.calls.pop(str(event.data.get("callId")), None)

    def _started(self, event: Event) -> None:
        call = self.calls.get(str(event.data.get("callId")))
        if call is not None:
            call.started = True

    def _turn_start(self, event: Event) -> None:
        turn = _turn(event, self.last_turn + 1)
        self.turn = OpenTurn(event.seq, turn, self.queue.pop(event.data.get("queued", -1), None))
        self.last_turn = max(self.last_turn, turn)
        self.turns += 1

    def _turn_end(self, event: Event) -> None:
        self.turn = None
        self._measure(event)

    def _measure(self, event: Event) -> None:
        if isinstance(event.data.get("contextTokens"), int):
            self.tokens = event.data["contextTokens"]

    def _compact_start(self, event: Event) -> None:
        self.compaction = OpenCompaction(event.seq, _turn(event, self.last_turn))

    def _compact_end(self, event: Event) -> None:
        self.compaction = None
        if not event.data.get("error"):
            self.compactions += 1
        self._measure(event)

    def _job_started(self, event: Event) -> None:
        self.jobs[event.data.get("job", -1)] = OpenJob(event.seq, str(event.data.get("command", "")))

    def _job_ended(self, event: Event) -> None:
        self.jobs.pop(event.data.get("job", -1), None)

    def _queued(self, event: Event) -> None:
        self.queue[event.seq] = event

    def _dropped(self, event: Event) -> None:
        self.queue.pop(event.data.get("queued", -1), None)

    def _edited(self, event: Event) -> None:
        queued = self.queue.get(event.data.get("queued", -1))
        if queued is not None:
            self.queue[queued.seq] = replace(queued, data={**queued.data, "text": str(event.data["text"])})

    def _titled(self, event: Event) -> None:
        self.title = str(event.data.get("title", ""))

    def _retokenised(self, event: Event) -> None:
        self.retokenised = str(event.data.get("tokenizer"))


_HANDLERS = {
    HEADER: LogState._header,
    "user/message": LogState._user,
    "assistant/message": LogState._assistant,
    "tool/result": LogState._result,
    "tool/started": LogState._started,
    "turn/start": LogState._turn_start,
    "turn/end": LogState._turn_end,
    "compact/start": LogState._compact_start,
    "compact/end": LogState._compact_end,
    "job/started": LogState._job_started,
    "job/ended": LogState._job_ended,
    "prompt/queued": LogState._queued,
    "prompt/dropped": LogState._dropped,
    "prompt/edited": LogState._edited,
    "session/title": LogState._titled,
    "session/retokenised": LogState._retokenised,
}


GARBLED = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""What comes of reading data that has another shape than its type's."""


def garbled(event: Event, error: Exception) -> CorruptSession:
    """The refusal that one of ``GARBLED`` becomes."""
    return CorruptSession(
        f"Event {event.seq}: the data of this {event.type} is garbled ({error}). Nothing was changed.", seq=event.seq
    )


def first_line(text: str) -> str:
    """A prompt's first line with something on it, cut to a title's length."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"


def _turn(event: Event, default: int) -> int:
    turn = event.data.get("turn")
    return turn if isinstance(turn, int) else default


def appends(event: Event) -> bool:
    """Whether an event adds a node to the surface's end, or none, and so takes nobody's place."""
    return event.surface_op is None or event.surface_op["op"] == "append"


def call_number(call_id: object) -> int:
    found = _CALL_NUMBER.match(str(call_id))
    return int(found.group(1)) if found else 0
