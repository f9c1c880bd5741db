"""``python -m benchmarks.resume BASE WORKSPACE``: resume the newest session as a starting server does, in a process of
its own, and print a JSON object: processor seconds, and the bytes by which the process grew."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from ds4_lsp.agent.agent import Agent, AgentOptions
from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import Answer, Applied, Cancel, FileEdit, OpenDocument, Question
from ds4_lsp.protocol.settings import ModelSettings, SessionSettings, Settings


class NobodysEditor:
    """An editor with one folder and nothing open."""

    saves_open_documents = False
    current_root = None

    def __init__(self, root: Path) -> None:
        self.roots = (root,)

    async def document(self, path: Path) -> OpenDocument | None:
        return None

    async def documents(self) -> tuple[OpenDocument, ...]:
        return ()

    async def apply(self, edit: FileEdit) -> Applied:
        return Applied(saved=False, failure="nobody is there")

    async def ask(self, question: Question, cancel: Cancel) -> Answer:
        return "unavailable"


class Nobody:
    """A listener that does not listen."""

    def event(self, session_id: str, turn: int, kind: str, *, seq: int | None = None, **data: Any) -> None:
        return

    def progress(self, key: str, title: str, *, done: int = 0, total: int = 0, message: str = "") -> None:
        return

    def progress_end(self, key: str, message: str = "") -> None:
        return

    def message(self, level: str, text: str) -> None:
        print(text, file=sys.stderr)


async def resume(base: Path, workspace: Path) -> dict[str, float]:
    settings = Settings(model=ModelSettings(preload=False), sessions=SessionSettings(directory=str(base)))
    agent = Agent(EngineClient(), NobodysEditor(workspace), Nobody(), settings, AgentOptions())
    process = psutil.Process()
    before, began = process.memory_info().rss, time.process_time()
    await agent.start()
    took, after = time.process_time() - began, process.memory_info().rss
    if agent.sessions.current is None:
        raise RuntimeError("no session was resumed")
    await agent.shutdown()
    return {"seconds": took, "grown": after - before}


def main(arguments: Sequence[str]) -> None:
    base, workspace = map(Path, arguments)
    print(json.dumps(asyncio.run(resume(base, workspace))))


if __name__ == "__main__":
    main(sys.argv[1:])
