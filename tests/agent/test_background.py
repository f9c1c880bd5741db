"""Work that nobody waits for: whatever goes wrong in it reaches the user and the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_defect_in_work_that_nobody_waits_for_is_told_and_logged_with_its_traceback(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def defective() -> Any:
        begun.set()
        raise RuntimeError("a defect")

    stage.listener.messages.clear()
    with caplog.at_level(logging.ERROR):
        stage.agent.runner.tell_later(defective())
        await begun.wait()
        await asyncio.gather(
            *(task for task in asyncio.all_tasks() if "_quietly" in repr(task)), return_exceptions=True
        )
    assert stage.listener.messages == ["DS4: RuntimeError: a defect"]
    assert [record.exc_info[1].args for record in caplog.records if record.exc_info] == [("a defect",)]
