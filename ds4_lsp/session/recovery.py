"""What to append to a log whose writer ended in the middle of something. Pure.

Applied to what it produced itself, in part or in whole, it asks only for the rest: a crash during recovery is no case
of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ds4_lsp.session.events import APPEND
from ds4_lsp.session.state import LogState, OpenCall, OpenJob

NOT_STARTED = "not started: retry. The server ended before this call ran."
OUTCOME_UNKNOWN = (
    "outcome unknown: verify first. The server ended while this call ran; look at the files or the output that it was "
    "to change before you repeat it."
)
INTERRUPTED = "The server ended during this turn."
FORKED = "The session was forked during this turn, which goes on in the session that this is a copy of."


@dataclass(frozen=True)
class Draft:
    """An event to append."""

    type: str
    data: dict[str, Any]
    surface_op: Mapping[str, Any] | None = None


def recovery(state: LogState) -> list[Draft]:
    """The events that settle everything that is open, in order: compaction, jobs, calls, a prompt that its turn took
    from the queue and never sent, the turn.

    What a fork copied while it was under way belongs to the session that it was copied from, and is not called lost."""
    drafts: list[Draft] = []
    if state.compaction is not None:
        outcome = {"recovered": True} if state.compaction.replaced else {"error": "orphaned"}
        drafts.append(Draft("compact/end", {"turn": state.compaction.turn, **outcome}))
    drafts += [_job(state, number, job) for number, job in state.jobs.items()]
    drafts += [_result(call) for call in state.calls.values()]
    if state.turn is not None:
        queued = state.turn.queued
        if queued is not None and not state.turn.prompted:
            drafts.append(Draft("prompt/queued", {"requeued": queued.seq, **queued.data}))
        drafts.append(
            Draft(
                "turn/end",
                {
                    "turn": state.turn.turn,
                    "stopReason": "error",
                    "error": FORKED if _origin(state, state.turn.seq) else INTERRUPTED,
                    "interrupted": True,
                },
            )
        )
    return drafts


def _origin(state: LogState, seq: int) -> str | None:
    """The session that an event was copied from, if it was."""
    parent = state.header.parent if state.header else None
    return parent[0] if parent is not None and seq <= parent[1] else None


def _job(state: LogState, number: int | str, job: OpenJob) -> Draft:
    origin = _origin(state, job.seq)
    data = {"job": number, "state": "lost", "exitStatus": None}
    return Draft("job/ended", data if origin is None else {**data, "state": "elsewhere", "session": origin})


def _result(call: OpenCall) -> Draft:
    text = OUTCOME_UNKNOWN if call.started else NOT_STARTED
    data = {"turn": call.turn, "callId": call.call_id, "name": call.name, "ok": False, "text": text}
    return Draft("tool/result", data, APPEND)
