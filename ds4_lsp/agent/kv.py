"""KV snapshots: so that what was evaluated once is not evaluated again after a restart or a switch.

A snapshot is an optimisation. Whatever is wrong with one is logged and costs a prefill, never a turn.
"""

from __future__ import annotations

import logging
from pathlib import Path

from ds4_lsp.agent import retokenised
from ds4_lsp.agent.compaction_host import common_prefix
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import Ds4Error, EngineDied, StorageFailed
from ds4_lsp.session import store
from ds4_lsp.session.meta import has_snapshot
from ds4_lsp.session.snapshots import Snapshot
from ds4_lsp.session.snapshots import Snapshots as Files

log = logging.getLogger(__name__)

LEAST_GAIN = 64
"""Tokens that a snapshot must spare to be worth reading."""


class Snapshots:
    """Restores before a session's first use of the engine, and writes between turns. Runs with the engine free."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._wanted: set[str] = set()

    @property
    def _files(self) -> Files:
        directory = self._services.settings().sessions.directory
        return Files(Path(directory).expanduser() if directory else store.default_base())

    @property
    def enabled(self) -> bool:
        return self._services.settings().sessions.snapshots

    async def prepare(self, runtime: Runtime, cancel: Cancel) -> None:
        """Bring the KV as near to the session's transcript as it gets without evaluating what will be sent anyway.

        Returns early when cancelled. Errors: ``EngineDied``.
        """
        services = self._services
        transcript = await services.transcript(runtime)
        tokens = await transcript.tokens(runtime.session.surface)
        services.meter.used = len(tokens)
        retokenised.tell(services, runtime, transcript)
        if self.enabled:
            await self._restore(runtime, tokens)
        await self._system(runtime, transcript.system[: transcript.shared], cancel)

    def note_compaction(self, runtime: Runtime) -> None:
        """The session's snapshot is of another transcript now; a new one is written after the turn."""
        self._wanted.add(runtime.id)

    async def after_turn(self, runtime: Runtime) -> None:
        if runtime.id in self._wanted:
            self._wanted.discard(runtime.id)
            await self.save(runtime)

    async def save(self, runtime: Runtime) -> bool:
        """Write what the KV holds of the session's transcript; False when there is nothing of it or it failed."""
        engine = self._services.engine
        if not self.enabled or engine.info is None or runtime.transcript is None:
            return False
        tokens = await runtime.transcript.tokens(runtime.session.surface)
        kv = list(engine.kv)
        if not kv or common_prefix(kv, tokens) < len(kv):
            return False
        files = self._files
        try:
            path = files.session(runtime.session.kv_dir, engine.info.fingerprint, kv)
            if not path.exists():
                await engine.save(path)
            files.written(path)
        except (Ds4Error, OSError) as error:
            log.warning("no KV snapshot of session %s: %s", runtime.id, error)
            return False
        return True

    async def _restore(self, runtime: Runtime, tokens: list[int]) -> None:
        """Read the snapshot that spares most; one that turns out bad is removed, and the next best is tried."""
        engine = self._services.engine
        refused: set[Path] = set()
        while engine.info is not None:
            best = self._best(runtime, engine.info.fingerprint, tokens)
            least = common_prefix(engine.kv, tokens) + LEAST_GAIN
            if best is None or best.tokens < least or best.path in refused:
                return
            if await self._read(best, tokens):
                return
            refused.add(best.path)

    def _best(self, runtime: Runtime, fingerprint: str, tokens: list[int]) -> Snapshot | None:
        files = self._files
        try:
            own = files.find(runtime.session.kv_dir, fingerprint, tokens)
            shared = files.find(files.sysprompts, fingerprint, tokens)
        except StorageFailed as error:
            log.warning("KV snapshots cannot be used: %s", error)
            return None
        if own is None and has_snapshot(runtime.session.directory):
            log.info("no KV snapshot of the session fits: they are of another model, build, context size or transcript")
        return max((one for one in (own, shared) if one is not None), key=lambda one: one.tokens, default=None)

    async def _read(self, one: Snapshot, tokens: list[int]) -> bool:
        services = self._services
        services.listener.progress("restore", "Restoring the session", message=f"{one.tokens} tokens")
        try:
            restored = await services.engine.restore(one.path, tokens[: one.tokens])
        finally:
            services.listener.progress_end("restore")
        if restored:
            self._files.used(one.path)
            log.info("restored %d of %d tokens from a snapshot", one.tokens, len(tokens))
        else:
            log.warning("the KV snapshot %s cannot be used: it is removed", one.path)
            self._files.discard(one.path)
        return restored

    async def _system(self, runtime: Runtime, system: list[int], cancel: Cancel) -> None:
        """Evaluate the system prompt by itself once, so that its snapshot serves every later session."""
        services, engine = self._services, self._services.engine
        if common_prefix(engine.kv, system) == len(system):
            return
        services.enter(runtime, "prefill")

        def on_progress(done: int, total: int) -> None:
            services.meter.prefilled(done, total)
            services.listener.progress(
                "restore", "DS4: reading the system prompt", done=done, total=total, message=f"{done}/{total} tokens"
            )

        try:
            synced = await engine.sync(system, on_progress=on_progress, cancel=cancel)
        finally:
            services.listener.progress_end("restore")
        if synced.cancelled or not self.enabled or engine.info is None:
            return
        files = self._files
        try:
            path = files.sysprompt(engine.info.fingerprint, system)
            if not path.exists():
                await engine.save(path)
            files.written(path)
        except EngineDied:
            raise
        except (Ds4Error, OSError) as error:
            log.warning("no KV snapshot of the system prompt: %s", error)
