"""The terminal's LSP client: what an editor does, without its windows. ``chat`` and the demo go through it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ds4_lsp import __version__
from ds4_lsp.cli.buffers import Buffers
from ds4_lsp.cli.rpc import METHOD_NOT_FOUND, Connection, RpcError

CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-32", "utf-8", "utf-16"]},
    "window": {
        "workDoneProgress": True,
        "showMessage": {"messageActionItem": {"additionalPropertiesSupport": False}},
        "showDocument": {"support": False},
    },
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": {"dynamicRegistration": False},
        "executeCommand": {"dynamicRegistration": False},
        "workspaceEdit": {
            "documentChanges": True,
            "resourceOperations": ["create"],
            "failureHandling": "abort",
        },
    },
    "textDocument": {"synchronization": {"didSave": True, "dynamicRegistration": False}},
    "experimental": {
        "serverStatusNotification": True,
        "ds4": {"events": True, "guardedApply": True, "saveDocument": True},
    },
}


class Screen(Protocol):
    """Who shows what the server says."""

    def event(self, event: dict[str, Any]) -> None:
        """A ``ds4/event``."""
        ...

    def progress(self, token: str, value: dict[str, Any]) -> None:
        """A ``$/progress`` value: ``kind`` begin, report or end."""
        ...

    def message(self, level: int, text: str) -> None:
        """``window/showMessage``: 1 error, 2 warning, 3 information."""
        ...

    async def choose(self, text: str, actions: Sequence[str]) -> str | None:
        """``window/showMessageRequest``: one of ``actions``, or None for no answer."""
        ...


class Client:
    """A running server, initialised for one workspace."""

    def __init__(self, screen: Screen, settings: Mapping[str, Any]) -> None:
        self.screen = screen
        self.settings = dict(settings)
        self.edits_applied = 0
        """Edits that the server sent and this client applied."""
        self.capabilities: dict[str, Any] = {}
        self.status: dict[str, Any] = {}
        """The last ``experimental/serverStatus``."""
        self._connection: Connection | None = None
        self.buffers = Buffers(self._notify)

    def _notify(self, method: str, params: Any) -> None:
        self.connection.notify(method, params)

    @property
    def connection(self) -> Connection:
        assert self._connection is not None, "start() comes first"
        return self._connection

    @classmethod
    async def start(
        cls,
        screen: Screen,
        roots: Sequence[Path],
        *,
        settings: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "ds4_lsp", "--stdio"),
    ) -> Client:
        """Start the server for ``roots``. Errors: ``ServerGone``, ``RpcError``."""
        client = cls(screen, settings or {})
        client._connection = await Connection.start(
            [*command, *options],
            on_notification=client._notified,
            on_request=client._requested,
            environment=environment,
        )
        try:
            await client._initialize(roots)
        except BaseException:
            await client.connection.close()
            raise
        return client

    async def _initialize(self, roots: Sequence[Path]) -> None:
        folders = [{"uri": root.resolve().as_uri(), "name": root.resolve().name} for root in roots]
        result = await self.connection.request(
            "initialize",
            {
                "processId": os.getpid(),
                "clientInfo": {"name": "ds4-lsp chat", "version": __version__},
                "rootUri": folders[0]["uri"] if folders else None,
                "workspaceFolders": folders,
                "capabilities": CAPABILITIES,
                "initializationOptions": self.settings,
                "trace": "off",
            },
        )
        self.capabilities = result["capabilities"]
        self.buffers.encoding = self.capabilities.get("positionEncoding", "utf-16")
        self.connection.notify("initialized", {})

    async def command(self, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """``workspace/executeCommand`` with one JSON object. Errors: ``RpcError``, ``ServerGone``."""
        params = {"command": name, "arguments": [dict(arguments or {})]}
        result: dict[str, Any] = await self.connection.request("workspace/executeCommand", params)
        return result

    async def stop(self) -> int:
        """Shut the server down as LSP asks, and wait for its end. Returns its exit status."""
        if self.connection.process.returncode is None:
            try:
                await asyncio.wait_for(self.connection.request("shutdown", None), 2.0)
                self.connection.notify("exit", None)
            except Exception:  # gone, stuck or already closing: closing its input ends it in any case
                pass
        return await self.connection.close()

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "ds4/event":
                self.screen.event(params)
            case "$/progress":
                self.screen.progress(str(params["token"]), params["value"])
            case "window/showMessage":
                self.screen.message(params["type"], params["message"])
            case "experimental/serverStatus":
                self.status = params
            case _:
                return

    async def _requested(self, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "workspace/configuration":
                return [self.settings if item.get("section") == "ds4" else None for item in params["items"]]
            case "workspace/applyEdit":
                return self._counted(self.buffers.apply(params))
            case "ds4/applyGuardedEdit":
                return self._counted(self.buffers.apply_guarded(params))
            case "ds4/saveDocument":
                return self.buffers.save(params["uri"])
            case "window/showMessageRequest":
                titles = [action["title"] for action in params.get("actions") or []]
                chosen = await self.screen.choose(params["message"], titles)
                return None if chosen is None else {"title": chosen}
            case "window/workDoneProgress/create" | "client/registerCapability" | "client/unregisterCapability":
                return None
            case _:
                raise RpcError(METHOD_NOT_FOUND, f"{method} is not supported")

    def _counted(self, result: dict[str, Any]) -> dict[str, Any]:
        self.edits_applied += bool(result["applied"])
        return result
