"""Work-done progress. Every bar that begins ends; percentages only rise; reports are throttled.

Runs on the LSP loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ds4_lsp.server.protocol import ClientError, Protocol

log = logging.getLogger(__name__)

INTERVAL = 0.1
"""Least seconds between two reports of one bar."""

Token = int | str


@dataclass(frozen=True)
class Report:
    """``total`` 0: how much there is to do is not known."""

    done: int = 0
    total: int = 0
    message: str = ""

    @property
    def percentage(self) -> int:
        return max(0, min(100, self.done * 100 // self.total)) if self.total > 0 else 0


class Bar:
    """One token, from ``begin`` to ``end``, each sent once."""

    def __init__(self, protocol: Protocol, token: Token, title: str) -> None:
        self.token = token
        self.title = title
        self.outcome = ""
        """What came of the work that a request's bar showed; told when the bar ends."""
        self._protocol = protocol
        self._percentage = 0
        self._latest = Report()
        self._open = False
        self._ended: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dirty = False

    @property
    def is_open(self) -> bool:
        return self._open and self._ended is None

    def begin(self) -> None:
        """The client knows the token now. Sends what has happened meanwhile, also the end."""
        self._open = True
        self._raise(self._latest)
        self._send({"kind": "begin", "title": self.title, "cancellable": True, **self._figures()})
        self._dirty = False
        if self._ended is not None:
            self._send_end()

    def report(self, report: Report) -> None:
        if self._ended is not None or report == self._latest:
            return
        self._latest = report
        self._dirty = True
        if self._open and self._timer is None:
            self._flush()

    def end(self, message: str = "") -> None:
        """Ends the bar, now or as soon as it has begun. The first end counts."""
        if self._ended is not None:
            return
        self._ended = message
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open:
            self._send_end()

    def _flush(self) -> None:
        self._timer = None
        if not self._dirty or self._ended is not None:
            return
        self._dirty = False
        self._raise(self._latest)
        self._send({"kind": "report", **self._figures()})
        self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._flush)

    def _figures(self) -> dict[str, Any]:
        message = {"message": self._latest.message} if self._latest.message else {}
        return {"percentage": self._percentage} | message

    def _raise(self, report: Report) -> None:
        self._percentage = max(self._percentage, report.percentage)

    def _send_end(self) -> None:
        self._send({"kind": "end", "message": self._ended} if self._ended else {"kind": "end"})

    def _send(self, value: dict[str, Any]) -> None:
        self._protocol.tell("$/progress", {"token": self.token, "value": value})


@dataclass
class Progress:
    """All bars of a connection, by token and by what they are about (the keys of ``Listener.progress``).

    A request that brought a token shows the work of its key in its own bar; other work gets a bar that the server
    creates, where the client has such. ``cancel`` is told the key of a server's bar that the user cancelled.
    """

    protocol: Protocol
    enabled: Callable[[], bool]
    cancel: Callable[[str], None]
    _by_key: dict[str, Bar] = field(default_factory=dict)
    _requests: dict[str, list[Bar]] = field(default_factory=dict)
    _keys: dict[Token, str] = field(default_factory=dict)
    """Of the server's own tokens."""
    _count: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def request(self, token: Token, title: str, key: str | None) -> Bar:
        """The bar of a request's own token, begun. ``key``: the work that it shows."""
        bar = Bar(self.protocol, token, title)
        if key is not None:
            self._requests.setdefault(key, []).append(bar)
        bar.begin()
        return bar

    def answered(self, bar: Bar, message: str = "") -> None:
        """The request of that bar is about to be answered: its token is not valid after that."""
        bar.end(message or bar.outcome)
        for bars in self._requests.values():
            if bar in bars:
                bars.remove(bar)
        self._by_key = {key: known for key, known in self._by_key.items() if known is not bar}

    def update(self, key: str, title: str, report: Report, bar: Bar | None = None) -> None:
        """Begin or update the work ``key``; ``bar`` is the request's that the work is known to belong to."""
        active = self._by_key.get(key)
        if active is None:
            waiting = self._requests.get(key, [])
            active = bar or (waiting[0] if waiting and key != "turn" else self._create(key, title))
            self._by_key[key] = active
        active.report(report)

    def end(self, key: str, message: str) -> None:
        bar = self._by_key.pop(key, None)
        if bar is None:
            return
        if bar.token in self._keys:
            bar.end(message)
            self._keys.pop(bar.token)
        else:
            # A request's bar lives until the reply.
            bar.outcome = message

    def cancelled(self, token: Token) -> bool:
        """The client cancels ``token``; whether it is one of the server's own."""
        key = self._keys.get(token)
        if key is not None:
            self.cancel(key)
        return key is not None

    def close(self) -> None:
        """End every bar: the connection is about to end."""
        for bar in [*self._by_key.values(), *(bar for bars in self._requests.values() for bar in bars)]:
            bar.end()

    def _create(self, key: str, title: str) -> Bar:
        self._count += 1
        bar = Bar(self.protocol, f"ds4/{key}/{self._count}", title)
        self._keys[bar.token] = key
        if self.enabled():
            task = asyncio.get_running_loop().create_task(self._open(bar))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return bar

    async def _open(self, bar: Bar) -> None:
        try:
            await self.protocol.ask("window/workDoneProgress/create", {"token": bar.token})
        except ClientError as error:
            log.info("the client shows no progress: %s", error)
            return
        bar.begin()
