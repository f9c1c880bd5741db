"""Where a sampling value comes from: the settings, the file, the model's makers, a default."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.protocol.recommended import DEFAULTS, FAMILIES, KEYS, chosen, recommended
from ds4_lsp.protocol.settings import SamplingSettings


def holds(metadata: dict[str, Any], *, thinking: bool = False, **given_: Any) -> dict[str, float]:
    advice, problems = recommended(metadata)
    assert problems == []
    return {name: one.value for name, one in chosen(SamplingSettings(**given_), advice, thinking=thinking).items()}


def test_where_nobody_says_anything_the_defaults_hold() -> None:
    assert holds({}) == holds({"general.name": "Own Model", "general.architecture": "llama"}) == DEFAULTS


def test_a_setting_wins_over_the_file_and_the_file_over_the_makers_each_value_for_itself() -> None:
    metadata = {
        "general.name": "Qwen2.5 Coder 1.5B Instruct GGUF",
        "general.basename": "Qwen2.5-Coder",
        "general.sampling.temp": 0.30000001192092896,
        "general.sampling.top_k": 10,
    }
    advice, _ = recommended(metadata)
    found = chosen(SamplingSettings(top_k=5), advice, thinking=False)
    assert {name: (one.value, one.source.split()[0]) for name, one in found.items()} == {
        "temperature": (0.3, "the"),
        "topP": (0.8, "generation_config.json"),
        "minP": (0.05, "default"),
        "topK": (5, "the"),
        "repeatPenalty": (1.1, "generation_config.json"),
    }
    assert (found["temperature"].source, found["topK"].source) == ("the model file", "the setting ds4.sampling.topK")


@pytest.mark.parametrize(
    ("metadata", "family"),
    [
        ({"general.basename": "Qwen2.5-Coder", "general.architecture": "qwen2"}, "Qwen2.5-Coder"),
        ({"general.basename": "Qwen2.5-Coder", "general.name": "Qwen2.5 Coder 32B"}, "Qwen2.5-Coder 14B and 32B"),
        ({"general.name": "Qwen2.5 7B Instruct"}, "Qwen2.5"),
        ({"general.name": "Qwen3 Coder 30B A3B Instruct", "general.architecture": "qwen3moe"}, "Qwen3-Coder"),
        ({"general.architecture": "qwen3"}, "Qwen3"),
        ({"general.name": "Qwen3.6 27B"}, "Qwen3"),
        ({"general.basename": "DeepSeek-R1-Distill-Qwen", "general.architecture": "qwen2"}, "DeepSeek R1"),
        ({"general.basename": "DeepSeek-R1-Distill-Llama", "general.architecture": "llama"}, "DeepSeek R1"),
        ({"general.name": "GLM 4.5 Air", "general.architecture": "glm4moe"}, "GLM 4.5"),
        ({"general.name": "GLM 4.6", "general.architecture": "glm4moe"}, "GLM 4.6 and later"),
        ({"general.architecture": "gpt-oss"}, "gpt-oss"),
        ({"general.name": "Gemma 3 270m It", "general.architecture": "gemma3"}, "Gemma 3 and 4"),
        ({"general.name": "Meta Llama 3.1 8B Instruct", "general.architecture": "llama"}, "Llama 3"),
        ({"general.name": "Devstral Small 2507", "general.architecture": "llama"}, "Mistral Small 3, Devstral"),
        ({"general.architecture": "lfm2"}, "LFM2"),
        ({"general.basename": "Open-Llama", "general.name": "Open Llama 3B", "general.architecture": "llama"}, None),
        ({"general.basename": "llama", "general.name": "3.5 of something"}, None),
        ({"general.name": "Smollm2 135M 8k Lc100K Mix1 Ep2", "general.architecture": "llama"}, None),
    ],
)
def test_a_family_is_known_by_the_names_in_the_file(metadata: dict[str, Any], family: str | None) -> None:
    sources = {advice.source for advice in recommended(metadata)[0]}
    assert sources == {known.source for known in FAMILIES if known.name == family}


def test_a_model_that_thinks_may_be_sampled_otherwise() -> None:
    qwen = {"general.architecture": "qwen3"}
    assert (holds(qwen, thinking=True)["temperature"], holds(qwen)["temperature"]) == (0.6, 0.7)


def test_greedy_choice_is_not_penalised_unless_somebody_says_so() -> None:
    qwen = {"general.basename": "Qwen2.5-Coder"}
    assert holds(qwen)["repeatPenalty"] == 1.1
    assert holds(qwen, temperature=0.0)["repeatPenalty"] == 1.0
    assert holds(qwen, temperature=0.0, repeat_penalty=1.2)["repeatPenalty"] == 1.2


def test_each_family_has_a_source_valid_values_and_is_reached() -> None:
    for family in FAMILIES:
        assert family.source
        assert SamplingSettings.model_validate(dict(family.values))
        assert set(family.values) <= set(KEYS)
    patterns = [family.pattern for family in FAMILIES]
    names = [
        "deepseek-v4",
        "deepseek-v3.2",
        "deepseek-r1",
        "glm-5",
        "glm-4.5",
        "gpt-oss",
        "gemma-4",
        "kimi-k3",
        "kimi-k2",
        "minimax-m2",
    ]
    names += [
        "minimax-m3",
        "qwen3-coder",
        "qwen3",
        "qwen2.5-coder-32b",
        "qwen2.5-coder",
        "qwen2.5",
        "devstral",
        "llama-3",
        "smollm3",
        "lfm2",
    ]
    firsts = [next(pattern for pattern in patterns if re.search(pattern, name)) for name in names]
    assert firsts == list(dict.fromkeys(patterns))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", float("nan")),
        ("temperature", -1.0),
        ("topP", 0.0),
        ("minP", 2.0),
        ("topK", -40),
        ("topK", True),
        ("repeatPenalty", "1.1"),
        ("repeatPenalty", float("inf")),
        ("temperature", [0.7]),
    ],
)
def test_a_value_in_the_file_that_cannot_be_used_is_told_and_has_no_effect(name: str, value: Any) -> None:
    advice, [problem] = recommended({KEYS[name]: value})
    assert KEYS[name] in problem
    assert {key: one.value for key, one in chosen(SamplingSettings(), advice, thinking=False).items()} == DEFAULTS


JUNK = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers(), max_size=2)
)
NAMES = st.sampled_from(["general.name", "general.basename", "general.architecture", *KEYS.values()])


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(NAMES, JUNK))
def test_whatever_a_file_says_what_holds_can_be_sampled_with(metadata: dict[str, Any]) -> None:
    advice, problems = recommended(metadata)
    for thinking in (True, False):
        found = {name: one.value for name, one in chosen(SamplingSettings(), advice, thinking=thinking).items()}
        assert SamplingSettings.model_validate(found)
    assert len(problems) <= len(KEYS)
