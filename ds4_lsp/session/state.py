"""What is open in a log: a turn, calls, a compaction, jobs, the queue; and the counts that a list of sessions shows.

Memory is bounded by what is open, not by the log's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ds4_lsp.protocol.errors import CorruptSession
from ds4_lsp.session.events import HEADER, Event, Header

TITLE_LENGTH = 80
"""Longest title taken from a prompt, in code points."""
_CALL_NUMBER = re.compile(r"c(\d+)\Z")


@dataclass
class OpenTurn:
    """``queued``: the ``prompt/queued`` event that it came from. ``prompted``: its user message is in the log."""

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
class LogState:
    """The fold of a log's events. :meth:`apply` takes any order of them; :meth:`problem` says what does not fit. Both
    raise ``CorruptSession`` for an event whose data has not the shape of its type."""

    header: Header | None = None
    turn: OpenTurn | None = None
    calls: dict[str, OpenCall] = field(default_factory=dict)
    """Calls without a result, in order."""
    compaction: OpenCompaction | None = None
    jobs: dict[int | str, str] = field(default_factory=dict)
    """Running jobs and their commands."""
    queue: dict[int, Event] = field(default_factory=dict)
    """``prompt/queued`` events that no turn has taken, by seq."""
    title: str = ""
    last_turn: int = 0
    last_call: int = 0
    turns: int = 0
    tokens: int = 0
    compactions: int = 0
    updated_at: float = 0.0
    events: int = 0

    @property
    def whole(self) -> bool:
        """Whether a fork may cut here: every call has its result and no compaction is under way."""
        return not self.calls and self.compaction is None

    def problem(self, event: Event) -> str | None:
        """Why ``event`` does not follow from what is open, if so."""
        with _readable(event):
            return next(self._problems(event), None)

    def _problems(self, event: Event) -> Iterator[str]:
        data = event.data
        match event.type:
            case "tool/result" if _appends(event) and data.get("callId") not in self.calls:
                yield f"result for call {data.get('callId')!r}, which is not waiting for one"
            case "turn/start":
                if self.turn is not None:
                    yield f"turn {data.get('turn')} starts before turn {self.turn.turn} has ended"
                if data.get("queued") is not None and data["queued"] not in self.queue:
                    yield f"turn {data.get('turn')} takes prompt {data['queued']}, which is not queued"
            case "turn/end" if self.turn is None:
                yield f"turn {data.get('turn')} ends and had not started"
            case "compact/start" if self.compaction is not None:
                yield f"compaction starts before that of event {self.compaction.seq} has ended"
            case "compact/end" if self.compaction is None:
                yield "compaction ends and had not started"
            case "job/ended" if data.get("job") not in self.jobs:
                yield f"job {data.get('job')!r} ends and had not started"
            case "assistant/message":
                for call in data.get("calls") or ():
                    if call.get("callId") in self.calls or 0 < _number(call.get("callId")) <= self.last_call:
                        yield f"call id {call.get('callId')!r} was used before"

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        self.events += 1
        self.updated_at = event.time
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            with _readable(event):
                handler(self, event)

    def _header(self, event: Event) -> None:
        self.header = Header.from_event(event)
        self.title = self.header.title or ""

    def _user(self, event: Event) -> None:
        data = event.data
        if not _appends(event):
            if self.compaction is not None and self.compaction.seq in event.sources:
                self.compaction.replaced = True
            return
        if data.get("kind", "prompt") == "prompt":
            self.title = self.title or first_line(str(data.get("text", "")))
            if self.turn is not None:
                self.turn.prompted = True

    def _assistant(self, event: Event) -> None:
        self.tokens += len(event.data.get("tokens") or ())
        for call in event.data.get("calls") or ():
            call_id = str(call.get("callId"))
            self.last_call = max(self.last_call, _number(call_id))
            self.calls[call_id] = OpenCall(call_id, str(call.get("name")), _turn(event, self.last_turn))

    def _result(self, event: Event) -> None:
        if _appends(event):
            self.calls.pop(str(event.data.get("callId")), None)

    def _started(self, event: Event) -> None:
        call = self.calls.get(str(event.data.get("callId")))
        if call is not None:
            call.started = True

    def _turn_start(self, event: Event) -> None:
        turn = _turn(event, self.last_turn + 1)
        self.turn = OpenTurn(turn, self.queue.pop(event.data.get("queued", -1), None))
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
        self.jobs[event.data.get("job", -1)] = str(event.data.get("command", ""))

    def _job_ended(self, event: Event) -> None:
        self.jobs.pop(event.data.get("job", -1), None)

    def _queued(self, event: Event) -> None:
        self.queue[event.seq] = event

    def _dropped(self, event: Event) -> None:
        self.queue.pop(event.data.get("queued", -1), None)

    def _titled(self, event: Event) -> None:
        self.title = str(event.data.get("title", ""))


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
    "session/title": LogState._titled,
}


@contextmanager
def _readable(event: Event) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptSession(
            f"Event {event.seq}: the data of this {event.type} is garbled ({error}). Nothing was changed.",
            seq=event.seq,
        ) from error


def first_line(text: str) -> str:
    """A prompt's first line with something on it, cut to a title's length."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"


def json_turn(data: dict[str, Any]) -> int | None:
    turn = data.get("turn")
    return turn if isinstance(turn, int) else None


def _turn(event: Event, default: int) -> int:
    turn = json_turn(event.data)
    return default if turn is None else turn


def _appends(event: Event) -> bool:
    return event.surface_op is None or event.surface_op["op"] == "append"


def _number(call_id: object) -> int:
    found = _CALL_NUMBER.match(str(call_id))
    return int(found.group(1)) if found else 0
