"""``ds4/event``: from what the agent says, at its own pace, to what a client is sent.

Events are taken on the worker's thread and sent on the LSP loop, in order. Deltas of one kind and target that are
next to each other are joined. Nothing of a turn follows its ``turn.end``: what is not about the turn (a state, a job)
is sent as turn 0 then, the rest is dropped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ds4_lsp.protocol.events import DELTA_KINDS, Event

log = logging.getLogger(__name__)

INTERVAL = 0.04
"""Seconds between two sendings (contract.md: 30–50 ms)."""
BREATH = 0.002
"""Seconds that what is said after a silence waits for what is said with it."""
SLOW_CLIENT = 1 << 20
"""Bytes not yet read by the client, above which events wait and join rather than pile up."""
OUTSIDE_TURNS = frozenset(
    {
        "state",
        "queued",
        "queue",
        "job",
        "notice",
        "edit",
        "usage",
        "compaction.start",
        "compaction.delta",
        "compaction.end",
    }
)
ENDED_KEPT = 64
"""Ended turns remembered, per connection."""


def pause(sent: float, now: float) -> float:
    """Seconds from ``now``, when an event came, to the next sending. ``sent``: when the last one was. What comes first
    after a silence, a reply's first words say, hardly waits at all."""
    return max(BREATH, sent + INTERVAL - now)


def joins(last: Event, event: Event) -> bool:
    """Whether ``event``'s delta continues that of ``last``."""
    if event.kind not in DELTA_KINDS or last.kind != event.kind:
        return False
    same = ("session_id", "turn", "seq")
    if any(getattr(last, name) != getattr(event, name) for name in same):
        return False
    rest = {key: value for key, value in event.data.items() if key != "delta"}
    return rest == {key: value for key, value in last.data.items() if key != "delta"}


class EventBuffer:
    """Collects on any thread, hands over on one. ``arm`` is called, on the collecting thread, at the first event."""

    def __init__(self, arm: Callable[[], None]) -> None:
        self._arm = arm
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._deltas: list[str] = []
        """Of the last event, not joined yet: joining one by one would be quadratic."""
        self._ended: dict[tuple[str, int], None] = {}

    def add(self, event: Event) -> None:
        with self._lock:
            if (event.session_id, event.turn) in self._ended:
                if event.kind not in OUTSIDE_TURNS:
                    log.debug("a late %s of turn %d is dropped", event.kind, event.turn)
                    return
                event = event.model_copy(update={"turn": 0})
            first = not self._events
            self._append(event)
            if event.kind == "turn.end":
                self._ended[event.session_id, event.turn] = None
                if len(self._ended) > ENDED_KEPT:
                    del self._ended[next(iter(self._ended))]
        if first:
            self._arm()

    def take(self) -> list[Event]:
        """Everything collected; the buffer is empty then."""
        with self._lock:
            self._seal()
            events, self._events = self._events, []
            return events

    def _append(self, event: Event) -> None:
        if self._events and joins(self._events[-1], event):
            self._deltas.append(str(event.data["delta"]))
            return
        self._seal()
        self._events.append(event)

    def _seal(self) -> None:
        if self._deltas:
            last = self._events[-1]
            delta = str(last.data["delta"]) + "".join(self._deltas)
            self._events[-1] = last.model_copy(update={"data": last.data | {"delta": delta}})
            self._deltas = []
