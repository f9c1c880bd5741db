"""An open session: its log, the surface and state that derive from it, and what lies beside it on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ds4_lsp.protocol.errors import InvalidRequest, NotFound, StorageFailed
from ds4_lsp.session import meta
from ds4_lsp.session.blobs import Blobs
from ds4_lsp.session.events import Event, Header
from ds4_lsp.session.lock import SessionLock
from ds4_lsp.session.log import EventLog
from ds4_lsp.session.meta import SessionSummary, summarise
from ds4_lsp.session.reader import LOG_NAME
from ds4_lsp.session.recovery import recovery
from ds4_lsp.session.state import LogState
from ds4_lsp.session.storage import make_inside, storing
from ds4_lsp.session.surface import Surface

_log = logging.getLogger(__name__)


class Session:
    """One writer's view of a session, from :meth:`open` to :meth:`close`. Owned by the session worker."""

    def __init__(self, log: EventLog, surface: Surface, state: LogState, lock: SessionLock) -> None:
        self.log = log
        self.surface = surface
        self.state = state
        self.directory = log.directory
        self.blobs = Blobs(self.directory / "blobs")
        self.recovered: tuple[Event, ...] = ()
        """What :meth:`open` appended to settle an earlier end."""
        self._lock = lock
        self._followers: list[Callable[[Event], None]] = []
        self._owed: list[tuple[str, dict[str, Any]]] = []
        self._calls = state.last_call
        self._closed = False

    @classmethod
    def open(cls, directory: Path, observe: Callable[[Event], None] = lambda _event: None) -> Session:
        """Lock, read and settle the session in ``directory``. ``observe`` is given every event, in order, so that a log
        is read once however much is wanted of it.

        Raises ``NotFound``, ``SessionLocked``, ``CorruptSession`` (nothing was changed) or ``StorageFailed``.
        """
        with storing("look into", directory):
            there = (directory / LOG_NAME).exists()
        if not there:
            # Asked before the lock, which would create the directory of a session that does not exist.
            raise NotFound(f"There is no session in {directory}.", path=str(directory))
        lock = SessionLock(directory)
        log: EventLog | None = None
        try:
            surface, state = Surface(), LogState()

            def take_in(event: Event) -> None:
                if event.seq == 0:
                    meta.check_name(directory, Header.from_event(event))
                surface.apply(event)
                state.apply(event)
                observe(event)

            log = EventLog.open(directory, take_in)
            session = cls(log, surface, state, lock)
            session.recovered = tuple(
                session.append(draft.type, draft.data, surface_op=draft.surface_op) for draft in recovery(state)
            )
            if session.recovered:
                session.sync()
                for event in session.recovered:
                    observe(event)
                _log.warning("session %s had not been closed: appended %d events", session.id, len(session.recovered))
        except BaseException:
            if log is not None:
                log.close()
            lock.release()
            raise
        return session

    @property
    def id(self) -> str:
        return self.header.session_id

    @property
    def header(self) -> Header:
        return self.log.header

    @property
    def title(self) -> str:
        """As given, or the first line of the first prompt; empty before that."""
        return self.state.title

    @property
    def next_seq(self) -> int:
        return self.log.next_seq

    def append(
        self,
        type: str,
        data: Mapping[str, Any],
        *,
        surface_op: Mapping[str, Any] | None = None,
        sources: Sequence[int] = (),
        ignorable: bool = False,
    ) -> Event:
        """Log one event and let surface and state follow.

        Raises ``StorageFailed``, ``CorruptSession`` for a replacement that does not cite what it shadows, or
        ``InvalidRequest`` for a result that no call waits for; in each case nothing has changed.
        """
        self.settle()
        return self._append(type, data, surface_op=surface_op, sources=sources, ignorable=ignorable)

    def follow(self, follower: Callable[[Event], None]) -> None:
        """``follower`` is given every event from now on, when surface and state have taken it in. It must not raise."""
        self._followers.append(follower)

    def record(self, type: str, data: Mapping[str, Any]) -> Event | None:
        """Log what has happened already, and cannot be undone because the disk is full: None where it could not be
        written now. It is then kept in memory, and written before the next event."""
        try:
            return self.append(type, data)
        except StorageFailed as error:
            _log.warning("session %s: a %s could not be logged yet: %s", self.id, type, error)
            self._owed.append((type, dict(data)))
            return None

    def settle(self) -> None:
        """Write what could not be written before. Raises ``StorageFailed``: nothing else should begin then."""
        while self._owed:
            self._append(*self._owed[0])
            self._owed.pop(0)

    @property
    def owed(self) -> list[Event]:
        """What happened and is not in the log yet, as it will be."""
        return [Event(self.next_seq + later, type, 0.0, data) for later, (type, data) in enumerate(self._owed)]

    def _append(
        self,
        type: str,
        data: Mapping[str, Any],
        *,
        surface_op: Mapping[str, Any] | None = None,
        sources: Sequence[int] = (),
        ignorable: bool = False,
    ) -> Event:
        event = self.log.prepare(type, data, surface_op=surface_op, sources=sources, ignorable=ignorable)
        self.surface.check(event)
        if type == "tool/result" and not self.state.awaits(event):
            raise InvalidRequest(
                f"A call gets exactly one result, and call {event.data.get('callId')!r} is not waiting for one."
            )
        self.log.write(event)
        self.surface.apply(event)
        self.state.apply(event)
        for follower in self._followers:
            follower(event)
        if type == "turn/end":
            self.save_meta()
        return event

    def sync(self) -> None:
        """Return when everything appended is durable. Raises ``StorageFailed``."""
        self.log.sync()

    def events(self) -> Iterator[Event]:
        """Every event of the log, streamed from disk."""
        return self.log.events()

    def next_turn(self) -> int:
        """The number of the turn that the next ``turn/start`` begins, from 1."""
        return self.state.last_turn + 1

    def next_call_id(self) -> str:
        """``c1``, ``c2``, …: unique in the session, over restarts and forks."""
        self._calls = max(self._calls, self.state.last_call) + 1
        return f"c{self._calls}"

    def queued(self) -> list[Event]:
        """``prompt/queued`` events that no turn has taken and nobody dropped, oldest first."""
        # A prompt that recovery queued anew keeps its place.
        return sorted(self.state.queue.values(), key=lambda event: event.data.get("requeued", event.seq))

    def summary(self) -> SessionSummary:
        return summarise(self.directory, self.state, self.log.length)

    def directory_for(self, name: str) -> Path:
        """A directory of the session (``kv``, ``jobs``), created where missing. Raises ``StorageFailed``, also where
        the session is closed or its own directory is gone: nothing brings that back."""
        self.log.check_place()
        path = self.directory / name
        with storing("create", path):
            make_inside(path)
        return path

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called: nothing of the session may be written any more."""
        return self._closed

    @property
    def kv_dir(self) -> Path:
        return self.directory_for(meta.KV_NAME)

    @property
    def jobs_dir(self) -> Path:
        return self.directory_for("jobs")

    def close(self) -> None:
        """Flush the log, write the cache, release the lock. Idempotent. Raises ``StorageFailed`` where the log could
        not be made durable; the session is closed all the same."""
        if self._closed:
            return
        self._closed = True
        try:
            self.log.sync()
            self.settle()
            self.log.sync()
            self.save_meta()
        finally:
            with suppress(OSError):
                self.log.close()
            self._lock.release()

    def save_meta(self) -> None:
        """Write the cache that lists of sessions read. Done at the end of a turn anyway; never raises."""
        try:
            self.log.check_place()
            meta.write(self.directory, self.summary())
        except (OSError, StorageFailed) as error:
            # A cache only: whoever lists the sessions reads the log instead.
            _log.warning("could not write %s of session %s: %s", meta.META_NAME, self.id, error)
