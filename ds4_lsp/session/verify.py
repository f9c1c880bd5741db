"""Checking a session on disk against every rule of its log. Reads, and changes nothing."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.session import meta, snapshots
from ds4_lsp.session.blobs import Blobs, cited
from ds4_lsp.session.events import Event, Header
from ds4_lsp.session.lock import holder, is_held
from ds4_lsp.session.log import TORN_NAME
from ds4_lsp.session.reader import LOG_NAME, Tail, open_log, read
from ds4_lsp.session.recovery import Draft, recovery
from ds4_lsp.session.rules import Rules
from ds4_lsp.session.shapes import misshapen
from ds4_lsp.session.snapshots import Held
from ds4_lsp.session.state import LogState
from ds4_lsp.session.surface import Surface

Inspect = Callable[[Path], Held | str]
"""What a snapshot file holds, or why it cannot be used. Only the engine's room can read one."""


@dataclass
class Report:
    """``problems`` are broken rules; ``repairs`` what using the session would mend, and has to be no fault."""

    session_id: str
    events: int = 0
    problems: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    held: bool = False
    """A process has the session open: what is unfinished is no repair then."""
    holder: int | None = None
    """That process's id, where it is known."""

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(directory: Path, inspect: Inspect | None = None) -> Report:
    """Check one session; with ``inspect`` also its KV snapshots. Memory: its surface, and one name of each text."""
    report = Report(directory.name)
    with suppress(OSError):
        report.held = is_held(directory)
    report.holder = holder(directory) if report.held else None
    checker = _Checker(directory, report)
    try:
        tail = _scan(directory / LOG_NAME, checker.observe)
    except Ds4Error as error:
        report.problems.append(error.message)
    else:
        checker.check_end(tail)
    _check_modes(directory, report)
    if inspect is not None:
        for path, why in snapshots.unusable(directory / meta.KV_NAME, inspect):
            report.repairs.append(f"evaluate anew what the KV snapshot {path.name} should hold: {why}")
    return report


class _Checker:
    def __init__(self, directory: Path, report: Report) -> None:
        self._directory = directory
        self._report = report
        self._surface, self._state = Surface(), LogState()
        self._rules = Rules(self._state, self._surface)
        self._blobs = Blobs(directory / "blobs")
        self._read: set[str] = set()

    def observe(self, event: Event) -> None:
        wrong = misshapen(event)
        problems = [wrong] if wrong is not None else self._rules.broken(event)
        self._report.problems += [f"event {event.seq}: {problem}" for problem in problems]
        # What opening cannot take in ends the check as it ends the opening.
        self._surface.apply(event)
        self._state.apply(event)
        self._report.events += 1
        if wrong is None:
            self._check_blobs(event)

    def _check_blobs(self, event: Event) -> None:
        for name in cited(event):
            if name in self._read:
                continue
            self._read.add(name)
            try:
                self._blobs.get(name)
            except Ds4Error as error:
                self._report.problems.append(f"event {event.seq}: {error.message}")

    def check_end(self, tail: Tail) -> None:
        report, state = self._report, self._state
        _check_header(state.header, self._directory, report)
        if report.held:
            return
        if tail.torn:
            report.repairs.append(f"cut {tail.torn} bytes of a torn last line off into {TORN_NAME}")
        if tail.unterminated:
            report.repairs.append("end the last line with a line feed")
        report.repairs += [f"append {_describe(draft)}" for draft in recovery(state)]
        known = meta.cached(self._directory)
        size = (self._directory / LOG_NAME).stat().st_size
        if known is None or known != replace(meta.summarise(self._directory, state, size), snapshot=known.snapshot):
            report.repairs.append(f"write {meta.META_NAME} anew, as the log has it")


def _scan(path: Path, observe: Callable[[Event], None]) -> Tail:
    with open_log(path) as stream:
        events = read(stream, str(path))
        while True:
            try:
                observe(next(events))
            except StopIteration as stop:
                tail: Tail = stop.value
                return tail


def _check_header(header: Header | None, directory: Path, report: Report) -> None:
    if header is not None and header.session_id != directory.name:
        report.problems.append(f"the log is of session {header.session_id}, its directory is named {directory.name}")


def _check_modes(directory: Path, report: Report) -> None:
    for path in (directory, *_everything(directory)):
        try:
            mode = path.lstat().st_mode
        except OSError:
            # Gone meanwhile, or in a directory that this user may not look into, which is a problem already.
            continue
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & 0o077:
            name = path.relative_to(directory.parent)
            report.problems.append(f"others than its owner have access to {name}; chmod go= {path}")


def _everything(directory: Path) -> list[Path]:
    return sorted(Path(place) / name for place, folders, files in os.walk(directory) for name in (*folders, *files))


def _describe(draft: Draft) -> str:
    what = {
        key: draft.data[key]
        for key in ("turn", "callId", "name", "job", "state", "error", "recovered")
        if key in draft.data
    }
    return f"{draft.type} {json.dumps(what, ensure_ascii=False)}"
