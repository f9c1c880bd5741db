"""Where a template does not write what our frames do, and why: most contradict themselves."""

from __future__ import annotations

from collections.abc import Mapping

_MOVED = "the template moves its tools to the last user's message; a transcript only grows"
_SORTED = "the template sorts arguments by their names"
_HERMES = "the template closes the last of the results otherwise when more follows than their answer"
_REOPENED = "the template asks for a reply behind results in a way that it leaves out of finished ones"
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "Apertus-8B-Instruct": dict.fromkeys(("result", "results in a row"), _REOPENED),
    "Apriel-1.6-15b-Thinker-fixed": {"thinking": "the sentence that begins a thought is left out of finished replies"},
    "Bielik-11B-v3.0-Instruct": dict.fromkeys(("result", "results in a row"), _REOPENED),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": dict.fromkeys(
        ("one call", "result", "quotes"), "the template closes one call by less than several"
    ),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": {"call after text": "the template writes the text behind the call"},
    "deepseek-ai-DeepSeek-V3.2": dict.fromkeys(("result", "results in a row"), _REOPENED),
    "google-gemma-4-31B-it": {
        **dict.fromkeys(("two calls", "results in a row", "quotes"), _SORTED),
        "call after text": "the template writes the text behind the result",
    },
    "google-gemma-4-31B-it-interleaved": {
        **dict.fromkeys(("two calls", "results in a row", "quotes"), _SORTED),
        "call after text": "the template writes the text behind the call",
    },
    "LFM2.5-8B-A1B": {"quotes": "the template escapes nothing in a Python text, which then is none"},
    "Mistral-Small-3.2-24B-Instruct-2506": dict.fromkeys(("result", "results in a row"), _MOVED),
    "mistralai-Mistral-Nemo-Instruct-2407": dict.fromkeys(("result", "results in a row"), _MOVED),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": dict.fromkeys(("result", "results in a row"), _HERMES),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": dict.fromkeys(("result", "results in a row"), _HERMES),
    "openai-gpt-oss-120b": {"call after text": "the template writes the text as a thought"},
    "openbmb-MiniCPM5-1B": {"quotes": "the template wraps such a text in CDATA"},
    "poolside-Laguna-XS-2.1": {"thinking": "finished thoughts begin with a line break that the opening has not"},
    "poolside-Laguna-XS.2": {"thinking": "finished thoughts begin with a line break that the opening has not"},
    "Reka-Edge": {"quotes": "the template writes letters beyond ASCII as escapes"},
}
"""Template → conversation → reason."""
