"""Checking a session on disk against every rule of its log. Reads, and changes nothing."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ds4_lsp.protocol.errors import CorruptSession, Ds4Error
from ds4_lsp.session import meta
from ds4_lsp.session.blobs import Blobs
from ds4_lsp.session.events import Event, Header
from ds4_lsp.session.log import TORN_NAME
from ds4_lsp.session.reader import LOG_NAME, Tail, open_log, read
from ds4_lsp.session.recovery import Draft, recovery
from ds4_lsp.session.state import LogState
from ds4_lsp.session.surface import Surface


@dataclass
class Report:
    """``problems`` are broken rules; ``repairs`` what opening the session would do, and has to be no fault."""

    session_id: str
    events: int = 0
    problems: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(directory: Path) -> Report:
    """Check one session. Memory: its surface."""
    report = Report(directory.name)
    surface, state, blobs = Surface(), LogState(), Blobs(directory / "blobs")

    def observe(event: Event) -> None:
        problem = state.problem(event)
        if problem is not None:
            report.problems.append(f"event {event.seq}: {problem}")
        surface.apply(event)
        state.apply(event)
        report.events += 1
        _check_blobs(event, blobs, report)

    try:
        tail = _scan(directory / LOG_NAME, observe)
    except CorruptSession as error:
        report.problems.append(error.message)
        return report
    except Ds4Error as error:
        report.problems.append(error.message)
        return report
    _check_header(state.header, directory, report)
    _check_meta(directory, state, tail, report)
    _check_modes(directory, report)
    if tail.torn:
        report.repairs.append(f"cut {tail.torn} bytes of a torn last line off into {TORN_NAME}")
    if tail.unterminated:
        report.repairs.append("end the last line with a line feed")
    report.repairs += [f"append {_describe(draft)}" for draft in recovery(state)]
    return report


def _scan(path: Path, observe: Callable[[Event], None]) -> Tail:
    with open_log(path) as stream:
        events = read(stream, str(path))
        while True:
            try:
                observe(next(events))
            except StopIteration as stop:
                tail: Tail = stop.value
                return tail


def _check_blobs(event: Event, blobs: Blobs, report: Report) -> None:
    if event.type != "edit/applied":
        return
    for name in (event.data.get("beforeBlob"), event.data.get("afterBlob")):
        if name is None:
            continue
        try:
            blobs.get(str(name))
        except Ds4Error as error:
            report.problems.append(f"event {event.seq}: {error.message}")


def _check_header(header: Header | None, directory: Path, report: Report) -> None:
    if header is not None and header.session_id != directory.name:
        report.problems.append(f"the log is of session {header.session_id}, its directory is named {directory.name}")


def _check_meta(directory: Path, state: LogState, tail: Tail, report: Report) -> None:
    path = directory / meta.META_NAME
    try:
        cached = json.loads(path.read_bytes())
        current = cached.get("size") == tail.length and cached.get("turns") == state.turns
    except (OSError, ValueError, AttributeError):
        current = False
    if not current:
        report.repairs.append(f"rebuild {meta.META_NAME} from the log")


def _check_modes(directory: Path, report: Report) -> None:
    for path in (directory, directory / LOG_NAME, directory / "blobs", directory / meta.KV_NAME):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            report.problems.append(f"others than its owner have access to {path.name or path}; chmod go= {path}")


def _describe(draft: Draft) -> str:
    what = {
        key: draft.data[key]
        for key in ("turn", "callId", "name", "job", "state", "error", "recovered")
        if key in draft.data
    }
    return f"{draft.type} {json.dumps(what, ensure_ascii=False)}"
