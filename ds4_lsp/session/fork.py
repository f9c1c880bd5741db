"""Copying the beginning of a session's log into a new one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ds4_lsp.protocol.errors import CorruptSession, InvalidRequest
from ds4_lsp.session.blobs import Blobs, cited
from ds4_lsp.session.events import Event, Header
from ds4_lsp.session.log import EventLog
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.recovery import recovery
from ds4_lsp.session.state import LogState
from ds4_lsp.session.storage import make_inside, storing
from ds4_lsp.session.surface import Surface

NewHeader = Callable[[tuple[str, int], str], Header]
"""(parent, title) of the original to the copy's header."""


def copy_log(source: Path, target: Path, seq: int | None, new_header: NewHeader) -> Header:
    """Write the events 1 to ``seq`` of ``source`` behind a new header into the directory ``target``, with the blobs
    that they name, then what settles the copy: its queued prompts are dropped. Returns that header. Raises
    ``InvalidRequest`` for a cut that parts what belongs together.

    Two passes over the source: the first only looks for the cut, so that the copy is written once.
    """
    cut, state = _cut(source, seq)
    assert state.header is not None
    header = new_header((state.header.session_id, cut), state.title)
    log = EventLog.create(target, header)
    try:
        for event in read_file(source):
            if event.seq > 0:
                log.write(event)
                _copy_blobs(event, source, target)
            if event.seq == cut:
                break
        _settle(log, state, header)
        log.sync()
    finally:
        log.close()
    return header


def _settle(log: EventLog, state: LogState, header: Header) -> None:
    """End what goes on in the original only. Before the copy is there for anybody: its prompts must not run twice."""
    state.header = header
    for draft in recovery(state):
        state.apply(log.append(draft.type, draft.data, surface_op=draft.surface_op))
    for queued in list(state.queue):
        log.append("prompt/dropped", {"queued": queued, "reason": "forked"})


def _cut(source: Path, seq: int | None) -> tuple[int, LogState]:
    """The seq to cut after, and the state there."""
    state, surface = LogState(), Surface()
    whole = -1
    try:
        for event in read_file(source):
            if seq is not None and event.seq > seq:
                break
            state.apply(event)
            surface.apply(event)
            if state.whole:
                whole = event.seq
    except CorruptSession:
        # What precedes the damage is good; only a cut before it was asked for.
        if seq is None or state.events <= seq:
            raise
    last = state.events - 1
    if seq is None and whole < last:
        return _cut(source, whole)
    if seq is not None and seq > last:
        raise InvalidRequest(f"The session ends with event {last}; it cannot be forked at {seq}.", last=last)
    if whole < last:
        raise InvalidRequest(
            f"Event {seq} lies between a call and its result, or in a compaction. Fork at {whole} instead.",
            nearest=whole,
        )
    return last, state


def _copy_blobs(event: Event, source: Path, target: Path) -> None:
    old, new = Blobs(source / "blobs"), Blobs(target / "blobs")
    for name in cited(event):
        if name not in old or name in new:
            continue
        with storing("copy", new.directory):
            make_inside(new.directory)
            # Blobs never change, so two sessions can share one; a file system without links gets a copy.
            with suppress(OSError):
                os.link(old.path(name), new.path(name))
            if name not in new:
                shutil.copy2(old.path(name), new.path(name))
