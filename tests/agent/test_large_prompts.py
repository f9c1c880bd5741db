"""A prompt that no context can hold: how it is refused, what it costs, and that it can be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ds4_lsp.agent import transcript as transcript_module
from ds4_lsp.ports import Cancel, Segment

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONTEXT = 4096


@pytest.fixture
def tokenized(stage: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Code points that the engine was given to tokenise, request by request."""
    sizes: list[int] = []
    tokenize = stage.engine.tokenize

    async def noted(segments: Sequence[Segment]) -> list[int]:
        sizes.append(sum(len(segment.text) for segment in segments))
        done: list[int] = await tokenize(segments)
        return done

    monkeypatch.setattr(stage.engine, "tokenize", noted)
    return sizes


def prompts(stage: Any) -> list[str]:
    return [event.data["text"] for event in stage.events("user/message")]


async def test_a_prompt_far_over_the_context_is_refused_before_all_of_it_is_tokenised(
    stage: Any, tokenized: list[int]
) -> None:
    text = "word " * 400_000
    result = await stage.prompt(text)
    assert result.stop_reason == "error"
    assert f"the context has {CONTEXT}" in result.error
    assert sum(tokenized) < len(text) / 4
    assert prompts(stage) == []
    stage.script("Hello.")
    assert (await stage.prompt("hi")).text == "Hello."


async def test_a_prompt_of_few_tokens_is_taken_whatever_its_length(stage: Any) -> None:
    transcript = await stage.agent.services.transcript(stage.runtime)
    text = " " * (CONTEXT * transcript_module.DENSE + 1)
    stage.script("Empty.")
    result = await stage.prompt(text + "what?")
    expected = len(await stage.engine.tokenize([Segment(text)]))
    assert expected < CONTEXT / 2
    assert result.text == "Empty."
    assert await transcript.measure([Segment(text)]) == expected


@pytest.mark.parametrize("text", ["word " * 400_000, " " * 400_000 + "?", "small"])
async def test_a_cancel_while_a_prompt_is_measured_ends_the_turn_as_cancelled(
    stage: Any, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    cancel = Cancel()
    states: list[str] = []
    tokenize = stage.engine.tokenize
    given: list[int] = []

    async def cancelled_meanwhile(segments: Sequence[Segment]) -> list[int]:
        if not cancel.is_set and any(text[:5] in segment.text for segment in segments):
            states.append(stage.agent.services.meter.state)
            cancel.set()
        elif cancel.is_set:
            given.append(sum(len(segment.text) for segment in segments))
        done: list[int] = await tokenize(segments)
        return done

    await stage.agent.services.transcript(stage.runtime)
    monkeypatch.setattr(stage.engine, "tokenize", cancelled_meanwhile)
    result = await stage.prompt(text, cancel)
    assert (result.stop_reason, states) == ("cancelled", ["prefill"])
    assert given == []
    # What may not fit must not be what the next turn starts with.
    assert prompts(stage) == (["small"] if text == "small" else [])
    monkeypatch.undo()
    stage.script("Hello.")
    assert (await stage.prompt("hi")).text == "Hello."


async def test_a_cancel_does_not_wait_for_the_tokenizer(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " " * 60_000 + "?"
    cancel = Cancel()
    tokenize = stage.engine.tokenize

    async def slow(segments: Sequence[Segment]) -> list[int]:
        done: list[int] = await tokenize(segments)
        if any(text in segment.text for segment in segments) and not cancel.is_set:
            cancel.set()
            await asyncio.Event().wait()
        return done

    await stage.agent.services.transcript(stage.runtime)
    monkeypatch.setattr(stage.engine, "tokenize", slow)
    result = await asyncio.wait_for(stage.prompt(text, cancel), 60)
    assert result.stop_reason == "cancelled"
