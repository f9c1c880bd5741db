"""The client's end of the exchange: requests and their replies, who holds the engine, what the KV holds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ds4_lsp.engine.child import Child
from ds4_lsp.engine.death import Death, Deaths, Planned
from ds4_lsp.engine.frames import FrameError, decode_tokens, fingerprint
from ds4_lsp.ports import Cancel, OnProgress, OnTokens
from ds4_lsp.protocol.errors import Busy, Ds4Error, EngineDied, InvalidRequest, NoModel

log = logging.getLogger("ds4_lsp.engine")

LOAD_CANCEL_SECONDS = 1.0
"""llama.cpp does not look at a cancel while it makes the context: after that time the process is killed."""

Reply: TypeAlias = "tuple[dict[str, Any], array[int]]"
"""A reply's header and tokens."""

_ERRORS = {error.code: error for error in Ds4Error.__subclasses__()}


@dataclass
class Operation:
    """A long operation. ``stream``: the tokens whose prefix the KV will hold: the request's, then those sampled."""

    id: int
    kind: str
    future: asyncio.Future[Reply]
    stream: array[int] = field(default_factory=lambda: array("i"))
    asked: int = 0
    """Tokens of the request at the head of ``stream``."""
    held: int | None = None
    """Tokens of ``stream`` in the KV, as last reported; None before the first report."""
    texts: list[str] = field(default_factory=list)
    on_progress: OnProgress | None = None
    on_tokens: OnTokens | None = None
    on_released: Callable[[], None] | None = None
    """The engine is free again, though the operation is not over."""
    failure: Exception | None = None
    """What a callback raised: the operation is cancelled, and the caller gets it."""


class Exchange:
    """One engine process at a time, one long operation at a time. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self.ready = False
        """A model is loaded. Set by whoever loads it; the end of the process clears it."""
        self._mirror = array("i")
        self._mirror_known = True
        self._operation: Operation | None = None
        self._unfinished: dict[int, Operation] = {}
        self._asked: dict[int, asyncio.Future[Reply]] = {}
        self._last_id = 0
        self.stops = 0
        """How often the process was asked to end. Who starts one must not miss that."""
        self.deaths = Deaths()
        self.evidence: object = None
        """What the running load depends on, or the last one. Set by whoever loads."""

    @property
    def planned(self) -> Planned | None:
        """What is loaded, or being loaded."""
        return self._child.planned if self._child is not None else None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    @property
    def held(self) -> int:
        """Tokens in the KV, as last reported."""
        operation = self._operation
        return len(self._mirror) if operation is None or operation.held is None else operation.held

    @property
    def kv(self) -> array[int]:
        """The tokens in the KV, as last reported."""
        operation = self._operation
        if operation is not None and operation.held is not None:
            return operation.stream[: operation.held]
        return self._mirror[:]

    # --- the process ----------------------------------------------------------------------------------------------

    async def start(self, stops: int) -> None:
        """Start a process, in place of the one there is. Raises ``EngineDied`` when it is stopped meanwhile;
        ``stops``: as it was when that became the aim."""
        if self.stops != stops:
            raise EngineDied("the engine was stopped while it started")
        await self.stop()
        stops = self.stops
        self._child = await Child.start(self._on_message, self._on_end)
        if self.stops != stops:
            await self.stop()
            raise EngineDied("the engine was stopped while it started")

    async def stop(self) -> None:
        """End the process, whatever it does."""
        self.stops += 1
        if self._child is not None:
            await self._child.stop()

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    async def known_kv(self) -> array[int]:
        """The tokens in the KV; asked of the engine where the mirror was found wrong."""
        if not self._mirror_known:
            _, self._mirror = await self.ask("kv")
            self._mirror_known = True
        return self._mirror

    # --- requests and replies -------------------------------------------------------------------------------------

    def begin(self, kind: str, *, needs_model: bool = True) -> Operation:
        """Take the engine for a long operation. Raises ``Busy`` and ``NoModel``."""
        if self._operation is not None:
            raise Busy(f"the engine is busy ({self._operation.kind}): wait, or interrupt it")
        if needs_model and not self.ready:
            raise NoModel("no model is loaded")
        self._last_id += 1
        operation = Operation(self._last_id, kind, asyncio.get_running_loop().create_future())
        self._operation = operation
        return operation

    def release(self, operation: Operation) -> None:
        if self._operation is operation:
            self._operation = None

    @contextlib.contextmanager
    def releasing(self, operation: Operation) -> Iterator[None]:
        """Around what comes before an operation's request is sent."""
        try:
            yield
        except BaseException:
            self.release(operation)
            raise

    async def ask(self, kind: str, **fields: Any) -> Reply:
        if not self.ready or self._child is None:
            raise NoModel("no model is loaded")
        self._last_id += 1
        identity = self._last_id
        future = self._asked[identity] = asyncio.get_running_loop().create_future()
        try:
            self._child.send({"op": kind, "id": identity} | fields)
            reply: Reply = await future
            return reply
        except FrameError as error:
            raise InvalidRequest(str(error)) from None
        finally:
            self._asked.pop(identity, None)

    async def run(self, operation: Operation, fields: dict[str, Any], tokens: array[int], cancel: Cancel) -> Reply:
        """Send a long operation and wait for its reply. The engine stays taken until the reply comes, even when the
        caller's task is cancelled; that cancels the operation too."""
        with self.releasing(operation):
            child = self._child
            if child is None:
                raise EngineDied("the engine process has ended; the next load starts a new one")
            try:
                # A cancel that follows could come after a short operation: one that was set before goes with it.
                about = {"op": operation.kind, "id": operation.id, "cancelled": cancel.is_set}
                child.send(about | fields, tokens.tobytes())
            except FrameError as error:
                raise InvalidRequest(str(error)) from None
        self._unfinished[operation.id] = operation
        forget = cancel.on_set(lambda: self._cancel(operation))
        try:
            return await asyncio.shield(operation.future)
        except asyncio.CancelledError:
            self._cancel(operation)
            operation.future.add_done_callback(_retrieve)
            raise
        finally:
            forget()

    def _cancel(self, operation: Operation) -> None:
        child = self._child
        if child is None or operation.id not in self._unfinished:
            return
        child.send({"op": "cancel", "id": operation.id})
        if operation.kind == "load":
            timer = asyncio.get_running_loop().call_later(LOAD_CANCEL_SECONDS, child.kill)
            operation.future.add_done_callback(lambda _future: timer.cancel())

    def _on_message(self, header: dict[str, Any], payload: bytes) -> None:
        identity, event = header["id"], header["ev"]
        tokens = decode_tokens(payload)
        asked = self._asked.get(identity)
        if asked is not None:
            _settle(asked, header, tokens)
            return
        operation = self._unfinished.get(identity)
        if operation is None:
            return
        if event == "progress":
            self._on_progress(operation, header)
        elif event == "planned":
            if self._child is not None:
                self._child.planned = Planned(**header["plan"])
        elif event == "tokens":
            self._on_tokens(operation, header["text"], header["kv"], tokens)
        elif event == "released":
            self._note_kv(operation, header["kv"])
            self.release(operation)
            if operation.on_released is not None:
                self._call_back(operation, operation.on_released)
        else:
            self._finish(operation, header, tokens)

    def _on_progress(self, operation: Operation, header: dict[str, Any]) -> None:
        operation.held = header.get("kv")
        if operation.on_progress is not None:
            on_progress = operation.on_progress
            self._call_back(operation, lambda: on_progress(header["done"], header["total"]))

    def _on_tokens(self, operation: Operation, text: str, held: int, tokens: array[int]) -> None:
        operation.held = held
        operation.stream.extend(tokens)
        operation.texts.append(text)
        if operation.on_tokens is not None:
            on_tokens = operation.on_tokens
            self._call_back(operation, lambda: on_tokens(tokens.tolist(), text))

    def _call_back(self, operation: Operation, function: Callable[[], None]) -> None:
        if operation.failure is not None:
            return
        try:
            function()
        except Exception as error:
            operation.failure = error
            self._cancel(operation)

    def _finish(self, operation: Operation, header: dict[str, Any], tokens: array[int]) -> None:
        del self._unfinished[operation.id]
        # A save that was released says nothing of the KV any more.
        if self._operation is operation:
            self._note_kv(operation, header.get("kv"))
        # A load is over when the client knows the model.
        if operation.kind != "load":
            self.release(operation)
        if operation.failure is not None:
            operation.future.set_exception(operation.failure)
        else:
            _settle(operation.future, header, tokens)

    def _note_kv(self, operation: Operation, kv: list[int] | None) -> None:
        """Follow what the engine says that its KV holds: a prefix of the operation's tokens, or of what was there."""
        operation.held = None
        length = kv[0] if kv is not None else 0
        for known in (operation.stream, self._mirror):
            if len(known) >= length and (kv is None or fingerprint(known[:length]) == kv):
                self._mirror = known[:length]
                return
        log.error("the engine's KV of %d tokens is not what %s asked for: it will be read back", length, operation.kind)
        self._mirror, self._mirror_known = array("i"), False

    def _on_end(self, death: Death | None) -> None:
        self._child = None
        self.ready = False
        self._mirror, self._mirror_known = array("i"), True
        why = "The engine was stopped." if death is None else self.deaths.note(death, self.evidence)
        if death is not None:
            log.error("%s", " ".join(why.splitlines()))
        error = EngineDied(why)
        waiting = [operation.future for operation in self._unfinished.values()] + list(self._asked.values())
        for operation in list(self._unfinished.values()):
            operation.held = None
            self.release(operation)
        self._unfinished.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(error)


def _retrieve(future: asyncio.Future[Reply]) -> None:
    """Nobody waits for the result any more; an error in it must not be reported as never retrieved."""
    if not future.cancelled():
        future.exception()


def _settle(future: asyncio.Future[Reply], header: dict[str, Any], tokens: array[int]) -> None:
    if future.done():
        return
    if header["ev"] == "error":
        error = _ERRORS.get(header["code"], Ds4Error)
        future.set_exception(error(header["message"], **header["data"]))
    else:
        future.set_result((header, tokens))
