"""Work that nobody waits for: whatever goes wrong in it reaches the user and the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from ds4_lsp.ports import Cancel

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


async def test_a_load_that_fails_by_a_defect_is_not_told_as_loaded(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    told = stage.listener.progress_end

    def listen(key: str, message: str = "") -> None:
        ended.append(message)
        told(key, message)

    monkeypatch.setattr(stage.listener, "progress_end", listen)

    async def defective(*_arguments: Any, **_named: Any) -> Any:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(stage.engine, "load", defective)
        with pytest.raises(RuntimeError, match="a defect"):
            await stage.agent.runner.load_model(None, Cancel())
    assert ended == ["Loading the model failed: RuntimeError: a defect"]
    assert stage.agent.services.model.error == ended[0]
    await stage.agent.runner.load_model(None, Cancel())
    assert ended[1:] == ["loaded"]
