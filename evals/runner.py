"""Runs jobs on the real server, over LSP, as an editor would: one server and one engine for all of them.

The workspace's path is the same for each job and each run, since it is part of what the model reads: the same jobs in
the same order give the same results at temperature 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from ds4_lsp.cli.lsp_client import Client
from ds4_lsp.cli.rpc import RpcError
from evals import approve
from evals.after import After, fill, snapshot
from evals.damage import damage
from evals.job import Job
from evals.results import Limits, Result


@dataclass
class Watcher:
    """The screen of a client that nobody looks at: it counts, answers by rule, and says when a limit is passed."""

    workspace: Path
    limits: Limits
    rounds: int = 0
    calls: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    passed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set in the first round that is one too many."""

    def begin(self) -> None:
        self.rounds = self.calls = self.failed = 0
        self.notes, self.messages = [], []
        self.passed.clear()

    def event(self, event: dict[str, Any]) -> None:
        match event["kind"]:
            case "state" if event["state"] == "prefill":
                self.rounds += 1
                if self.rounds > self.limits.rounds:
                    self.passed.set()
            case "tool.result":
                self.calls += 1
                self.failed += not event["ok"]
            case "notice":
                self.notes.append(event["text"])

    def progress(self, token: str, value: dict[str, Any]) -> None:
        pass

    def message(self, level: int, text: str) -> None:
        if level == 1:
            self.messages.append(text)

    async def choose(self, text: str, actions: Sequence[str]) -> str | None:
        return approve.answer(text, actions, self.workspace)


class Server:
    """A started server with an empty workspace under ``folder``; transcripts are kept in ``transcripts``."""

    def __init__(self, client: Client, watcher: Watcher, transcripts: Path) -> None:
        self._client = client
        self._watcher = watcher
        self._transcripts = transcripts

    async def run(self, job: Job) -> Result:
        """A fresh session and a fresh workspace. Errors: ``ServerGone``."""
        watcher = self._watcher
        workspace = watcher.workspace
        fill(workspace, job)
        session = (await self._client.command("ds4.newSession", {"title": job.name}))["sessionId"]
        watcher.begin()
        stopper = asyncio.create_task(self._stop_when_passed(session))
        try:
            reply = await self._client.command("ds4.prompt", self._arguments(job, session))
        except RpcError as error:
            reply = {"stopReason": "error", "text": "", "usage": {}, "error": error.message}
        finally:
            stopper.cancel()
            await asyncio.gather(stopper, return_exceptions=True)
        rounds = await self._keep(job, session)
        left = snapshot(workspace)
        why = job.check(After(workspace, said(reply["text"], watcher.notes), job.start()))
        usage = reply.get("usage") or {}
        await self._client.command("ds4.deleteSession", {"sessionId": session})
        return Result(
            job=job.name,
            kind=job.kind,
            seed=job.seed,
            solved=why is None,
            why=why or "",
            damage=damage(job, left),
            evaluated=usage.get("promptTokens", 0),
            cached=usage.get("cachedTokens", 0),
            generated=usage.get("completionTokens", 0),
            rounds=rounds,
            calls=watcher.calls,
            failed=watcher.failed,
            ended=_ended(reply["stopReason"], watcher),
            note=reply.get("error") or " ".join([*watcher.notes, *watcher.messages]),
        )

    def _arguments(self, job: Job, session: str) -> dict[str, Any]:
        context: list[dict[str, Any]] = []
        for item in job.context:
            path, *lines = (item,) if isinstance(item, str) else item
            entry: dict[str, Any] = {"uri": (self._watcher.workspace / str(path)).as_uri()}
            if lines:
                first, last = lines
                start, end = {"line": int(first) - 1, "character": 0}, {"line": int(last), "character": 0}
                entry["range"] = {"start": start, "end": end}
            context.append(entry)
        return {"text": job.prompt, "sessionId": session, "context": context}

    async def _stop_when_passed(self, session: str) -> None:
        await self._watcher.passed.wait()
        await self._client.command("ds4.interrupt", {"sessionId": session})

    async def _keep(self, job: Job, session: str) -> int:
        """Keep the transcript; returns the number of replies in it."""
        name = f"{job.kind}-{job.name}" + (f"-{job.seed}" if job.seed else "")
        for form, suffix in (("markdown", "md"), ("jsonl", "jsonl")):
            found = await self._client.command("ds4.exportSession", {"sessionId": session, "format": form})
            shutil.copyfile(unquote(urlparse(found["uri"]).path), self._transcripts / f"{name}.{suffix}")
        lines = (self._transcripts / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return sum(json.loads(line).get("type") == "assistant/message" for line in lines if line)


def said(text: str, notes: Sequence[str]) -> str:
    """What the model itself said: the agent's own notes, which the result ends with, solve no job."""
    for note in notes:
        text = text.replace(note, "")
    return text.strip()


def _ended(stop: str, watcher: Watcher) -> str:
    if stop == "cancelled" and watcher.passed.is_set():
        return "rounds"
    if stop == "end" and any("Stopped" in note for note in watcher.notes):
        return "stopped"
    return {"length": "tokens"}.get(stop, stop)


@contextlib.asynccontextmanager
async def serving(
    folder: Path, model: str, limits: Limits, transcripts: Path, sampling: dict[str, Any], *, syntax: str = "auto"
) -> AsyncIterator[Server]:
    """The server, its workspace and sessions under ``folder``. Errors: ``ServerGone``, ``RpcError``."""
    watcher = Watcher(folder / "workspace", limits)
    for place in (watcher.workspace, transcripts):
        place.mkdir(parents=True, exist_ok=True)
    settings = {
        "model": {"contextSize": limits.context},
        "sampling": {**sampling, "maxTokens": limits.tokens},
        "tools": {"syntax": syntax},
        "sessions": {"directory": str(folder / "sessions"), "snapshots": False},
    }
    client = await Client.start(watcher, [watcher.workspace], settings=settings, options=["--model", model])
    try:
        yield Server(client, watcher, transcripts)
    finally:
        await client.stop()
