"""JSON-RPC over a subprocess's stdio, with LSP's framing: one reader task, one writer, futures for replies."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

KEPT_LINES = 40
"""Lines of the server's stderr that are kept for the message when it ends."""

EXIT_GRACE = 3.0
"""Seconds the server gets to end after its stdin is closed; the contract allows it 2."""

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603


class RpcError(Exception):
    """An error reply; ``code`` is JSON-RPC's, ``data`` the server's own (``data["code"]`` names a refusal)."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ServerGone(Exception):
    """The server ended, or was never there; the message carries its exit status and last stderr lines."""


OnNotification = Callable[[str, dict[str, Any]], None]
OnRequest = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Connection:
    """A started server. Handlers run on the loop that called :meth:`start`."""

    def __init__(self, process: asyncio.subprocess.Process, on_notification: OnNotification, on_request: OnRequest):
        self.process = process
        self.errors: deque[str] = deque(maxlen=KEPT_LINES)
        self._on_notification = on_notification
        self._on_request = on_request
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self._gone: str | None = None
        """Why there will be no more replies."""
        self._log: Callable[[str], None] = lambda _line: None
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_errors())]

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        on_notification: OnNotification,
        on_request: OnRequest,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Connection:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=None if environment is None else dict(environment),
                cwd=cwd,
                # The terminal's Ctrl-C is for the client, which decides what it means for the server.
                start_new_session=True,
            )
        except OSError as error:
            raise ServerGone(f"cannot start {command[0]}: {error.strerror}") from error
        return cls(process, on_notification, on_request)

    def on_log(self, log: Callable[[str], None]) -> None:
        """Hear each line of the server's stderr."""
        self._log = log

    def notify(self, method: str, params: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result. Cancelling the wait cancels the request.

        Errors: ``RpcError``, ``ServerGone``.
        """
        if self._gone is not None:
            raise ServerGone(self._gone)
        number = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await future
        except asyncio.CancelledError:
            if self.process.returncode is None:
                self.notify("$/cancelRequest", {"id": number})
            raise
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> int:
        """Close the server's stdin and wait for its end; kill it when it does not end. Returns its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            status = await asyncio.wait_for(self.process.wait(), EXIT_GRACE)
        except TimeoutError:
            self.process.kill()
            status = await self.process.wait()
        for task in (*self._tasks, *self._answering.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return status

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        if self.process.stdin.is_closing():
            raise ServerGone("the server's input is closed")
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while (message := await _frame(self.process.stdout)) is not None:
                self._dispatch(message)
            self._gone = await self._obituary()
        except ValueError as error:
            self._gone = f"the server sent something that is not LSP: {error}"
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ServerGone(self._gone))

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            text = line.decode(errors="replace").rstrip()
            self.errors.append(text)
            self._log(text)

    async def _obituary(self) -> str:
        """How the server ended, and what it said last."""
        status: int | None
        try:
            status = await asyncio.wait_for(self.process.wait(), EXIT_GRACE)
            await asyncio.wait_for(asyncio.shield(self._tasks[1]), 1.0)
        except TimeoutError:
            status = self.process.returncode
        if status is None:
            how = "it closed its output"
        elif status < 0:
            how = f"killed by {signal.Signals(-status).name}"
        else:
            how = f"exit status {status}"
        return "\n".join([f"the server ended ({how})", *list(self.errors)[-10:]])

    def _dispatch(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if method is None:
            self._resolve(message)
        elif number is not None:
            self._answering[number] = asyncio.create_task(self._answer(number, method, message.get("params") or {}))
        elif method == "$/cancelRequest":
            if task := self._answering.get((message.get("params") or {}).get("id")):
                # Behind its first step: a task that is cancelled before that never answers.
                asyncio.get_running_loop().call_soon(task.cancel)
        else:
            self._on_notification(method, message.get("params") or {})

    def _resolve(self, message: dict[str, Any]) -> None:
        future = self._waiting.get(message.get("id") or 0)
        if future is None or future.done():
            return
        if error := message.get("error"):
            future.set_exception(RpcError(error.get("code", 0), error.get("message", ""), error.get("data")))
        else:
            future.set_result(message.get("result"))

    async def _answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        try:
            reply["result"] = await self._on_request(method, params)
        except asyncio.CancelledError:
            reply["result"] = None
        except RpcError as error:
            reply["error"] = {"code": error.code, "message": error.message}
        except Exception as error:  # a request must be answered whatever happens
            reply["error"] = {"code": INTERNAL_ERROR, "message": f"{type(error).__name__}: {error}"}
        finally:
            self._answering.pop(number, None)
        if self.process.stdin is not None and not self.process.stdin.is_closing():
            self._send(reply)


async def _frame(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None at the end of the stream. ``ValueError``: what came is not a frame."""
    length: int | None = None
    while (line := await reader.readline()) != b"\r\n":
        if not line:
            return None
        name, separator, value = line.partition(b":")
        if not separator:
            raise ValueError(repr(line[:80]))
        if name.strip().lower() == b"content-length":
            length = int(value)
    if length is None:
        raise ValueError("a header without Content-Length")
    try:
        message = json.loads(await reader.readexactly(length))
    except asyncio.IncompleteReadError:
        return None
    if not isinstance(message, dict):
        raise ValueError("a message that is not an object")
    return message
