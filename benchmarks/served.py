"""The server under measurement, behind a real language client that notes when it heard what."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bare import Setup
from ds4_lsp.cli.lsp_client import Client


@dataclass(frozen=True)
class Heard:
    """An event as the client got it. ``at``: ``time.perf_counter``; ``size``: bytes on the wire."""

    at: float
    event: dict[str, Any]
    size: int


@dataclass
class Recorder:
    """A client's screen that only takes notes."""

    events: list[Heard] = field(default_factory=list)
    _waiting: list[tuple[Mapping[str, Any], asyncio.Future[Heard]]] = field(default_factory=list)

    def event(self, event: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": "ds4/event", "params": event})
        heard = Heard(time.perf_counter(), event, len(body) + len(f"Content-Length: {len(body)}\r\n\r\n"))
        self.events.append(heard)
        for fields, future in self._waiting:
            if not future.done() and fields.items() <= event.items():
                future.set_result(heard)
        self._waiting = [entry for entry in self._waiting if not entry[1].done()]

    def next(self, **fields: Any) -> asyncio.Future[Heard]:
        """The next event that has these fields."""
        future: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        self._waiting.append((fields, future))
        return future

    def progress(self, token: str, value: dict[str, Any]) -> None:
        return

    def message(self, level: int, text: str) -> None:
        return

    async def choose(self, text: str, actions: Sequence[str]) -> str | None:
        return actions[0] if actions else None


@dataclass(frozen=True)
class Turn:
    """One prompt's way. Times are the client's; ``usage`` is the server's count."""

    sent: float
    answered: float
    events: tuple[Heard, ...]
    result: dict[str, Any]

    @property
    def usage(self) -> dict[str, Any]:
        usage: dict[str, Any] = self.result["usage"]
        return usage

    @property
    def seconds(self) -> float:
        return self.answered - self.sent

    @property
    def first_text(self) -> float:
        """Seconds until the first text was there."""
        times = [heard.at for heard in self.events if heard.event["kind"] in ("text", "thinking", "tool.start")]
        return min(times, default=self.answered) - self.sent


class Served:
    """A running server whose model is loaded and warm."""

    def __init__(self, client: Client, recorder: Recorder, root: Path) -> None:
        self.client = client
        self.recorder = recorder
        self.root = root

    @property
    def pid(self) -> int:
        return self.client.connection.process.pid

    def processor(self) -> float:
        """Seconds of processor time that the server has used, the engine's not counted."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    async def configure(self, settings: dict[str, Any]) -> None:
        """Change settings that take effect at once."""
        self.client.settings = settings
        self.client.connection.notify("workspace/didChangeConfiguration", {"settings": {"ds4": settings}})
        # Answered by the worker, after the settings were pulled and passed on to it.
        await asyncio.sleep(0)
        await self.client.command("ds4.status")

    async def prompt(self, text: str, **arguments: Any) -> Turn:
        """One turn to its end."""
        begins = len(self.recorder.events)
        sent = time.perf_counter()
        result = await self.client.command("ds4.prompt", {"text": text, **arguments})
        return Turn(sent, time.perf_counter(), tuple(self.recorder.events[begins:]), result)

    async def new_session(self) -> None:
        """A fresh session, and the snapshot of the one before written: that must not run into what is measured."""
        before = (await self.status())["session"]
        await self.client.command("ds4.newSession")
        if before is not None:
            await self.client.command("ds4.saveSession", {"sessionId": before["sessionId"]})

    async def status(self) -> dict[str, Any]:
        return await self.client.command("ds4.status")

    def trace(self, what: str) -> list[dict[str, Any]]:
        """Entries of the server's trace; it has to be started with one."""
        lines = (self.root / "trace.jsonl").read_text(encoding="utf-8").splitlines()
        return [entry for entry in map(json.loads, lines) if entry["what"] == what]

    def log(self, session: str) -> list[dict[str, Any]]:
        """The session's events."""
        [path] = (self.root / "state").rglob(f"{session}/events.jsonl")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scripted(root: Path, replies: Sequence[dict[str, Any]]) -> Path:
    """A script for the seam; see ``tests/README.md``."""
    path = root / "script.jsonl"
    path.write_text("".join(json.dumps(reply, ensure_ascii=False) + "\n" for reply in replies), encoding="utf-8")
    return path


@asynccontextmanager
async def serving(
    setup: Setup, settings: dict[str, Any], *, script: Sequence[dict[str, Any]] = (), trace: bool = False
) -> AsyncIterator[Served]:
    """A server with an empty workspace and no sessions. It has read its system prompt when this is entered."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        workspace = root / "workspace"
        workspace.mkdir()
        snapshots = root / "state" / "ds4-lsp" / "sessions" / "sysprompt"
        _link(setup.prompts, snapshots)
        environment = os.environ | {"DS4_MODEL": str(setup.model), "XDG_STATE_HOME": str(root / "state")}
        if script:
            environment["DS4_LSP_SCRIPT"] = str(scripted(root, script))
        recorder = Recorder()
        client = await Client.start(
            recorder,
            [workspace],
            settings=settings,
            options=("--trace", str(root / "trace.jsonl")) if trace else (),
            environment=environment,
        )
        try:
            await client.command("ds4.loadModel")
            await client.command("ds4.newSession")
            yield Served(client, recorder, root)
        finally:
            await client.stop()
            _link(snapshots, setup.prompts)


def _link(source: Path | None, target: Path | None) -> None:
    """Give ``target`` the snapshots of ``source``."""
    if source is None or target is None or not source.exists():
        return
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in source.glob("*.kv"):
        if not (target / path.name).exists():
            (target / path.name).hardlink_to(path)
