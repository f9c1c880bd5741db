"""The engine process: a reader thread that is always at hand, a tokenizer thread, and the main thread at the model."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import resource
import socket
import sys
import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ds4_lsp.engine.frames import Channel, FrameError, decode_tokens
from ds4_lsp.protocol.errors import Ds4Error, NoModel

if TYPE_CHECKING:
    from ds4_lsp.engine.operations import Operations


@dataclass
class Request:
    """One request. ``cancelled`` is set by the reader thread, for this request alone."""

    id: int
    kind: str
    fields: dict[str, Any]
    tokens: array[int]
    cancelled: threading.Event = field(default_factory=threading.Event)


class Process:
    """Routes requests: ``cancel``, ``ping`` and the end of the stream are handled at once by the reader."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._long: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._texts: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending: dict[int, Request] = {}
        self._running: Request | None = None
        self._operations: Operations | None = None

    def run(self) -> None:
        """Never returns: the process ends when the stream does."""
        # The reader comes first: importing llama.cpp takes a while, and the parent may die meanwhile.
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        from ds4_lsp.engine.operations import Operations

        self._operations = operations = Operations(self.send)
        threading.Thread(target=self._tokenize, args=(operations,), name="tokenizer", daemon=True).start()
        while True:
            request = self._long.get()
            with self._lock:
                self._running = request
                operations.abort.clear()
                if request.cancelled.is_set():
                    operations.abort.set()
            self._serve(request, operations.run)
            with self._lock:
                self._running = None
                self._pending.pop(request.id, None)

    def send(self, request: Request, event: str, fields: dict[str, Any], tokens: array[int] | None = None) -> None:
        """Reply. The process ends when the peer is gone."""
        try:
            self._channel.send(
                {"id": request.id, "ev": event} | fields, tokens.tobytes() if tokens is not None else b""
            )
        except FrameError as error:
            self._channel.send({"id": request.id, "ev": "error", "code": "error", "message": str(error), "data": {}})
        except OSError:
            os._exit(0)

    def _serve(self, request: Request, function: Callable[[Request], None]) -> None:
        try:
            function(request)
        except Ds4Error as error:
            self._fail(request, error.code, error.message, error.data)
        except Exception as error:
            sys.excepthook(type(error), error, error.__traceback__)
            self._fail(request, "error", f"the engine failed: {type(error).__name__}: {error}", {})

    def _fail(self, request: Request, code: str, message: str, data: dict[str, Any]) -> None:
        kv = self._operations.kv() if self._operations is not None and request.kind != "tokenize" else None
        self.send(request, "error", {"code": code, "message": message, "data": data, "kv": kv})

    # --- the reader thread ----------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            while True:
                frame = self._channel.receive()
                if frame is None:
                    break
                self._route(*frame)
        except (OSError, FrameError) as error:
            sys.stderr.write(f"E|the engine stops: {error}\n")
        finally:
            # The parent is gone or broken. Nothing here is worth saving, and the main thread may be inside llama.cpp.
            os._exit(0)

    def _route(self, fields: dict[str, Any], payload: bytes) -> None:
        kind, identity = fields["op"], fields["id"]
        if kind == "cancel":
            self._cancel(identity)
            return
        request = Request(identity, kind, fields, decode_tokens(payload))
        if fields.get("cancelled"):
            request.cancelled.set()
        if kind == "ping":
            self.send(request, "result", {})
        elif kind == "tokenize":
            self._texts.put(request)
        else:
            with self._lock:
                self._pending[identity] = request
            self._long.put(request)

    def _cancel(self, identity: int) -> None:
        with self._lock:
            request = self._pending.get(identity)
            if request is None:
                return
            request.cancelled.set()
            if request is self._running and self._operations is not None:
                self._operations.abort.set()

    # --- the tokenizer thread -------------------------------------------------------------------------------------

    def _tokenize(self, operations: Operations) -> None:
        def serve(request: Request) -> None:
            loaded = operations.loaded
            if loaded is None:
                raise NoModel("no model is loaded")
            tokens = loaded.vocabulary.tokenize((text, special) for text, special in request.fields["segments"])
            self.send(request, "result", {}, tokens)

        while True:
            self._serve(self._texts.get(), serve)


def serve(descriptor: int) -> int:
    """Serve the client at the other end of the socket ``descriptor``."""
    # A crash must not spend seconds on writing gigabytes of core.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    faulthandler.enable()
    os.set_inheritable(descriptor, False)
    Process(Channel(socket.socket(fileno=descriptor))).run()
    return 0
