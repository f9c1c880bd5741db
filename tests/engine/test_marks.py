"""Control tokens that are a syntax's marks: in the text or not, ending the reply or not, waking the grammar.

The models have random weights. Some of the tokens that they choose are made control tokens of other names, which
changes no weight: so the marks are truly sampled.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as C
import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.engine.vocab import Vocabulary
from ds4_lsp.ports import Forced, Quiet, StopRule
from ds4_lsp.protocol.errors import InvalidRequest

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROMPT = list(range(500, 520))
HARMONY = {7: "<|start|>", 8: "<|channel|>", 9: "<|message|>", 10: "<|end|>", 11: "<|call|>", 12: "<|return|>"}
ANALYSIS = "<|channel|>analysis<|message|>"
THINKING = Quiet((ANALYSIS,), ("<|end|>", "<|call|>"), initially=False)
CALL = StopRule("call", "CALL", keep=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def harmony(
    new_driver: Any, tiny: Any, small_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Any]:
    """A vocabulary with gpt-oss's control tokens."""
    path = tiny.llama(
        tmp_path_factory.mktemp("harmony") / "model.gguf",
        small_model,
        named={i: (text, "CONTROL") for i, text in HARMONY.items()},
    )
    driver = new_driver()
    await driver.load(path)
    yield driver
    await driver.client.close()


async def spoken(driver: Any, text: str, **fields: Any) -> Any:
    reply = await driver.generate(PROMPT, 200, forced=Forced(text), **fields)
    await driver.agrees()
    return reply


async def test_an_end_token_is_in_the_text_where_the_request_names_it(harmony: Any) -> None:
    text = "<|channel|>commentary to=functions.list<|message|>{}<|call|>"
    plain = await spoken(harmony, text)
    assert (plain.text, plain.reason) == (text.removesuffix("<|call|>"), "end")
    shown = await spoken(harmony, text, visible=("<|call|>",))
    assert (shown.text, shown.reason, shown.tokens) == (text, "end", plain.tokens)
    assert len(shown.tokens) == len(await harmony.tokens(text, special=True))


async def test_a_stop_text_that_is_visible_belongs_to_the_reply(harmony: Any) -> None:
    [start] = await harmony.tokens("<|start|>", special=True)
    cut = await spoken(harmony, "fine<|start|>user", stop_texts=("<|start|>",))
    assert (cut.text, cut.tokens[-1] == start) == ("fine", False)
    kept = await spoken(harmony, "fine<|start|>user", stop_texts=("<|start|>",), visible=("<|start|>",))
    assert (kept.text, kept.reason, kept.tokens[-1]) == ("fine<|start|>", "end", start)
    letters = await spoken(harmony, "fine (end) more", stop_texts=("(end)",), visible=("(end)",))
    assert (letters.reason, letters.stop_name, letters.text.startswith("fine (end)")) == ("end", None, True)
    assert "more" not in letters.text


async def test_a_channel_s_end_does_not_end_the_reply(harmony: Any) -> None:
    text = f"{ANALYSIS}Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>"
    cut = await spoken(harmony, text, stop_texts=("<|end|>",))
    assert cut.text == f"{ANALYSIS}Hm."
    whole = await spoken(harmony, text, stop_texts=("<|end|>",), goes_on=("<|end|>",))
    assert (whole.text, whole.reason) == (text.removesuffix("<|return|>"), "end")


async def test_what_llama_cpp_takes_for_an_end_goes_on_where_the_request_says_so(harmony: Any) -> None:
    [end] = await harmony.tokens("<|im_end|>", special=True)
    assert end in harmony.client.info.end_ids
    reply = await spoken(harmony, "one<|im_end|>two<|endoftext|>three", goes_on=("<|im_end|>",))
    assert (reply.text, reply.reason) == ("one<|im_end|>two", "end")


async def test_a_script_ends_though_the_usual_end_token_does_not(harmony: Any) -> None:
    ends = ("<|im_end|>", "<|endoftext|>", "<|return|>")
    for goes_on in (ends[:1], ends[:2], ends):
        reply = await spoken(harmony, "said", goes_on=goes_on)
        assert (reply.text, reply.reason) == ("said", "end")


async def test_rules_sleep_in_each_of_several_quiet_spans_of_control_tokens(harmony: Any) -> None:
    text = f"{ANALYSIS}CALL<|end|>a{ANALYSIS}CALL<|end|><|channel|>final<|message|>CALL"
    reply = await spoken(harmony, text + " more", stops=(CALL,), quiet=THINKING, goes_on=("<|end|>",))
    assert (reply.reason, reply.text) == ("stop", text)


async def test_a_quiet_span_may_have_several_marks(harmony: Any) -> None:
    quiet = Quiet(("<think>", "[THINK]"), ("</think>", "[/THINK]"), initially=True)
    text = "CALL</think>a[THINK]CALL[/THINK]b<think>CALL[/THINK] CALL"
    reply = await spoken(harmony, text + " more", stops=(CALL,), quiet=quiet)
    assert (reply.reason, reply.text) == ("stop", text)


@pytest.mark.parametrize(
    "fields",
    [
        {"quiet": Quiet((), ("</think>",), initially=True)},
        {"quiet": Quiet(("<think>",), ("",), initially=True)},
        {"quiet": Quiet(("<think>",), ("x" * 257,), initially=True)},
        {"grammar": "root ::= [a]", "grammar_triggers": ("a", "")},
    ],
)
async def test_marks_that_cannot_be_found_are_refused(engine: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"mark|trigger"):
        await engine.generate(PROMPT, 5, **fields)
    await engine.agrees()


@pytest_asyncio.fixture(loop_scope="session")
async def renamed(engine: Any, fresh: Any, tiny: Any, small_model: Path, tmp_path: Path) -> Any:
    """Makes an engine whose model calls the n-th token of its greedy reply to ``PROMPT`` so."""

    async def make(names: dict[int, str], kind: str = "CONTROL") -> Any:
        free = (await engine.generate(PROMPT, 30)).tokens
        named = {free[place]: (name, kind) for place, name in names.items()}
        driver = await fresh()
        await driver.load(tiny.llama(tmp_path / "renamed.gguf", small_model, named=named))
        return driver

    return make


async def test_a_control_token_wakes_the_grammar(renamed: Any) -> None:
    driver = await renamed({4: "[TOOL_CALLS]"})
    free = await driver.generate(PROMPT, 30)
    before = free.text[: free.text.index("[TOOL_CALLS]")]
    bound = await driver.generate(
        PROMPT, 30, grammar='root ::= "[TOOL_CALLS]" "→0" [1-9]', grammar_triggers=("<function=", "[TOOL_CALLS]")
    )
    assert re.fullmatch(re.escape(before) + r"\[TOOL_CALLS\]→0[1-9]", bound.text)
    assert (bound.reason, bound.tokens[:5]) == ("end", free.tokens[:5])
    await driver.agrees()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_the_first_of_several_triggers_wakes_the_grammar(engine: Any, order: tuple[int, int]) -> None:
    free = await engine.generate(PROMPT, 30)
    early, late = free.text[3:6], free.text[9:12]
    triggers = tuple((early, late)[place] for place in order)
    literal = "".join(f"\\U{ord(c):08X}" for c in early)
    bound = await engine.generate(PROMPT, 30, grammar=f'root ::= "{literal}" "→!"', grammar_triggers=triggers)
    assert (bound.text, bound.reason) == (free.text[:3] + early + "→!", "end")


async def test_an_end_token_that_is_a_mark_may_follow_a_complete_call(renamed: Any) -> None:
    """llama.cpp ends at every token of its list; here only one of them ends the reply."""
    driver = await renamed({6: "<|call|>"})
    free = await driver.generate(PROMPT, 30)
    assert (free.reason, len(free.tokens)) == ("end", 7)
    trigger = free.text[:2]
    grammar = 'root ::= "' + "".join(f"\\U{ord(c):08X}" for c in trigger) + '" "ab"'
    bound = await driver.generate(PROMPT, 30, grammar=grammar, grammar_triggers=(trigger,), visible=("<|call|>",))
    assert bound.reason == "end"
    assert bound.text in (trigger + "ab", trigger + "ab<|call|>")
    await driver.agrees()


async def test_a_call_that_is_complete_and_goes_on_leaves_the_grammar_waiting_for_the_next(engine: Any) -> None:
    info = engine.client.info
    named = ("<|im_end|>", "<|endoftext|>", "<repo_name>", "<file_sep>", "<reponame>")
    ends = [text for text in named if (await engine.tokens(text, special=True))[0] in info.end_ids]
    assert len(ends) == len(info.end_ids)
    reply = await engine.generate(PROMPT, 400, grammar='root ::= "k→"', grammar_triggers=("k",), goes_on=tuple(ends))
    assert reply.reason == "length"
    calls = [match.end() for match in re.finditer("k→", reply.text)]
    assert len(calls) > 3
    assert reply.text.count("k") == len(calls)
    assert all(reply.text.startswith(tuple(ends), at) or at == len(reply.text) for at in calls)
    await engine.agrees()


async def test_a_call_s_value_may_hold_what_begins_a_quiet_span(engine: Any) -> None:
    """While the grammar is in force, no thinking begins: the rule that ends the call stays awake."""
    free = await engine.generate(PROMPT, 30)
    trigger = free.text[:1]
    grammar = 'root ::= "' + f"\\U{ord(trigger):08X}" + '" "<think>" "</call>" [a-z]*'
    bound = await engine.generate(
        PROMPT,
        40,
        grammar=grammar,
        grammar_triggers=(trigger,),
        quiet=Quiet(("<think>",), ("</think>",), initially=False),
        stops=(StopRule("close", "</call>", keep=True),),
    )
    assert (bound.reason, bound.stop_name) == ("stop", "close")
    assert bound.text.startswith(trigger + "<think></call>")


async def test_text_from_outside_gives_no_mark_though_llama_cpp_finds_user_defined_tokens_in_any_text(
    harmony: Any,
) -> None:
    """llama.cpp makes gpt-oss's control tokens user-defined ones."""
    texts = list(HARMONY.values())
    marks = {i for text in texts for i in await harmony.tokens(text, special=True)}
    assert marks == set(HARMONY)
    assert not marks & set(await harmony.tokens("".join(texts * 3) + "<<|start|><|channel|" + "<|message|>>"))


@pytest.fixture(scope="session")
def deepseek(tiny: Any, deepseek_header: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vocabulary]:
    """A real vocabulary with a user-defined ``<think>`` (and a ``<tool_call>`` that the template never writes)."""
    path = tiny.llama(tmp_path_factory.mktemp("deepseek") / "model.gguf", deepseek_header)
    parameters = C.llama_model_default_params()
    parameters.vocab_only = True
    model = C.llama_model_load_from_file(str(path).encode(), parameters)
    template = C.llama_model_chat_template(model, None).decode()
    yield Vocabulary(C.llama_model_get_vocab(model), template)
    C.llama_model_free(model)


PIECES = st.lists(st.sampled_from(["<think>", "</think>", "<｜User｜>", "<", "</", "think>", "｜", "a", "\n", "é"]))


@settings(deadline=None, max_examples=200)
@given(PIECES)
async def test_text_from_outside_stays_the_same_text_and_no_mark(deepseek: Vocabulary, pieces: list[str]) -> None:
    text = "".join(pieces)
    tokens = deepseek.tokenize([(text, False)])
    assert b"".join(map(deepseek.piece, tokens)).decode() == text
    assert not set(tokens) & (deepseek.marks | deepseek.end_ids)
    assert {deepseek.piece(token) for token in deepseek.marks} == {b"<think>", b"</think>"}


async def test_an_end_of_struck_out_html_ends_no_reply(renamed: Any, engine: Any) -> None:
    """llama.cpp holds every ``</s>`` for an end."""
    driver = await renamed({6: "</s>"}, kind="NORMAL")
    free = await driver.generate(PROMPT, 30)
    assert (free.reason, len(free.tokens)) == ("length", 30)
    assert "</s>" in free.text
    trigger = free.text[:1]
    grammar = 'root ::= "' + f"\\U{ord(trigger):08X}" + '" [^\\x00]*'
    bound = await driver.generate(PROMPT, 30, grammar=grammar, grammar_triggers=(trigger,))
    assert bound.tokens[:6] == free.tokens[:6]
    assert bound.tokens[6] != free.tokens[6]
    await driver.agrees()
