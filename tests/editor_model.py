"""A client that is a model of an editor: it keeps encodings, and remembers what each edit of the server did."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsp_client import GUARDED, PLAIN, Client, path_of, tag_of

__all__ = ["CLASSES", "CODECS", "EditorModel", "Landing", "bare", "rows_of", "tag_of"]

SAVING = PLAIN | {"experimental": {"ds4": {"saveDocument": True}}}
CLASSES = {"guarded": GUARDED, "saving": SAVING, "plain": PLAIN}
"""Capabilities by what a client announces of ours."""

CODECS = ("utf-8", "utf-8-sig", "utf-16")
"""How a file is stored; the last two with a byte order mark."""


def rows_of(text: str) -> list[str]:
    """Lines with their endings, LF, CRLF or CR; none after a final ending."""
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$", text)


def bare(rows: list[str]) -> list[str]:
    return [row.rstrip("\r\n") for row in rows]


def _bytes(uri: str) -> bytes | None:
    path = path_of(uri)
    return path.read_bytes() if path.exists() else None


@dataclass
class Landing:
    """One request to apply, as the editor saw it: the texts right before and right after it."""

    before: str
    after: str
    applied: bool


class EditorModel(Client):
    """``typing`` is called at each request, with True right before it is carried out and with False right after."""

    def __init__(self, *command: str, **options: Any) -> None:
        super().__init__(*command, **options)
        self.guarded = False
        self.meddle = Path()
        """Where the server under test takes orders to save a file behind its own back (``editing_server.py``)."""
        self.codecs: dict[str, str] = {}
        self.typing: Callable[[bool], None] = lambda _before: None
        self.agrees: Callable[[], bool] = lambda: True
        """What the user answers where an edit needs confirmation; asked while they may go on typing."""
        self.found: dict[str, bytes | None] = {}
        """What was on the disk when a document was opened, or saved last."""
        self.landings: list[Landing] = []
        for method in ("workspace/applyEdit", "ds4/applyGuardedEdit"):
            self.handlers[method] = self._watched(self.handlers[method])

    async def initialize(self, capabilities: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        announced = (capabilities or {}).get("experimental", {}).get("ds4", {})
        self.guarded = announced.get("guardedApply") is True
        return await super().initialize(capabilities, **params)

    async def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What a call of the model's gives."""
        answer = await self.run("ds4.prompt", {"text": "tool " + json.dumps({"name": name, **arguments})}, timeout=60)
        result: dict[str, Any] = json.loads(answer["text"])
        return result

    async def tag(self, path: str) -> str:
        """The tag that the server has for a file, which the agent has then read whole."""
        return str((await self.tool("read", path=path, whole=True))["tags"][0])

    def put(self, uri: str, text: str, codec: str) -> None:
        """A file, as any program may write it."""
        self.codecs[uri] = codec
        path_of(uri).write_bytes(text.encode(codec))

    def on_disk(self, uri: str) -> str:
        return path_of(uri).read_bytes().decode(self.codecs.get(uri, "utf-8"))

    def text(self, uri: str) -> str:
        """What the user would say is in the file."""
        return self.buffers[uri][1] if uri in self.buffers else self.on_disk(uri)

    def open(self, uri: str, text: str, version: int = 1) -> None:
        super().open(uri, text, version)
        self.found[uri] = _bytes(uri)

    def apply_guarded(self, params: dict[str, Any]) -> dict[str, Any]:
        """Ask first where that is wanted, and save over nothing that another program has saved."""
        [guard] = params["guards"]
        uri = guard["uri"]
        annotations = params["edit"].get("changeAnnotations", {})
        if any(one["needsConfirmation"] for one in annotations.values()) and not self.agrees():
            return {"applied": False}
        newer = uri in self.buffers and self.found.get(uri) != _bytes(uri)
        return super().apply_guarded({**params, "save": params["save"] and not newer})

    def save(self, uri: str) -> bool:
        path = path_of(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.buffers[uri][1].encode(self.codecs.get(uri, "utf-8")))
        self.found[uri] = _bytes(uri)
        self.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        return True

    def _watched(self, honest: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def handler(params: Any) -> Any:
            changes = params["edit"].get("documentChanges") or [
                {"textDocument": {"uri": uri}} for uri in params["edit"]["changes"]
            ]
            uri = changes[-1]["textDocument"]["uri"]
            if uri not in self.buffers and path_of(uri).exists():
                self.open(uri, self.on_disk(uri))
            self.typing(True)
            before = self.buffers[uri][1] if uri in self.buffers else ""
            answer = honest(params)
            after = self.text(uri) if uri in self.buffers or path_of(uri).exists() else ""
            self.landings.append(Landing(before, after, answer.get("applied") is True))
            self.typing(False)
            return answer

        return handler
