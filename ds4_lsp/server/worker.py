"""The session worker: a thread with an event loop of its own, and the bridges between it and the LSP loop.

The agent blocks its loop for milliseconds at times (a log write, a template); on a loop of its own that never delays
an answer to the client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Loop:
    """An event loop seen from other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def post(self, function: Callable[..., Any], *args: Any) -> None:
        """Run ``function`` there soon, in order. Silently nothing when that loop has ended."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            log.debug("%r came after the end of its loop", function)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start ``coroutine`` there. Cancelling the future cancels it."""
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()
            raise

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await ``coroutine``, run there, from another loop."""
        return await asyncio.wrap_future(self.submit(coroutine))


class Worker(Loop):
    """The worker thread. Daemonic: the end of the process never waits for it."""

    def __init__(self, name: str = "ds4-session") -> None:
        super().__init__(asyncio.new_event_loop())
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
