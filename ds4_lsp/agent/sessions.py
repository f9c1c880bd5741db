"""The workspace's sessions: which are open here, which one is current, and how one is put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ds4_lsp.agent.assembly import assemble
from ds4_lsp.agent.earlier import Earlier
from ds4_lsp.agent.kv import Snapshots
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.protocol.commands import SessionInfo
from ds4_lsp.protocol.errors import CorruptSession, Ds4Error, NotFound, SessionLocked, StorageFailed
from ds4_lsp.session.events import Event
from ds4_lsp.session.meta import SessionSummary
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.session import Session
from ds4_lsp.session.store import Observe, SessionStore

log = logging.getLogger(__name__)


class Sessions:
    """Opens a session at most once and keeps it, with its jobs, until it is deleted or the server ends."""

    def __init__(self, services: Services, snapshots: Snapshots) -> None:
        self._services = services
        self._snapshots = snapshots
        self._open: dict[str, Runtime] = {}
        self.current: Runtime | None = None
        self.on_restored: Callable[[Runtime, Event], None] = lambda _runtime, _event: None
        """Told of each prompt that was still queued in a reopened session."""

    @property
    def store(self) -> SessionStore:
        roots = tuple(self._services.editor.roots) or (Path.cwd(),)
        return SessionStore(self._services.settings().sessions.base, roots)

    def resume(self) -> None:
        """Make the workspace's last session current. What cannot be opened is left alone, with a message, and the one
        before it is resumed. Never raises."""
        try:
            for summary in self.store.list():
                if self._resumed(summary):
                    return
        except Ds4Error as error:
            self._services.listener.message("warning", f"DS4: no session was resumed. {error.message}")

    def _resumed(self, summary: SessionSummary) -> bool:
        """Whether the search is over: with this session open, here or elsewhere, or with a reason that others share."""
        identity, store = summary.session_id, self.store
        try:
            if summary.problem is not None:
                raise CorruptSession(summary.problem)
            self._make_current(self._opened(lambda observe: store.open(identity, observe)))
        except SessionLocked as error:
            log.info("the last session is open elsewhere: %s", error)
        except CorruptSession as error:
            self._services.listener.message(
                "warning",
                f"DS4: session {identity} ({store.directory / identity}) was not resumed, and is left as it is. "
                f"{error.message} `ds4-lsp sessions verify {identity}` says more.",
            )
            return False
        except Ds4Error as error:
            self._services.listener.message(
                "warning", f"DS4: the last session, {identity}, was not resumed. {error.message}"
            )
        return True

    def get(self, prefix: str | None) -> Runtime:
        """A session by any unique prefix of its id, opened where it is not; None is the current one.

        Errors: ``NotFound``, ``Ambiguous``, ``SessionLocked``, ``CorruptSession``, ``StorageFailed``.
        """
        if prefix is None:
            if self.current is None:
                raise NotFound("There is no current session. Send a prompt, or start one with ds4.newSession.")
            return self.current
        runtime = self._open.get(prefix) or self.find_open(prefix)
        if runtime is not None:
            return runtime
        store = self.store
        name = store.find(prefix).name
        return self._opened(lambda observe: store.open(name, observe))

    def get_or_create(self, prefix: str | None) -> Runtime:
        if prefix is None and self.current is None:
            return self.create(None)
        return self.get(prefix)

    def find_open(self, prefix: str) -> Runtime | None:
        """The session whose id begins so, if it is open here; also one whose directory is gone."""
        try:
            return self._open.get(self.store.find(prefix).name)
        except NotFound:
            found = [runtime for identity, runtime in self._open.items() if prefix and identity.startswith(prefix)]
            return found[0] if len(found) == 1 else None
        except Ds4Error:
            return self._open.get(prefix)

    def create(self, title: str | None) -> Runtime:
        """A new session, now the current one."""
        return self._make_current(self._opened(lambda _observe: self.store.create(title)))

    def switch(self, prefix: str) -> Runtime:
        return self._make_current(self.get(prefix))

    def fork(self, prefix: str | None, seq: int | None) -> Runtime:
        """A copy up to ``seq``, now the current session."""
        name = self.current.id if prefix is None and self.current is not None else prefix
        if name is None:
            raise NotFound("There is no current session to fork. Name one with sessionId.")
        return self._make_current(self._opened(lambda observe: self.store.fork(name, seq, observe=observe)))

    async def delete(self, prefix: str) -> None:
        """Close a session where it is open here, and remove it. A session that is open here and whose directory is
        gone is closed, and no longer the current one.

        Errors: ``NotFound``, ``Ambiguous``, ``SessionLocked``, ``StorageFailed``.
        """
        runtime = self.find_open(prefix)
        if runtime is None:
            self.store.delete(prefix)
            return
        try:
            await self._close(runtime)
        except StorageFailed as error:
            # Closed all the same; what could not be written any more is to be deleted.
            log.info("session %s was closed to be deleted: %s", runtime.id, error)
        # A snapshot that is being written; a closed session begins no other.
        await self._snapshots.settle(runtime.session.directory)
        with suppress(NotFound):
            self.store.delete(runtime.id)

    def listing(self) -> list[SessionInfo]:
        current = self.current.id if self.current is not None else None
        for runtime in self._open.values():
            # Its cache is of the last turn's end; without this the whole log would be read.
            runtime.session.save_meta()
        return [summary.info(current=summary.session_id == current) for summary in self.store.list()]

    def describe(self, runtime: Runtime) -> dict[str, Any]:
        """The current session in ``ds4.status``."""
        return {"sessionId": runtime.id, "title": runtime.session.title, "turn": runtime.turn}

    def reading(self, prefix: str | None) -> tuple[Path, Iterator[Event]]:
        """The directory of a session and its events from the first on, wherever it is open: reading locks nothing.
        None is the current session. Errors: ``NotFound``, ``Ambiguous``; the events', ``CorruptSession``."""
        runtime = self.get(None) if prefix is None else self.find_open(prefix)
        if runtime is not None:
            return runtime.session.directory, runtime.session.events()
        assert prefix is not None
        directory = self.store.find(prefix)
        return directory, read_file(directory)

    async def close(self) -> None:
        """Kill the jobs, flush and release every session. What fails is logged: the process is ending."""
        for runtime in list(self._open.values()):
            try:
                await self._close(runtime)
            except (Ds4Error, OSError):
                log.exception("session %s could not be closed cleanly", runtime.id)

    async def _close(self, runtime: Runtime) -> None:
        self._open.pop(runtime.id, None)
        if self.current is runtime:
            self.current = None
        await runtime.jobs.close()
        runtime.session.close()

    def _make_current(self, runtime: Runtime) -> Runtime:
        self.current = runtime
        return runtime

    def _opened(self, opening: Callable[[Observe], Session]) -> Runtime:
        earlier = Earlier()
        session = opening(earlier.apply)
        try:
            runtime = assemble(self._services, session, earlier)
        except BaseException:
            session.close()
            raise
        self._open[runtime.id] = runtime
        for event in session.queued():
            self.on_restored(runtime, event)
        return runtime
