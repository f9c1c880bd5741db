"""Run as a program: ``compaction_killed.py ROOT MODEL SESSION STEP``. An agent on the real engine takes up the session
and is killed just before that step of its next compaction."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from compaction_steps import CONTEXT, SETTINGS, Faults, next_prompt, watched
from conftest import Agent, AgentOptions, DiskEditor, Stage


async def victim(root: Path, model: Path, session: str, step: int) -> None:
    compaction = {"auto": True, "minFreeTokens": 0, **SETTINGS["compaction"]}
    changes = {
        "compaction": compaction,
        "model": {"contextSize": CONTEXT, "threads": 1},
        "sessions": {"snapshots": True},
    }
    stage = Stage(root, model, 256, changes)
    stage.editor = DiskEditor(root / "ws")
    stage.agent = Agent(stage.engine, stage.editor, stage.listener, stage._settings(50000), AgentOptions())
    stage.agent.runner.start()
    stage.agent.sessions.switch(session)
    with watched(stage, Faults(stage, "SIGKILL", step)):
        await next_prompt(stage)


root, model, session, step = sys.argv[1:]
asyncio.run(victim(Path(root), Path(model), session, int(step)))
