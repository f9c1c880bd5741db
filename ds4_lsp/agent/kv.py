"""KV snapshots: so that what was evaluated once is not evaluated again after a restart or a switch.

A snapshot is an optimisation. Whatever is wrong with one is logged and costs a prefill, never a turn.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from ds4_lsp.agent import retokenised
from ds4_lsp.agent.compaction_host import common_prefix
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.ports import Cancel, ModelInfo
from ds4_lsp.protocol.errors import ContextTooSmall, EngineDied, StorageFailed
from ds4_lsp.session import store
from ds4_lsp.session.meta import KV_NAME, has_snapshot
from ds4_lsp.session.snapshots import Snapshot
from ds4_lsp.session.snapshots import Snapshots as Files

log = logging.getLogger(__name__)

LEAST_GAIN = 64
"""Tokens that a snapshot must spare to be worth reading."""
LEAST_TALK = 2048
"""Tokens that a conversation of a few short turns needs beside the system prompt."""


class Snapshots:
    """Restores before a session's first use of the engine, and writes between turns. Runs with the engine free."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._wanted: set[str] = set()
        self._writing: dict[asyncio.Task[None], Path] = {}

    @property
    def _files(self) -> Files:
        return Files(self._services.settings().sessions.base or store.default_base())

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
        services.meter.uses(runtime.id, len(tokens))
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
            await self.copy(runtime)

    async def settle(self, within: Path | None = None) -> None:
        """Wait for what is still being written; with ``within`` only for what is written below that directory."""
        while writing := [task for task, path in self._writing.items() if within is None or within in path.parents]:
            await asyncio.wait(writing)

    async def save(self, runtime: Runtime) -> bool:
        """Write what the KV holds of the session's transcript; False when there is nothing of it or it failed."""
        writing = await self.copy(runtime)
        return writing is not None and await self.written(writing)

    async def copy(self, runtime: Runtime) -> asyncio.Task[None] | None:
        """Begin a snapshot of what the KV holds of the session's transcript, and return when the engine may go on: from
        then on only the disk is written. None when there is nothing of it, or it failed already."""
        engine = self._services.engine
        if not self.enabled or engine.info is None or runtime.transcript is None or runtime.session.closed:
            return None
        tokens = await runtime.transcript.tokens(runtime.session.surface)
        kv = list(engine.kv)
        if not kv or common_prefix(kv, tokens) < len(kv):
            return None
        try:
            path = self._files.session(runtime.session.kv_dir, engine.info.fingerprint, kv)
        except StorageFailed as error:
            log.warning("no KV snapshot of session %s: %s", runtime.id, error)
            return None
        return await self._begin(path)

    async def written(self, writing: asyncio.Task[None]) -> bool:
        """Wait until the file is there; False when it could not be written."""
        await asyncio.wait({writing})
        return not writing.cancelled() and writing.exception() is None

    async def _begin(self, path: Path) -> asyncio.Task[None]:
        released = asyncio.Event()
        writing = asyncio.ensure_future(self._write(path, released))
        self._writing[writing] = path
        writing.add_done_callback(lambda task: self._ended(path, task))
        copied = asyncio.ensure_future(released.wait())
        try:
            await asyncio.wait({writing, copied}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            copied.cancel()
        return writing

    async def _write(self, path: Path, released: asyncio.Event) -> None:
        if not await asyncio.to_thread(path.exists):
            await self._services.engine.save(path, released.set)
        self._files.written(path)

    def _ended(self, path: Path, writing: asyncio.Task[None]) -> None:
        self._writing.pop(writing, None)
        error = None if writing.cancelled() else writing.exception()
        if error is not None:
            log.warning("the KV snapshot %s could not be written: %s", path, error)

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
            # Looked for, and not made: the session's directory may be gone.
            own = files.find(runtime.session.directory / KV_NAME, fingerprint, tokens)
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
        except ContextTooSmall as error:
            if engine.info is None:
                raise
            raise ContextTooSmall(_too_small(len(system), engine.info), **error.data) from error
        finally:
            services.listener.progress_end("restore")
        if synced.cancelled or not self.enabled or engine.info is None:
            return
        try:
            path = self._files.sysprompt(engine.info.fingerprint, system)
        except StorageFailed as error:
            log.warning("no KV snapshot of the system prompt: %s", error)
            return
        writing = await self._begin(path)
        if writing.done() and isinstance(writing.exception(), EngineDied):
            await writing


def _too_small(system: int, info: ModelInfo) -> str:
    """``system``: tokens that the system prompt needs."""
    least = system + LEAST_TALK
    text = f"The instructions for the model need {system} tokens, the context has {info.context_size}. "
    if 0 < info.trained_context < least:
        return text + f"{info.name} was trained for {info.trained_context}: choose a model with at least {least}."
    return text + f"Raise ds4.model.contextSize to at least {least}, and load the model again."
