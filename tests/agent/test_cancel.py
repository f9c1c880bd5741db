"""Wherever a turn is cancelled: the KV is the transcript's, the log is what was streamed, and the next turn does not
notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rig import call

from ds4_lsp.ports import Cancel

pytestmark = pytest.mark.asyncio(loop_scope="session")

REPLIES = [
    "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen.",
    "Größe 👩‍👩‍👧 日本語 é ñ 🙂🙂🙂 and so on, and so forth, until the end of it. " * 2,
    "I look around.\n\n" + call("list", path=".") + "\n",
    "<think>Hm, what is it? " + call("list", path=".") + " or not.</think> Something else, then.",
    "x <｜DSML｜tool_calls>\n<｜DSML｜inv oke what is this?",
]
PER_TOKEN = 0.003
"""Seconds: time for a cancel to arrive before the reply ends."""


@dataclass(frozen=True)
class Step:
    """A prompt of that many words, cancelled when ``phase`` has come that many tokens far."""

    words: int
    replies: tuple[str, ...]
    phase: Literal["prefill", "decode"]
    tokens: int
    interrupt: bool


STEPS = st.builds(
    Step,
    words=st.integers(1, 300),
    replies=st.lists(st.sampled_from(REPLIES), min_size=1, max_size=2).map(tuple),
    phase=st.sampled_from(["prefill", "decode"]),
    tokens=st.integers(0, 130),
    interrupt=st.booleans(),
)
IN_PREFILL = Step(650, (REPLIES[0],), "prefill", 1, interrupt=True)
IN_DECODING = Step(3, (REPLIES[1],), "decode", 5, interrupt=False)


async def cancelled(stage: Any, step: Step) -> str:
    """Play one step and check everything that has to hold after it; the stop reason."""
    stage.limit(50000)
    stage.script(*step.replies, "Done.", "Done.", "Done.", delay=PER_TOKEN)
    cancel = Cancel()
    act = stage.agent.runner.cancel_running if step.interrupt else cancel.set
    stage.engine.at = (step.phase, step.tokens, act)
    result = await stage.prompt("word " * step.words, cancel)
    stage.engine.at = None
    await kv_is_of_the_transcript(stage)
    log_is_what_was_streamed(stage, result)
    return str(result.stop_reason)


async def kv_is_of_the_transcript(stage: Any) -> None:
    transcript, opening = await stage.transcript()
    held = list(stage.engine.kv)
    assert held == [*transcript, *opening][: len(held)]


def log_is_what_was_streamed(stage: Any, result: Any) -> None:
    replies = [event.data for event in stage.events("assistant/message") if event.data["turn"] == result.turn]
    streamed = [(ids, text) for ids, text in stage.engine.streamed if ids]
    assert [(reply["tokens"], reply["text"]) for reply in replies] == streamed
    heard = [(kind, data) for turn, kind, data in stage.listener.heard if turn == result.turn]
    assert heard[-1][0] == "turn.end" or heard[-1] == ("state", {"state": "idle"})
    assert [kind for kind, _ in heard].count("turn.end") == 1
    assert stage.listener.open == set()
    calls = {call["callId"] for reply in replies for call in reply["calls"]}
    assert calls == {event.data["callId"] for event in stage.events("tool/result") if event.data["turn"] == result.turn}
    if result.stop_reason == "cancelled" and replies and replies[-1]["stop"] == "cancelled":
        assert replies[-1]["calls"] == []
    assert result.text.split() == " ".join(stage.listener.texts(result.turn)).split()


async def next_turn_is_as_if_nothing_had_happened(stage: Any, reference: Any) -> None:
    """The sampler's own, greedy reply."""
    stage.script()
    stage.limit(12)
    result = await stage.prompt("And now?")
    assert result.stop_reason in ("length", "end")
    await kv_is_of_the_transcript(stage)
    await reference.agrees(stage.engine.continuation)


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=1, max_size=3))
@example(steps=[IN_PREFILL, IN_DECODING, IN_PREFILL])
async def test_after_cancels_at_any_moment_kv_log_and_the_next_turn_are_right(
    stages: Any, tiny_model: Path, references: Any, steps: list[Step]
) -> None:
    stage = await stages(tiny_model)
    if not hasattr(stage, "reference"):
        stage.reference = await references(stage)
    stage.new_session()
    for step in steps:
        await cancelled(stage, step)
    await next_turn_is_as_if_nothing_had_happened(stage, stage.reference)


async def test_on_the_small_model_a_new_engine_continues_alike_after_a_cancel_in_each_phase(
    stages: Any, small_model: Path, references: Any
) -> None:
    stage = await stages(small_model, 512)
    stage.new_session()
    assert await cancelled(stage, IN_DECODING) == "cancelled"
    assert await cancelled(stage, IN_PREFILL) == "cancelled"
    await next_turn_is_as_if_nothing_had_happened(stage, await references(stage))
