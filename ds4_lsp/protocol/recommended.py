"""What ``null`` means in ``ds4.sampling``: the model file's own word, else its makers', else a default. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ds4_lsp.protocol.settings import SamplingSettings

KEYS = {
    "temperature": "general.sampling.temp",
    "topP": "general.sampling.top_p",
    "minP": "general.sampling.min_p",
    "topK": "general.sampling.top_k",
    "repeatPenalty": "general.sampling.penalty_repeat",
}
"""Settings of ``ds4.sampling`` and the GGUF keys that speak of them (llama.cpp's names)."""
DEFAULTS = {"temperature": 0.2, "topP": 1.0, "minP": 0.05, "topK": 0, "repeatPenalty": 1.0}
"""Where nobody says anything. The temperature keeps a small model near its likeliest word, and still lets it leave a
loop, which greedy choice does not; it is to be judged by the evaluation set."""


@dataclass(frozen=True)
class Advice:
    """One recommended value. ``name``: the setting; ``source``: who says so; ``thinking``: only while the model thinks,
    or only while it does not; None: always."""

    name: str
    value: float
    source: str
    thinking: bool | None = None


@dataclass(frozen=True)
class Chosen:
    """The value that holds, and where it came from."""

    value: float
    source: str


@dataclass(frozen=True)
class Family:
    """``pattern`` is looked for in the file's names, lower case, words joined by ``-``; the first family counts.
    ``source``: where the makers recommend ``values``, as read in November 2026."""

    name: str
    pattern: str
    values: Mapping[str, float]
    source: str
    thinking: bool | None = None


def _values(
    temperature: float, top_p: float | None = None, top_k: int | None = None, **more: float
) -> dict[str, float]:
    found = {"temperature": temperature, "topP": top_p, "topK": top_k} | more
    return {name: value for name, value in found.items() if value is not None}


FAMILIES = (
    Family("DeepSeek V4", r"deepseek-v?4", _values(1.0, 0.95), "model card of DeepSeek-V4-Flash, agentic scenarios"),
    Family("DeepSeek V3.2", r"deepseek-v?3\.2", _values(1.0, 0.95), "model card of DeepSeek-V3.2"),
    Family("DeepSeek R1", r"deepseek-r1", _values(0.6, 0.95), "model card of DeepSeek-R1"),
    Family("GLM 4.6 and later", r"glm-?(4\.[6-9]|5)", _values(1.0, 0.95), "Z.ai API reference"),
    Family("GLM 4.5", r"glm-?4\.5", _values(0.6, 0.95), "Z.ai API reference"),
    Family("gpt-oss", r"gpt-oss", _values(1.0, 1.0), "README of openai/gpt-oss"),
    Family("Gemma 3 and 4", r"gemma-?[34]", _values(1.0, 0.95, 64), "model card of gemma-4-31B-it"),
    Family("Kimi K3, K2 Thinking", r"kimi-k(3|2-thinking)", _values(1.0, 1.0), "model card of Kimi-K3, agentic tasks"),
    Family("Kimi K2", r"kimi-k2", _values(0.6), "model card of Kimi-K2-Instruct"),
    Family("MiniMax M2", r"minimax-m2", _values(1.0, 0.95, 40), "model card of MiniMax-M2.5"),
    Family("MiniMax M3", r"minimax-m3", _values(1.0, 0.95), "model card of MiniMax-M3"),
    Family(
        "Qwen3-Coder",
        r"qwen-?3-coder",
        _values(0.7, 0.8, 20, repeatPenalty=1.05),
        "model card of Qwen3-Coder-30B-A3B-Instruct",
    ),
    Family(
        "Qwen3",
        r"qwen-?3",
        _values(0.6, 0.95, 20, minP=0.0),
        "model cards of Qwen3 and Qwen3.6, precise coding tasks",
        thinking=True,
    ),
    Family("Qwen3", r"qwen-?3", _values(0.7, 0.8, 20, minP=0.0), "model cards of Qwen3 and Qwen3.6", thinking=False),
    Family(
        "Qwen2.5-Coder 14B and 32B",
        r"qwen-?2\.5-coder-(14|32)b",
        _values(0.7, 0.8, 20, repeatPenalty=1.05),
        "generation_config.json of Qwen2.5-Coder-32B-Instruct",
    ),
    Family(
        "Qwen2.5-Coder",
        r"qwen-?2\.5-coder",
        _values(0.7, 0.8, 20, repeatPenalty=1.1),
        "generation_config.json of Qwen2.5-Coder-7B-Instruct",
    ),
    Family(
        "Qwen2.5",
        r"qwen-?2\.5",
        _values(0.7, 0.8, 20, repeatPenalty=1.05),
        "generation_config.json of Qwen2.5-7B-Instruct",
    ),
    Family(
        "Mistral Small 3, Devstral",
        r"devstral|mistral-small-3|mistral-small-24b",
        _values(0.15),
        "model card of Mistral-Small-24B-Instruct-2501",
    ),
    Family("Llama 3", r"llama-?3(?![b\d])", _values(0.6, 0.9), "generation_config.json of Llama-3.3-70B-Instruct"),
    Family("SmolLM3", r"smollm3", _values(0.6, 0.95), "generation_config.json of SmolLM3-3B"),
    Family("LFM2", r"lfm-?2", _values(0.3, minP=0.15, repeatPenalty=1.05), "model card of LFM2-1.2B"),
)


def recommended(metadata: Mapping[str, Any]) -> tuple[list[Advice], list[str]]:
    """From a GGUF file's metadata: the advice, the file's own first, and what has to be said of values in the file that
    cannot be used."""
    advice: list[Advice] = []
    problems: list[str] = []
    for name, key in KEYS.items():
        if key not in metadata:
            continue
        value = metadata[key]
        try:
            valid = getattr(SamplingSettings.model_validate({name: value}), _field(name))
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            problems.append(f"the model file's {key} is not valid ({reason}): it has no effect")
            continue
        # The file has 32-bit floats: 0.95 is 0.949999988 there.
        advice.append(Advice(name, float(f"{valid:.6g}") if isinstance(valid, float) else valid, "the model file"))
    return [*advice, *_of_family(metadata)], problems


def _of_family(metadata: Mapping[str, Any]) -> Iterator[Advice]:
    names = [metadata.get(f"general.{part}") for part in ("basename", "name", "architecture")]
    text = re.sub(r"[\s_-]+", "-", " | ".join(name[:200] for name in names if isinstance(name, str)).lower())
    first = next((family for family in FAMILIES if re.search(family.pattern, text)), None)
    for family in FAMILIES:
        if first is not None and family.name == first.name:
            for name, value in family.values.items():
                yield Advice(name, value, family.source, family.thinking)


def chosen(settings: SamplingSettings, advice: Sequence[Advice], *, thinking: bool) -> dict[str, Chosen]:
    """What holds of each setting in ``KEYS``, with its source. ``thinking``: the model may think. Who sets the
    temperature to 0 wants the likeliest token: a penalty that goes with another temperature does not hold then."""
    greedy = settings.temperature == 0
    found = {}
    for name in KEYS:
        value = getattr(settings, _field(name))
        if value is not None:
            found[name] = Chosen(value, f"the setting ds4.sampling.{name}")
            continue
        said = () if greedy and name == "repeatPenalty" else advice
        fitting = [one for one in said if one.name == name and one.thinking in (None, thinking)]
        found[name] = Chosen(fitting[0].value, fitting[0].source) if fitting else Chosen(DEFAULTS[name], "default")
    return found


def _field(name: str) -> str:
    """The attribute of a setting's wire name."""
    return next(field for field, info in SamplingSettings.model_fields.items() if (info.alias or field) == name)
