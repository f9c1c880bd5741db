"""How the model is sampled: what the settings leave open is as its makers recommend, and the status says so."""

from __future__ import annotations

from typing import Any

import pytest

from ds4_lsp.ports import Cancel, Sampling
from ds4_lsp.protocol.commands import NoArguments, StatusResult

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_is_set_and_what_is_recommended_reach_the_engine_and_the_status(stage: Any) -> None:
    stage.set(sampling={"temperature": None, "topK": 30, "seed": 7})
    try:
        stage.script("Yes.")
        await stage.prompt("well?")
        status = await stage.agent.command("ds4.status", NoArguments(), Cancel())
        assert isinstance(status, StatusResult)
        assert status.model is not None
        assert stage.engine.asked[-1][0].sampling == Sampling(0.2, 1.0, 0.05, 7, top_k=30)
        assert status.model["sampling"]["temperature"] == {"value": 0.2, "source": "default"}
        assert status.model["sampling"]["topK"] == {"value": 30, "source": "the setting ds4.sampling.topK"}
    finally:
        stage.set(sampling={"temperature": 0.0, "topK": None, "seed": None})


async def test_without_a_grammar_the_engine_knows_where_a_call_begins(stage: Any) -> None:
    stage.set(tools={"grammar": False})
    try:
        stage.script("Yes.")
        await stage.prompt("well?")
        request, _ = stage.engine.asked[-1]
        assert request.grammar is None
        assert request.grammar_triggers == ("<｜DSML｜tool_calls>",)
    finally:
        stage.set(tools={"grammar": True})
