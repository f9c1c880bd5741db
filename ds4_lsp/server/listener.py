"""``ports.Listener``: what a session does, taken on the worker's thread and told to the client on the LSP loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from ds4_lsp.protocol.events import Event
from ds4_lsp.server.client import Client
from ds4_lsp.server.events import SLOW_CLIENT, EventBuffer, pause
from ds4_lsp.server.progress import Bar, Progress, Report
from ds4_lsp.server.protocol import ClientError, Protocol
from ds4_lsp.server.worker import Loop

log = logging.getLogger(__name__)

MESSAGE_TYPES = {"error": 1, "warning": 2, "info": 3}
Health = tuple[Literal["ok", "warning", "error"], bool, str | None]
ANSWER_SHOWN = 4000
"""Code points of an answer shown in a message window."""
ANSWERS_KEPT = 4


class ServerListener:
    """``backlog``: bytes that the client has not read yet."""

    def __init__(
        self,
        protocol: Protocol,
        client: Callable[[], Client],
        progress: Progress,
        loop: Loop,
        backlog: Callable[[], int],
    ) -> None:
        self._protocol = protocol
        self._client = client
        self._progress = progress
        self._loop = loop
        self._backlog = backlog
        self._buffer = EventBuffer(lambda: loop.post(self._schedule))
        self._timer: asyncio.TimerHandle | None = None
        self._sent = 0.0
        """When events were sent last, on the loop's clock."""
        self._prompts: deque[tuple[str, Bar]] = deque()
        self._turn_bar: Bar | None = None
        self._texts: dict[tuple[str, int], list[str]] = {}
        """Of the running turns, for a client that is not sent events."""
        self._answers: dict[tuple[str, int], str] = {}
        """Of the latest turns that ended before it was known whether to show their answers."""
        self._shown: set[tuple[str, int]] = set()
        self._status: dict[str, Any] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.health: Callable[[], Health] = lambda: ("ok", True, None)
        """The agent's, asked on the worker when its state changes."""

    # --- ports.Listener, on the worker ------------------------------------------------------------------------------

    def event(self, session_id: str, turn: int, kind: str, *, seq: int | None = None, **data: Any) -> None:
        if kind == "turn.start":
            self._loop.post(self._turn_started, str(data.get("text", "")))
        if kind == "state":
            self._loop.post(self._health_changed, self.health())
        self._buffer.add(Event(session_id=session_id, turn=turn, kind=kind, seq=seq, data=data))

    def progress(self, key: str, title: str, *, done: int = 0, total: int = 0, message: str = "") -> None:
        self._loop.post(self._update, key, title, Report(done, total, message))

    def progress_end(self, key: str, message: str = "") -> None:
        # A bar has one line. What takes more is told where it can be read.
        self._loop.post(self._end, key, "failed" if "\n" in message else message)

    def message(self, level: Literal["error", "warning", "info"], text: str) -> None:
        self._loop.post(self.show, level, text)

    # --- on the LSP loop ----------------------------------------------------------------------------------------------

    def show(self, level: Literal["error", "warning", "info"], text: str) -> None:
        """``window/showMessage``."""
        self._protocol.tell("window/showMessage", {"type": MESSAGE_TYPES[level], "message": text})

    def prompt_waits(self, text: str, bar: Bar) -> None:
        """A prompt with a progress token of its own was received: its turn is shown there."""
        self._prompts.append((text, bar))

    def prompt_answered(self, bar: Bar) -> None:
        self._prompts = deque(entry for entry in self._prompts if entry[1] is not bar)
        if self._turn_bar is bar:
            self._turn_bar = None

    def show_answer_of(self, session_id: str, turn: int) -> None:
        """Show the turn's text in a window when it ends, to a client that has no other way to show it."""
        if self._client().events:
            return
        answer = self._answers.pop((session_id, turn), None)
        if answer is None:
            self._shown.add((session_id, turn))
        else:
            self.show("info", answer)

    def show_document(self, uri: str) -> None:
        """``window/showDocument`` for what a command made, to a client that has no view of its own for it."""
        client = self._client()
        if client.show_document and not client.events:
            task = asyncio.get_running_loop().create_task(self._show_document(uri))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _show_document(self, uri: str) -> None:
        try:
            await self._protocol.ask("window/showDocument", {"uri": uri, "takeFocus": True})
        except ClientError as error:
            log.info("the client did not show %s: %s", uri, error)

    def flush(self) -> None:
        """Send every event taken so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        heard = self._client().events
        self._sent = asyncio.get_running_loop().time()
        for event in self._buffer.take():
            if heard:
                self._protocol.tell("ds4/event", event.wire())
            else:
                self._collect(event)

    def _schedule(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(pause(self._sent, loop.time()), self._due)

    def _due(self) -> None:
        self._timer = None
        if self._backlog() > SLOW_CLIENT:
            self._sent = asyncio.get_running_loop().time()
            self._schedule()
        else:
            self.flush()

    def _turn_started(self, text: str) -> None:
        # Turns run in the order of their prompts: the oldest waiting one with this text is the one.
        self._turn_bar = next((bar for waiting, bar in self._prompts if waiting == text), None)

    def _update(self, key: str, title: str, report: Report) -> None:
        self._progress.update(key, title, report, self._turn_bar if key == "turn" else None)

    def _end(self, key: str, message: str) -> None:
        self.flush()  # a bar does not end before what it was about is told
        self._progress.end(key, message)
        if key == "turn":
            self._turn_bar = None

    def _collect(self, event: Event) -> None:
        key = (event.session_id, event.turn)
        if event.kind == "turn.start":
            self._texts[key] = []
        elif event.kind == "text":
            self._texts.setdefault(key, []).append(str(event.data.get("delta", "")))
        elif event.kind == "notice" and key in self._texts:
            self._texts[key].append(f"\n\n{event.data.get('text', '')}\n\n")
        elif event.kind == "tool.start":
            self._texts.setdefault(key, []).append("\n")
        elif event.kind == "turn.end":
            text = "".join(self._texts.pop(key, ())).strip() or str(event.data.get("error") or "Done.")
            self._answered(key, text if len(text) <= ANSWER_SHOWN else text[:ANSWER_SHOWN] + "…")

    def _answered(self, key: tuple[str, int], answer: str) -> None:
        if key in self._shown:
            self._shown.discard(key)
            self.show("info", answer)
            return
        # A turn may be over before the reply to its prompt says which turn it was.
        self._answers[key] = answer
        if len(self._answers) > ANSWERS_KEPT:
            del self._answers[next(iter(self._answers))]

    def _health_changed(self, health: Health) -> None:
        """``experimental/serverStatus``, as rust-analyzer's clients know it; once per change."""
        status: dict[str, Any] = {"health": health[0], "quiescent": health[1]}
        if health[2] is not None:
            status["message"] = health[2]
        if self._client().server_status and status != self._status:
            self._status = status
            self._protocol.tell("experimental/serverStatus", status)
