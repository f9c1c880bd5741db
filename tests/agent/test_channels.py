"""gpt-oss's way of speaking: thinking, words and calls are channels of one reply, told apart by control tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from benchmarks.archive import templates

pytestmark = pytest.mark.asyncio(loop_scope="session")

MARKS = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|constrain|>")
ANALYSIS = "<|channel|>analysis<|message|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>"


@pytest_asyncio.fixture(loop_scope="session")
async def harmony(stages: Any, tiny: Any, small_model: Path, once: Any) -> Any:
    """The agent on random weights with gpt-oss's template and control tokens."""
    named = {20 + place: (mark, "CONTROL") for place, mark in enumerate(MARKS)}
    model = once(
        "harmony.gguf",
        lambda path: tiny.llama(path, small_model, named=named, template=templates()["openai-gpt-oss-120b"]),
    )
    stage = await stages(model)
    stage.limit(50000)
    stage.new_session()
    return stage


def heard(stage: Any, kind: str) -> str:
    return "".join(data["delta"] for _, one, data in stage.listener.heard if one == kind)


async def test_an_answer_follows_the_analysis(harmony: Any) -> None:
    harmony.script(f"{ANALYSIS}Let me see.<|end|>{FINAL}It is four.<|return|>")
    result = await harmony.prompt("two and two?")
    assert (result.stop_reason, result.text) == ("end", "It is four.")
    assert heard(harmony, "thinking").strip() == "Let me see."
    assert heard(harmony, "text").strip() == "It is four."


async def test_a_call_is_run_and_the_model_goes_on(harmony: Any) -> None:
    (harmony.root / "ws" / "a.txt").write_text("one line\n")
    call = '<|start|>assistant<|channel|>commentary to=functions.list <|constrain|>json<|message|>{"path": "."}<|call|>'
    harmony.script(f"{ANALYSIS}I list.<|end|>{call}", f"{ANALYSIS}So.<|end|>{FINAL}One file.<|return|>")
    result = await harmony.prompt("what is there?")
    assert result.text == "One file."
    [(name, arguments)] = [
        (c["name"], c["arguments"]) for e in harmony.events("assistant/message") for c in e.data["calls"]
    ]
    assert (name, arguments) == ("list", {"path": "."})
    [told] = harmony.events("tool/result")
    assert told.data["ok"]
    assert "a.txt" in told.data["text"]
    tokens, _ = await harmony.transcript()
    assert tokens[: len(harmony.engine.kv)] == list(harmony.engine.kv)


async def test_a_call_within_the_analysis_never_runs_and_the_model_is_told(harmony: Any) -> None:
    quoted = '<|channel|>commentary to=functions.list <|message|>{"path": "."}'
    harmony.script(
        f"{ANALYSIS}I could write {quoted} here.<|end|>{FINAL}Well.<|return|>", f"{FINAL}Nothing to do.<|return|>"
    )
    result = await harmony.prompt("well?")
    assert (result.stop_reason, result.text.split()[-1]) == ("end", "do.")
    assert harmony.events("tool/result") == []
    [notice] = [event.data["text"] for event in harmony.events("user/message") if event.data["kind"] == "notice"]
    assert "inside thinking" in notice
