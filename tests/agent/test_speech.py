"""Which syntax a model is spoken to in, and what its thinking looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syntax.samples import FIRST, SAMPLES

from ds4_lsp.agent.speech import speech
from ds4_lsp.chat.calls import Called
from ds4_lsp.chat.frames import PLAIN_THINKING, Frames, chatml, deepseek
from ds4_lsp.ports import ModelInfo

INFO = ModelInfo("", "", "", 0, 0, 0, 0, None, "", "", False, frozenset(), "", False, (), True, 1)


def frames(name: str | None = "hermes") -> Frames:
    called = Called(SAMPLES[name], None, "") if name else None
    return replace(chatml(INFO, ""), called=called, thinking=PLAIN_THINKING)


def test_a_template_with_tools_gives_its_own_syntax_and_one_without_is_taught_dsml() -> None:
    assert (speech(frames(), "auto").syntax.name, speech(frames(), "auto").native) == ("json", True)
    assert (speech(frames(None), "auto").syntax.name, speech(frames(None), "auto").native) == ("dsml", False)
    assert speech(deepseek(INFO), "auto").syntax.name == "dsml"


@pytest.mark.parametrize("model", ["Qwen2.5 Coder 1.5B Instruct GGUF", "qwen2.5-coder-7b-instruct"])
def test_a_family_that_evidence_speaks_against_is_taught_unless_it_is_told_otherwise(model: str) -> None:
    assert speech(frames(), "auto", model).syntax.name == "dsml"
    assert speech(frames(), "template", model).native
    assert speech(frames(), "auto", "Qwen3 Coder 30B").native
    understood = [syntax.name for syntax in speech(frames(), "auto", model).understood]
    assert understood == ["dsml", "json", "tagged", "loose"]


def test_a_named_syntax_is_taken_and_is_native_only_where_the_template_writes_the_same() -> None:
    assert [speech(frames(), name).native for name in ("hermes", "dsml", "xml")] == [True, False, False]
    assert speech(frames(None), "template").note is not None


def test_a_syntax_that_does_not_exist_is_told_of_and_taken_as_auto() -> None:
    chosen = speech(frames(), "klingon")
    assert chosen.native
    assert "klingon" in (chosen.note or "")


@pytest.mark.parametrize("name", ["hermes", "xml"])
def test_an_empty_thought_that_precedes_calls_is_no_mark_of_theirs(name: str) -> None:
    samples = SAMPLES[name]
    thoughtful = replace(
        samples,
        **{one: f"<think>\n\n</think>\n\n{getattr(samples, one)}" for one in ("one", "two", "after_text", "empty")},
    )
    plain, chosen = (speech(replace(frames(), called=Called(each, None, "")), "auto") for each in (samples, thoughtful))
    assert chosen.syntax.entries == plain.syntax.entries
    assert chosen.syntax.render([(FIRST.name, {}, "")]) == plain.syntax.render([(FIRST.name, {}, "")])
