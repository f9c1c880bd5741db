"""The whole server on the real model, behind a real language client; scripts choose tokens where a test needs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsp_client import GUARDED, Client

LONG = 240.0
"""Seconds that a turn may take on a machine that does other things too."""


@dataclass
class Rig:
    """A workspace, a place for sessions, and servers over them. ``start`` may be called again: a restart."""

    root: Path
    model: Path
    clients: list[Client] = field(default_factory=list)
    prompts: Path | None = None
    """Snapshots of the built-in system prompt that earlier tests left: it is evaluated once, not once per test."""

    @property
    def workspace(self) -> Path:
        return self.root / "ws"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def uri(self, name: str) -> str:
        return (self.workspace / name).as_uri()

    def file(self, name: str, text: str) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def script(self, *replies: str | dict[str, Any]) -> Path:
        """A script of turn replies (or whole entries) for the next server."""
        path = self.root / f"script-{len(self.clients)}.jsonl"
        entries = [{"purpose": "turn", "text": reply} if isinstance(reply, str) else reply for reply in replies]
        path.write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries))
        return path

    async def start(
        self,
        *,
        script: Path | None = None,
        settings: dict[str, Any] | None = None,
        capabilities: dict[str, Any] | None = None,
        arguments: tuple[str, ...] = (),
        env: Mapping[str, str | None] | None = None,
        program: tuple[str, ...] = ("-m", "ds4_lsp"),
    ) -> Client:
        self.workspace.mkdir(exist_ok=True)
        self.share_prompts()
        environment: dict[str, str | None] = {"DS4_MODEL": str(self.model), "XDG_STATE_HOME": str(self.state)}
        environment.update(env or {})
        if script is not None:
            environment["DS4_LSP_SCRIPT"] = str(script)
        client = Client(sys.executable, *program, *arguments, env=environment, cwd=self.root)
        self.clients.append(client)
        await client.start()
        given = settings or {}
        # One thread: two that wait for each other on a busy machine are several times slower than that.
        model = {"contextSize": 4096, "threads": 1, **given.get("model", {})}
        sampling = {"temperature": 0.0, **given.get("sampling", {})}
        await client.initialize(
            GUARDED if capabilities is None else capabilities,
            workspaceFolders=[{"uri": self.workspace.as_uri(), "name": "ws"}],
            initializationOptions={"ds4": {**given, "model": model, "sampling": sampling}},
        )
        return client

    def share_prompts(self) -> None:
        """Give the next server the snapshots that earlier tests left."""
        self._share(self.prompts, self._snapshots)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        self._share(self._snapshots, self.prompts)

    @property
    def _snapshots(self) -> Path:
        return self.state / "ds4-lsp" / "sessions" / "sysprompt"

    @staticmethod
    def _share(source: Path | None, target: Path | None) -> None:
        if source is None or target is None or not source.exists():
            return
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in source.glob("*.kv"):
            if not (target / path.name).exists():
                (target / path.name).hardlink_to(path)


async def prompt(client: Client, text: str, **arguments: Any) -> dict[str, Any]:
    """One prompt to its end."""
    result: dict[str, Any] = await client.run("ds4.prompt", {"text": text, **arguments}, timeout=LONG)
    return result


def call(name: str, **arguments: Any) -> str:
    """A block with one call, as a model writes it."""
    lines = ["<｜DSML｜tool_calls>", f'<｜DSML｜invoke name="{name}">']
    for key, value in arguments.items():
        raw = isinstance(value, str)
        written = value if raw else json.dumps(value)
        lines.append(f'<｜DSML｜parameter name="{key}" string="{str(raw).lower()}">{written}</｜DSML｜parameter>')
    return "\n".join([*lines, "</｜DSML｜invoke>", "</｜DSML｜tool_calls>"])


def words(count: int) -> str:
    """That many words, each another one: a reply of the same word over and over is cut."""
    return " ".join(f"w{number}" for number in range(count))
