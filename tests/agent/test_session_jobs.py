"""The jobs of a session that is not the current one: they go on, and are seen and stopped again after a switch back."""

from __future__ import annotations

from typing import Any

import pytest
from rig import call

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import NoArguments, StopJobArguments, SwitchSessionArguments
from ds4_lsp.protocol.errors import NotFound

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def states(stage: Any) -> list[tuple[int, str]]:
    result = await stage.agent.command("ds4.listJobs", NoArguments(), Cancel())
    return [(job.job, job.state) for job in result.jobs]


async def test_jobs_are_the_current_sessions_and_there_again_after_a_switch_back(stage: Any) -> None:
    stage.script(call("bash", command="sleep 300", refresh_sec=0), "Runs.")
    first = (await stage.prompt("serve")).session_id
    assert await states(stage) == [(1, "running")]
    stage.new_session()
    assert await states(stage) == []
    with pytest.raises(NotFound):
        await stage.agent.command("ds4.stopJob", StopJobArguments(job=1), Cancel())
    await stage.agent.command("ds4.switchSession", SwitchSessionArguments(session_id=first), Cancel())
    assert await states(stage) == [(1, "running")]
    await stage.agent.command("ds4.stopJob", StopJobArguments(job=1), Cancel())
    assert await states(stage) == [(1, "killed")]
