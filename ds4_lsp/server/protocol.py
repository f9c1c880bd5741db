"""JSON-RPC over pygls's dispatcher, with the rules that it leaves open.

What differs from pygls: every malformed request is answered, requests before ``initialize`` and after ``shutdown``
get the errors that LSP asks for, a refusal is not logged as a crash, answers of the client are taken as plain JSON
(so that a wrong answer is an answer, not a lost one), and ``$/cancelRequest`` reaches the operation.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from cattrs import transform_error
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter

from ds4_lsp import __version__
from ds4_lsp.server.transport import frame

log = logging.getLogger(__name__)

T = TypeVar("T")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_INITIALIZED = -32002
REQUEST_FAILED = -32803


class Refusal(JsonRpcException):
    """An error answer that is part of the contract; ``code`` is JSON-RPC's."""


class ClientError(Exception):
    """The client answered a request with an error, or is gone."""

    def __init__(self, message: str, code: int = INTERNAL_ERROR) -> None:
        super().__init__(message)
        self.code = code


class Protocol(LanguageServerProtocol):
    """One connection, on the event loop. ``send`` takes framed bytes."""

    def __init__(self, server: LanguageServer, converter: Any) -> None:
        super().__init__(server, converter)
        self.fm.builtin_features.clear()
        self.send: Callable[[bytes], None] = lambda _data: None
        self.on_cancel: Callable[[int | str], bool] = lambda _id: False
        """Told of ``$/cancelRequest``; whether it knows the request."""
        self.raw_initialize: dict[str, Any] = {}
        self.initialized = False
        self.was_answered: Callable[[int | str], bool] = lambda _id: False
        """Asked once of a request that succeeded: whether the client has its answer already."""
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._requests = 0

    def structured(self, value: Any, kind: type[T]) -> T:
        """A value of the LSP library's ``kind`` from plain JSON."""
        result: T = self._converter.structure(value, kind)
        return result

    def add(self, method: str, handler: Callable[..., Any]) -> None:
        """Let ``handler`` take the requests or notifications of that method."""
        self.fm.add_builtin_feature(method, handler)

    # --- incoming -------------------------------------------------------------------------------------------------

    @property
    def shutdown_requested(self) -> bool:
        return self._shutdown

    def refuse_requests(self) -> None:
        """From now on only ``exit`` is served."""
        self._shutdown = True

    def receive(self, message: Any) -> None:
        """Handle one parsed message. Never raises."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self._refuse(None, INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.")
        elif "id" in message and not _is_id(message["id"]):
            if "method" in message:
                self._refuse(None, INVALID_REQUEST, "The id is neither a string nor a whole number.")
        elif "method" not in message:
            if "id" in message and ("result" in message or "error" in message):
                self._answered(message)
            else:
                self._refuse(message.get("id"), INVALID_REQUEST, "The message has no method and is no answer.")
        elif not isinstance(message["method"], str):
            self._refuse(message.get("id"), INVALID_REQUEST, "The method is not a string.")
        elif "id" in message and (problem := self._out_of_turn(message["method"])) is not None:
            self._refuse(message["id"], *problem)
        elif "id" in message or self.initialized or message["method"] == types.EXIT:
            self._dispatch(message)

    def _out_of_turn(self, method: str) -> tuple[int, str] | None:
        if self._shutdown:
            return INVALID_REQUEST, "The server is shutting down."
        if not self.initialized and method != types.INITIALIZE:
            return NOT_INITIALIZED, "The first request has to be initialize."
        if self.initialized and method == types.INITIALIZE:
            return INVALID_REQUEST, "The server is initialized already."
        return None

    def _dispatch(self, message: dict[str, Any]) -> None:
        if message["method"] == types.INITIALIZE:
            message = self._plain_initialize(message)
        try:
            structured = self._converter.structure(message, self._message_type(message))
        except Exception as error:
            reason = "; ".join(transform_error(error, path="params"))
            if "id" in message:
                self._refuse(message["id"], INVALID_PARAMS, f"{message['method']}: {reason}")
            else:
                log.warning("the notification %s is malformed: %s", message["method"], reason)
            return
        self.handle_message(structured)

    def _message_type(self, message: dict[str, Any]) -> Any:
        from pygls.protocol import JsonRPCNotification, JsonRPCRequestMessage

        fallback = JsonRPCRequestMessage if "id" in message else JsonRPCNotification
        message.setdefault("params", None)
        return self.get_message_type(message["method"]) or fallback

    def _plain_initialize(self, message: dict[str, Any]) -> dict[str, Any]:
        """Keep the parameters for :mod:`ds4_lsp.server.client`; give the library the part that cannot surprise it."""
        params = message.get("params")
        self.raw_initialize = params if isinstance(params, dict) else {}
        self.initialized = True
        return message | {"params": {"processId": None, "rootUri": None, "capabilities": {}}}

    def bad_json(self, reason: str) -> None:
        self._refuse(None, PARSE_ERROR, f"The message is not JSON: {reason}")

    def _refuse(self, msg_id: Any, code: int, message: str) -> None:
        log.warning("refused: %s", message)
        self._write({"id": msg_id, "error": {"code": code, "message": message}})

    def _handle_cancel_notification(self, msg_id: int | str) -> None:
        # The request may be right ahead of its cancel: its handler's task has to take its first step before.
        asyncio.get_running_loop().call_soon(self._cancel_request, msg_id)

    def _cancel_request(self, msg_id: int | str) -> None:
        if not self.on_cancel(msg_id):
            super()._handle_cancel_notification(msg_id)

    def _send_handler_result(self, future: Future[Any], *, msg_id: int | str) -> None:
        self._request_futures.pop(msg_id, None)
        if future.cancelled():
            cancelled = types.LSPErrorCodes.RequestCancelled.value
            self._write({"id": msg_id, "error": {"code": cancelled, "message": "The request was cancelled."}})
            return
        error = future.exception()
        if error is None:
            if not self.was_answered(msg_id):
                self._send_response(msg_id, result=future.result())
        elif isinstance(error, JsonRpcException):
            log.info("request %s refused: %s", msg_id, error.message)
            self._send_response(msg_id, error=error.to_response_error())
        else:
            log.error("request %s failed", msg_id, exc_info=error)
            text = f"Internal error: {type(error).__name__}: {error}"
            self._write({"id": msg_id, "error": {"code": INTERNAL_ERROR, "message": text}})

    # --- outgoing -------------------------------------------------------------------------------------------------

    def _send_data(self, data: Any) -> None:
        self.send(frame(json.dumps(data, default=self._serialize_message)))

    def _write(self, message: dict[str, Any]) -> None:
        self._send_data({"jsonrpc": "2.0", **message})

    def tell(self, method: str, params: Any) -> None:
        """Send a notification; ``params`` are JSON values."""
        self._write({"method": method, "params": params})

    async def ask(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result, plain JSON. Raises ``ClientError``.

        Cancelling the wait tells the client (``$/cancelRequest``); an answer that comes later is ignored.
        """
        self._requests += 1
        msg_id = f"ds4-{self._requests}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[msg_id] = answer
        self._write({"id": msg_id, "method": method, "params": params})
        try:
            return await answer
        except asyncio.CancelledError:
            self.tell(types.CANCEL_REQUEST, {"id": msg_id})
            raise
        finally:
            self._answers.pop(msg_id, None)

    def _answered(self, message: dict[str, Any]) -> None:
        answer = self._answers.get(str(message.get("id")))
        if answer is None or answer.done():
            log.debug("an answer that nobody waits for: %s", message.get("id"))
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
        else:
            detail = error if isinstance(error, dict) else {}
            code = detail.get("code")
            answer.set_exception(
                ClientError(str(detail.get("message", error)), code if isinstance(code, int) else INTERNAL_ERROR)
            )

    def disconnected(self) -> None:
        """Every wait for the client ends."""
        for answer in list(self._answers.values()):
            if not answer.done():
                answer.set_exception(ClientError("the client is gone"))


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


class Server(LanguageServer):
    """pygls's server, as far as its dispatcher needs one."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        """To the log; the default would put every internal error into a window of the user's."""
        log.error("%s: %s", getattr(source, "__name__", source), error)


def new_protocol() -> Protocol:
    """A connection without a transport."""
    server = Server("ds4-lsp", __version__, protocol_cls=Protocol, converter_factory=default_converter)
    protocol = server.protocol
    assert isinstance(protocol, Protocol)
    return protocol
