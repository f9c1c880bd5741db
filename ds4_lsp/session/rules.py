"""Whether each event of a log follows from those before it. Pure; asked by ``verify``, which knows the whole log.

Opening a session asks less: what it can settle or leave alone is no reason to keep someone from their work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ds4_lsp.session.events import Event
from ds4_lsp.session.state import LogState, appends, call_number
from ds4_lsp.session.surface import Surface

_ANSWERED = ("once", "session", "unavailable")
"""Answers that only a question can have had."""


class Rules:
    """Follows a log with its state and surface as they are before each event."""

    def __init__(self, state: LogState, surface: Surface) -> None:
        self._state = state
        self._surface = surface
        self._jobs: set[int] = set()
        self._asked: set[tuple[str, str]] = set()
        self._summary: Event | None = None
        """That of the compaction under way."""

    def broken(self, event: Event) -> list[str]:
        """What ``event`` breaks. Its data has the shape of its type. To be called for each event, in order, before
        state and surface take it in."""
        check = _CHECKS.get(event.type)
        problems = [] if check is None else list(check(self, event))
        turn = event.data.get("turn")
        if event.type != "turn/start" and isinstance(turn, int) and turn > self._state.last_turn:
            problems.append(f"{event.type} is of turn {turn}, which has not started")
        return problems

    # --- turns and messages -------------------------------------------------------------------------------------------

    def _turn_start(self, event: Event) -> Iterator[str]:
        state, turn, queued = self._state, event.data["turn"], event.data.get("queued")
        if state.turn is not None:
            yield f"turn {turn} starts before turn {state.turn.turn} has ended"
        if turn != state.last_turn + 1:
            yield f"turn {turn} starts, and the one before it was {state.last_turn}"
        if queued is not None and queued not in state.queue:
            yield f"turn {turn} takes prompt {queued}, which is not queued"

    def _turn_end(self, event: Event) -> Iterator[str]:
        state, turn = self._state, event.data["turn"]
        if state.turn is None:
            yield f"turn {turn} ends and had not started"
        elif turn != state.turn.turn:
            yield f"turn {turn} ends while turn {state.turn.turn} is open"
        for call in state.calls.values():
            yield f"turn {turn} ends before call {call.call_id!r} has its result"

    def _in_its_turn(self, event: Event) -> Iterator[str]:
        open_turn = self._state.turn
        if open_turn is None or event.data["turn"] != open_turn.turn:
            yield f"{event.type} of turn {event.data['turn']} is outside that turn"

    def _user(self, event: Event) -> Iterator[str]:
        checkpoint = event.data.get("kind") == "checkpoint"
        if checkpoint == appends(event):
            yield "a checkpoint, and no other user message, takes the place of others"
        elif checkpoint:
            yield from self._checkpoint(event)
        else:
            yield from self._in_its_turn(event)

    def _assistant(self, event: Event) -> Iterator[str]:
        if not appends(event):
            yield from self._shortened(event)
            return
        yield from self._in_its_turn(event)
        seen: set[str] = set()
        for call in event.data["calls"]:
            name = call["callId"]
            if name in seen or name in self._state.calls or 0 < call_number(name) <= self._state.last_call:
                yield f"call id {name!r} was used before"
            seen.add(name)

    def _shortened(self, event: Event) -> Iterator[str]:
        shadowed = self._shadowed(event)
        same = len(shadowed) == 1 and shadowed[0].type == "assistant/message"
        if not same or any(shadowed[0].data.get(key) != event.data[key] for key in ("calls", "stop")):
            yield "a shortened reply takes the place of something other than that reply"

    # --- calls --------------------------------------------------------------------------------------------------------

    def _started(self, event: Event) -> Iterator[str]:
        call = self._state.calls.get(event.data["callId"])
        if call is None:
            yield f"call {event.data['callId']!r} starts, and is not waiting for a result"
            return
        if call.started:
            yield f"call {call.call_id!r} starts twice"
        if call.name != event.data["name"]:
            yield f"call {call.call_id!r} is of {call.name}, and {event.data['name']} starts"

    def _result(self, event: Event) -> Iterator[str]:
        name, of = event.data["callId"], event.data["name"]
        if not appends(event):
            yield from self._pruned(event)
            return
        call = self._state.calls.get(name)
        if call is None:
            yield f"result for call {name!r}, which is not waiting for one"
        elif call.name != of:
            yield f"call {name!r} is of {call.name}, its result of {of}"
        self._asked = {asked for asked in self._asked if asked[0] != name}

    def _pruned(self, event: Event) -> Iterator[str]:
        shadowed = self._shadowed(event)
        same = len(shadowed) == 1 and shadowed[0].type == "tool/result"
        if not same or any(shadowed[0].data.get(key) != event.data[key] for key in ("callId", "name", "ok")):
            yield "a shortened result takes the place of something other than that result"

    def _permission(self, event: Event) -> Iterator[str]:
        name, kind, answer = event.data["callId"], event.data["kind"], event.data.get("answer")
        call = self._state.calls.get(name)
        if name and (call is None or not call.started):
            yield f"{event.type} is of call {name!r}, which is not running"
        if answer is None:
            if (name, kind) in self._asked:
                yield f"{kind} is asked for call {name!r} again before it was decided"
            self._asked.add((name, kind))
            return
        if answer in _ANSWERED and (name, kind) not in self._asked:
            yield f"{kind} is answered for call {name!r} and was not asked"
        self._asked.discard((name, kind))

    def _edit(self, event: Event) -> Iterator[str]:
        data = event.data
        undoes = data.get("undoes")
        yield from self._of_a_call(event)
        if undoes is not None and not 0 < undoes <= self._state.last_turn:
            yield f"an edit undoes turn {undoes}, which has not started"
        if data["beforeBlob"] is None and not data.get("created") and undoes is None:
            yield "an edit does not say what was there before it"

    def _of_a_call(self, event: Event) -> Iterator[str]:
        name = event.data["callId"]
        if name and name not in self._state.calls and not 0 < call_number(name) <= self._state.last_call:
            yield f"{event.type} is of call {name!r}, which nobody made"

    # --- jobs and the queue -------------------------------------------------------------------------------------------

    def _job_started(self, event: Event) -> Iterator[str]:
        job = event.data["job"]
        yield from self._of_a_call(event)
        if job in self._jobs:
            yield f"job {job} starts twice"
        self._jobs.add(job)

    def _job_ended(self, event: Event) -> Iterator[str]:
        job = event.data["job"]
        if job not in self._state.jobs:
            yield f"job {job} ends and {'has ended before' if job in self._jobs else 'had not started'}"

    def _queued(self, event: Event) -> Iterator[str]:
        again, turn = event.data.get("requeued"), self._state.turn
        taken = turn.queued if turn is not None and not turn.prompted else None
        if again is not None and (taken is None or again not in (taken.seq, taken.data.get("requeued"))):
            yield f"prompt {again} is queued again, and was not taken by a turn that did not send it"

    def _dropped(self, event: Event) -> Iterator[str]:
        if event.data["queued"] not in self._state.queue:
            yield f"prompt {event.data['queued']} is dropped, and is not queued"

    def _edited(self, event: Event) -> Iterator[str]:
        if event.data["queued"] not in self._state.queue:
            yield f"prompt {event.data['queued']} is edited, and is not queued"

    # --- compaction ---------------------------------------------------------------------------------------------------

    def _compact_start(self, event: Event) -> Iterator[str]:
        if self._state.compaction is not None:
            yield f"compaction starts before that of event {self._state.compaction.seq} has ended"
        self._summary = None

    def _compact_summary(self, event: Event) -> Iterator[str]:
        if self._state.compaction is None:
            yield "a summary belongs to no compaction"
        elif self._summary is not None:
            yield f"the compaction has a summary already, event {self._summary.seq}"
        self._summary = event

    def _checkpoint(self, event: Event) -> Iterator[str]:
        compaction, summary = self._state.compaction, self._summary
        if compaction is None or summary is None:
            yield "a checkpoint belongs to no compaction with a summary"
            return
        if compaction.replaced:
            yield f"the compaction of event {compaction.seq} has a checkpoint already"
        op, shadowed = event.surface_op, [node.seq for node in self._shadowed(event)]
        assert op is not None
        if list(event.sources) != [compaction.seq, summary.seq, *shadowed]:
            yield f"its checkpoint cites {list(event.sources)}, not {[compaction.seq, summary.seq, *shadowed]}"
        if summary.data["shadowedSeqs"] != shadowed:
            yield f"its summary is of events {summary.data['shadowedSeqs']}, and it replaces {shadowed}"
        span = summary.data.get("shadowedRange")
        # Older versions wrote positions.
        known = ((shadowed[0], shadowed[-1]), (op["start"], op["end"])) if shadowed else ()
        if span is not None and (span["start"], span["end"]) not in known:
            yield f"its summary is of events {span['start']} to {span['end']}, not {shadowed[0]} to {shadowed[-1]}"

    def _compact_end(self, event: Event) -> Iterator[str]:
        compaction = self._state.compaction
        if compaction is None:
            yield "compaction ends and had not started"
            return
        if event.sources and compaction.seq not in event.sources:
            yield f"the end of compaction {compaction.seq} cites {list(event.sources)}"
        if compaction.replaced and event.data.get("error") is not None:
            yield "a compaction ends with an error, and its checkpoint is there"
        if not compaction.replaced and event.data.get("error") is None:
            yield "a compaction ends as done, and its checkpoint is missing"

    def _shadowed(self, event: Event) -> list[Event]:
        assert event.surface_op is not None
        return self._surface.events[event.surface_op["start"] : event.surface_op["end"] + 1]


_CHECKS: dict[str, Callable[[Rules, Event], Iterator[str]]] = {
    "turn/start": Rules._turn_start,
    "turn/end": Rules._turn_end,
    "user/message": Rules._user,
    "assistant/message": Rules._assistant,
    "tool/started": Rules._started,
    "tool/result": Rules._result,
    "permission/asked": Rules._permission,
    "permission/decided": Rules._permission,
    "edit/applied": Rules._edit,
    "job/started": Rules._job_started,
    "job/ended": Rules._job_ended,
    "prompt/queued": Rules._queued,
    "prompt/dropped": Rules._dropped,
    "prompt/edited": Rules._edited,
    "compact/start": Rules._compact_start,
    "compact/summary": Rules._compact_summary,
    "compact/end": Rules._compact_end,
}
