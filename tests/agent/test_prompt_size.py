"""The fixed part of every conversation is short: a CPU evaluates it at 100 tokens a second."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_fixed_part_keeps_to_its_size(stage: Any) -> None:
    stage.script("Yes.")
    await stage.prompt("Hello.")
    transcript = await stage.agent.services.transcript(stage.runtime)
    # 900 on Qwen's vocabulary; the small model's is a third of that size.
    assert transcript.shared < 1200


async def test_what_is_seldom_needed_is_not_taught_and_is_taken(stage: Any) -> None:
    stage.script("Yes.")
    await stage.prompt("Hello.")
    header = stage.events("request/header")[0].data["system"]
    for name in ("file_tag\n", "- range", "- glob", "- case_sensitive", "- whole"):
        assert name not in header
    assert "src/" not in header
