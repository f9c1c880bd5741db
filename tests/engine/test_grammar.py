"""The grammar binds the reply from its trigger on, wherever the trigger begins and ends within tokens."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ds4_lsp.ports import Forced, Quiet, Sampling, StopRule

pytestmark = pytest.mark.asyncio(loop_scope="session")


def literal(text: str) -> str:
    return '"' + "".join(f"\\U{ord(c):08X}" for c in text) + '"'


async def test_a_small_model_cannot_write_an_invalid_call(real: Any) -> None:
    grammar = 'root ::= "<call>{\\"n\\": " [0-9] [0-9]? "}</call>"'
    stop = StopRule("call", r"</call>", keep=True)
    prompt = await real.tokens("one: <call>1</call>\ntwo: <call>2</call>\nthree: <call>3</call>\nfour:")
    free = await real.generate(prompt, 40, stops=(stop,))
    assert free.text.strip().startswith("<call>4")
    bound = await real.generate(prompt, 40, stops=(stop,), grammar=grammar, grammar_triggers=("<call>",))
    assert bound.stop_name == "call"
    assert bound.text.strip().startswith('<call>{"n": ')
    assert bound.text.rstrip().endswith("}</call>")
    await real.agrees()


@pytest.mark.parametrize("first", range(0, 24, 3))
@pytest.mark.parametrize("length", [1, 5, 11])
async def test_a_trigger_at_any_place_within_tokens_starts_the_grammar(engine: Any, first: int, length: int) -> None:
    prompt = list(range(500, 520))
    free = await engine.generate(prompt, 30, sampling=Sampling(0.5, seed=3))
    trigger = free.text[first : first + length]
    assert len(trigger) == length
    at = free.text.index(trigger)
    grammar = f'root ::= {literal(trigger)} "→0" [1-9] " end"'
    bound = await engine.generate(
        prompt,
        60,
        sampling=Sampling(0.5, seed=3),
        grammar=grammar,
        grammar_triggers=(trigger,),
        stops=(StopRule("end", " end", keep=True),),
    )
    before, call = bound.text[:at], bound.text[at:]
    assert before == free.text[:at]
    assert call.startswith(trigger + "→0")
    assert call.endswith(" end")
    await engine.agrees()


async def test_a_grammar_that_is_complete_allows_only_the_end(engine: Any) -> None:
    prompt = list(range(500, 520))
    free = await engine.generate(prompt, 3)
    trigger = free.text[:1]
    reply = await engine.generate(prompt, 30, grammar=f'root ::= {literal(trigger)} "ab"', grammar_triggers=(trigger,))
    assert (reply.text, reply.reason) == (trigger + "ab", "end")


async def test_the_grammar_sleeps_in_a_quiet_span(engine: Any) -> None:
    prompt = list(range(500, 520))
    free = await engine.generate(prompt, 10)
    trigger = free.text[2]
    reply = await engine.generate(
        prompt,
        10,
        grammar=f'root ::= {literal(trigger)} "never"',
        grammar_triggers=(trigger,),
        quiet=Quiet(("<think>",), ("</think>",), initially=True),
    )
    assert reply.tokens == free.tokens


async def test_without_its_trigger_the_grammar_changes_nothing(engine: Any) -> None:
    prompt = list(range(500, 520))
    free = await engine.generate(prompt, 10)
    assert (await engine.generate(prompt, 10, grammar='root ::= "Ω"', grammar_triggers=("Ω",))).tokens == free.tokens


async def test_a_grammar_that_cannot_be_met_is_switched_off_and_logged(
    engine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = list(range(500, 520))
    free = await engine.generate(prompt, 10)
    three_tokens = await engine.generate(prompt, 3)
    with caplog.at_level(logging.WARNING, "ds4_lsp.engine"):
        reply = await engine.generate(prompt, 10, grammar='root ::= "Ω"', grammar_triggers=(three_tokens.text,))
        await engine.agrees()
    assert reply.tokens == free.tokens
    assert "the grammar is off" in caplog.text


async def test_forced_tokens_are_not_bound(engine: Any) -> None:
    reply = await engine.generate(
        list(range(500, 520)), 20, grammar='root ::= "<" "x"', grammar_triggers=("<",), forced=Forced("a <y")
    )
    assert reply.text == "a <y"


async def test_a_grammar_that_admits_everything_changes_no_choice(engine: Any) -> None:
    prompt = list(range(500, 520))
    sampling = Sampling(0.8, 0.95, 0.01, 3, top_k=40, repeat_penalty=1.3)
    trigger = (await engine.generate(prompt, 4, sampling=sampling)).text[-1:]
    free = await engine.generate(prompt, 60, sampling=sampling, grammar_triggers=(trigger,))
    grammar = f"root ::= {literal(trigger)} [^\\x00]*"
    bound = await engine.generate(prompt, 60, sampling=sampling, grammar=grammar, grammar_triggers=(trigger,))
    assert bound.tokens == free.tokens


async def test_the_penalty_rests_in_a_call(engine: Any) -> None:
    """So strong a penalty allows no token a second time."""
    prompt = list(range(500, 520))
    forbidding = Sampling(repeat_penalty=1e6)
    before = await engine.generate(prompt, 60, sampling=forbidding)
    assert len(set(before.tokens)) == 60
    trigger = (await engine.generate(prompt, 1)).text
    call = await engine.generate(prompt, 60, sampling=forbidding, grammar_triggers=(trigger,))
    assert call.tokens == (await engine.generate(prompt, 60)).tokens
    grammar = f"root ::= {literal(trigger)} [0-9]{{20}}"
    digits = await engine.generate(prompt, 60, sampling=forbidding, grammar=grammar, grammar_triggers=(trigger,))
    assert len(digits.text.removeprefix(trigger)) == 20
