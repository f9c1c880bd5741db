"""A language client for tests: plain asyncio, plain JSON, and able to misbehave.

It shares no code with the server, so that neither's mistakes hide the other's. Everything received is recorded in
order; requests of the server are answered by ``handlers``, which a test may replace by ones that lie, dawdle or never
answer.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
import re
import signal
import sys
import zlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

TIMEOUT = 20.0
"""Seconds a test waits for what should take milliseconds: the machine may be busy."""

MARK = "\ufeff"
LINE_END = re.compile(r"\r\n|\n|\r")
UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

PLAIN: dict[str, Any] = {
    "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}, "workspaceFolders": True},
    "window": {"workDoneProgress": True, "showMessage": {"messageActionItem": {}}},
    "textDocument": {"codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": [""]}}}},
}
"""Capabilities of an editor without a plugin."""
GUARDED: dict[str, Any] = PLAIN | {
    "workspace": {
        "applyEdit": True,
        "workspaceEdit": {
            "documentChanges": True,
            "resourceOperations": ["create"],
            "changeAnnotationSupport": {"groupsOnLabel": True},
        },
    },
    "experimental": {
        "ds4": {"events": True, "guardedApply": True, "saveDocument": True},
        "serverStatusNotification": True,
    },
}
"""Capabilities of an editor with a ds4 plugin."""


class ResponseError(Exception):
    """The server answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Disconnected(Exception):
    """The server's output ended."""


def tag_of(text: str) -> str:
    """CRC-32 of a buffer's text, to which a byte order mark does not belong."""
    return f"{zlib.crc32(text.removeprefix(MARK).encode('utf-8', 'surrogatepass')):08x}"


def offset_of(text: str, line: int, character: int, encoding: str) -> int:
    """The offset of a position, counted unit by unit."""
    start = 0
    for _ in range(line):
        found = LINE_END.search(text, start)
        if found is None:
            return len(text)
        start = found.end()
    end = found.start() if (found := LINE_END.search(text, start)) else len(text)
    codec, size = UNITS[encoding]
    units = 0
    for offset in range(start, end):
        units += len(text[offset].encode(codec, "surrogatepass")) // size
        if units > character:
            return offset
    return end


def position_of(text: str, offset: int, encoding: str) -> dict[str, int]:
    """The position of an offset that is not inside a CRLF."""
    ends = [found.end() for found in LINE_END.finditer(text) if found.end() <= offset]
    start = ends[-1] if ends else 0
    codec, size = UNITS[encoding]
    return {"line": len(ends), "character": len(text[start:offset].encode(codec, "surrogatepass")) // size}


class Client:
    """One server process and the editor in front of it."""

    def __init__(self, *command: str, env: Mapping[str, str | None] | None = None, cwd: Path | None = None) -> None:
        self.command = command or (sys.executable, "-m", "ds4_lsp")
        given = os.environ | {"GOMP_SPINCOUNT": "1000"} | (env or {})
        self.env = {name: value for name, value in given.items() if value is not None}
        """A variable given as None is not there."""
        self.cwd = cwd
        self.received: list[dict[str, Any]] = []
        self.stray = b""
        """Bytes on the server's stdout that are not framed messages."""
        self.stderr = b""
        self.buffers: dict[str, tuple[int, str]] = {}
        self.encoding = "utf-16"
        self.server: dict[str, Any] = {}
        """The result of ``initialize``."""
        self.handlers: dict[str, Callable[[Any], Any]] = {
            "window/workDoneProgress/create": lambda _params: None,
            "client/registerCapability": lambda _params: None,
            "workspace/configuration": lambda params: [None for _ in params["items"]],
            "workspace/applyEdit": lambda params: self.apply(params["edit"]),
            "ds4/applyGuardedEdit": self.apply_guarded,
            "ds4/saveDocument": lambda params: {"saved": self.save(params["uri"])},
        }
        self._ids = itertools.count(1)
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.process: asyncio.subprocess.Process

    # --- the process --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self.command, stdin=pipe, stdout=pipe, stderr=pipe, env=self.env, cwd=self.cwd, limit=1 << 26
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._spawn(self._read(self.process.stdout))
        self._spawn(self._drain(self.process.stderr))

    async def connect(self, host: str, port: int) -> None:
        """Talk to a server on a socket instead of one started here."""
        reader, self._socket = await asyncio.open_connection(host, port, limit=1 << 26)
        self._spawn(self._read(reader))

    async def initialize(self, capabilities: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """The handshake; ``processId`` is this process unless told otherwise."""
        given = {
            "processId": os.getpid(),
            "rootUri": None,
            "capabilities": PLAIN if capabilities is None else capabilities,
        }
        self.server = await self.request("initialize", given | params)
        self.encoding = self.server["capabilities"].get("positionEncoding", "utf-16")
        self.notify("initialized", {})
        return self.server

    async def shutdown(self) -> int:
        """End in order; the exit code."""
        await self.request("shutdown", None)
        self.notify("exit", None)
        return await asyncio.wait_for(self.process.wait(), TIMEOUT)

    async def close(self) -> None:
        """End somehow: for the tear-down of a test."""
        if hasattr(self, "process") and self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        if hasattr(self, "process"):
            await self.process.wait()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "process"):
            self.process._transport.close()  # type: ignore[attr-defined]

    # --- messages -----------------------------------------------------------------------------------------------------

    def write(self, message: Any) -> None:
        body = json.dumps(message).encode()
        self.write_raw(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def write_raw(self, data: bytes) -> None:
        writer = self._socket if hasattr(self, "_socket") else self.process.stdin
        assert writer is not None
        writer.write(data)

    def notify(self, method: str, params: Any) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, method: str, params: Any) -> tuple[int, asyncio.Future[Any]]:
        """Send a request; its id and its answer."""
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number, answer

    async def request(self, method: str, params: Any, timeout: float = TIMEOUT) -> Any:
        return await asyncio.wait_for(self.send(method, params)[1], timeout)

    def send_command(self, name: str, *arguments: Any, token: Any = None) -> tuple[int, asyncio.Future[Any]]:
        params: dict[str, Any] = {"command": name}
        if arguments:
            params["arguments"] = list(arguments)
        if token is not None:
            params["workDoneToken"] = token
        return self.send("workspace/executeCommand", params)

    async def run(self, name: str, *arguments: Any, token: Any = None, timeout: float = TIMEOUT) -> Any:
        """Execute a command and wait for its result."""
        return await asyncio.wait_for(self.send_command(name, *arguments, token=token)[1], timeout)

    def cancel(self, number: int) -> None:
        self.notify("$/cancelRequest", {"id": number})

    def notifications(self, method: str) -> list[Any]:
        """Parameters of everything received of that method, in order; of requests too."""
        return [message.get("params") for message in self.received if message.get("method") == method]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        return [event for event in self.notifications("ds4/event") if kind in (None, event["kind"])]

    def progress(self, token: Any) -> list[dict[str, Any]]:
        """Values of one progress token, in order."""
        return [params["value"] for params in self.notifications("$/progress") if params["token"] == token]

    async def wait(self, condition: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
        """Wait until ``condition``, looked at after every message, is true; its value."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(condition)
        return condition()

    async def wait_for(self, method: str, matches: Callable[[Any], bool] = lambda _params: True) -> Any:
        """The first parameters received of that method that match."""
        return (await self.wait(lambda: [params for params in self.notifications(method) if matches(params)]))[0]

    # --- documents ----------------------------------------------------------------------------------------------------

    def open(self, uri: str, text: str, version: int = 1) -> None:
        self.buffers[uri] = (version, text)
        document = {"uri": uri, "languageId": "plaintext", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, start: int, end: int, new: str, version: int | None = None) -> None:
        """The user (or an edit) replaces ``text[start:end]``."""
        old_version, text = self.buffers[uri]
        change = {
            "range": {
                "start": position_of(text, start, self.encoding),
                "end": position_of(text, end, self.encoding),
            },
            "text": new,
        }
        number = old_version + 1 if version is None else version
        self.buffers[uri] = (number, text[:start] + new + text[end:])
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": number}, "contentChanges": [change]},
        )

    def close_document(self, uri: str) -> None:
        del self.buffers[uri]
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def save(self, uri: str) -> bool:
        """Write a buffer to its file and say so."""
        path = path_of(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.buffers[uri][1].encode())
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        return True

    def apply(self, edit: dict[str, Any]) -> dict[str, Any]:
        """Apply a ``WorkspaceEdit`` as an honest editor does."""
        changes = edit.get("documentChanges")
        if changes is None:
            changes = [{"textDocument": {"uri": uri}, "edits": edits} for uri, edits in edit["changes"].items()]
        for change in changes:
            if change.get("kind") == "create":
                if change["uri"] in self.buffers or path_of(change["uri"]).exists():
                    return {"applied": False, "failureReason": "it exists"}
                self.open(change["uri"], "")
                continue
            document = change["textDocument"]
            uri, version = document["uri"], document.get("version")
            if uri not in self.buffers:
                self.open(uri, path_of(uri).read_bytes().decode())
            if version is not None and version != self.buffers[uri][0]:
                return {"applied": False, "failureReason": "the document changed"}
            for text_edit in reversed(change["edits"]):
                # Whether a buffer holds the byte order mark is known of open documents only.
                skip = MARK if document.get("version", 0) is None else ""
                self.change(uri, *self.span(uri, text_edit["range"], skip), text_edit["newText"])
        return {"applied": True}

    def span(self, uri: str, span: dict[str, Any], skip: str = "") -> tuple[int, int]:
        """Offsets in a buffer. ``skip``: what the positions do not count where the buffer begins with it."""
        text = self.buffers[uri][1]
        counted = text.removeprefix(skip)
        skipped = len(text) - len(counted)
        start, end = (
            skipped + offset_of(counted, at["line"], at["character"], self.encoding)
            for at in (span["start"], span["end"])
        )
        return start, end

    def apply_guarded(self, params: dict[str, Any]) -> dict[str, Any]:
        """``ds4/applyGuardedEdit``: version and tag first, then one edit, then a save."""
        [guard] = params["guards"]
        uri, tag = guard["uri"], guard["fileTag"]
        if tag is not None:
            if uri not in self.buffers and not path_of(uri).exists():
                return {"applied": False, "failureReason": "there is no such file"}
            if uri not in self.buffers:
                self.open(uri, path_of(uri).read_bytes().decode())
            version, text = self.buffers[uri]
            if guard["version"] not in (None, version) or tag_of(text) != tag:
                return {"applied": False, "failureReason": "the document changed"}
        answer = self.apply(params["edit"])
        if not answer["applied"]:
            return answer
        saved = bool(params["save"]) and self.save(uri)
        return {"applied": True, "fileTag": tag_of(self.buffers[uri][1]), "saved": saved}

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _read(self, stream: asyncio.StreamReader) -> None:
        length: int | None = None
        while (line := await stream.readline()) != b"":
            if found := re.fullmatch(rb"Content-Length: (\d+)\r\n", line):
                length = int(found[1])
                continue
            if length is not None and re.fullmatch(rb"[A-Za-z-]+: [^\r\n]+\r\n", line):
                continue
            if length is None or line != b"\r\n":
                self.stray += line
                continue
            self._take(json.loads(await stream.readexactly(length)))
            length = None
            async with self._changed:
                self._changed.notify_all()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(Disconnected())
                # Nobody may wait for it: that is not an error of the test.
                answer.exception()

    def _take(self, message: dict[str, Any]) -> None:
        self.received.append(message)
        if "method" not in message:
            answer = self._answers.pop(message["id"], None)
            if answer is None or answer.done():
                return
            if "error" in message:
                answer.set_exception(ResponseError(message["error"]))
            else:
                answer.set_result(message["result"])
        elif "id" in message:
            self._spawn(self._answer(message))

    async def _answer(self, message: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        handler = self.handlers.get(message["method"])
        if handler is None:
            self.write(reply | {"error": {"code": -32601, "message": "no such method"}})
            return
        result = handler(message["params"])
        if inspect.isawaitable(result):
            result = await result
        self.write(reply | {"result": result})

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(65536):
            self.stderr += data
            async with self._changed:
                self._changed.notify_all()

    def _spawn(self, coroutine: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def path_of(uri: str) -> Path:
    from urllib.parse import unquote

    return Path(unquote(uri.removeprefix("file://")))
