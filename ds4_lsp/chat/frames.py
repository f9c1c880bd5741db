"""What surrounds a message: the control tokens' texts of one model, fixed for as long as it is loaded.

DeepSeek's are built in; others are cut out of renderings of the model's own template, once, with sentinels for the
messages; ChatML serves a model that has neither.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from ds4_lsp.chat.split import Derived, split_template
from ds4_lsp.chat.template import Render, render_apart
from ds4_lsp.ports import ModelInfo

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
_MARK = re.compile(r"<[^<>\s]{1,48}>|\[/?[A-Z][A-Z_]{2,24}\]")
"""Control tokens as templates write them."""


@dataclass(frozen=True)
class Wrap:
    before: str
    after: str


@dataclass(frozen=True)
class Frames:
    """Texts between messages; all of them are tokenised with specials, and nothing else of a transcript is but the
    built-in prompt. A transcript is ``start``, the system message, and then turns."""

    start: str
    """BOS, where the model wants one."""
    system: Wrap
    user: Wrap
    assistant_open: str
    """Where the model may think."""
    assistant_open_nothink: str
    begins_thinking: bool
    """Whether ``assistant_open`` ends inside ``<think>``."""
    end_text: str
    """The token that ends a reply, for one that did not end by itself."""
    separator: str
    """What stands between the end token and the next message."""
    stop_texts: tuple[str, ...]
    """Control tokens that end a reply besides the model's own: the beginning of somebody else's turn."""
    thinks: bool
    """Whether the model knows ``<think>``."""
    merges_system: bool
    """The system text is the beginning of the first user message, whose frame ``system.before`` opens."""
    source: Literal["deepseek", "template", "chatml"]
    warning: str | None = None


def derive(info: ModelInfo, render: Render = render_apart) -> Frames:
    """The frames of a loaded model. Never raises; ``warning`` says what the user should know. Takes up to
    ``template.TIMEOUT`` seconds where the template is hostile, else a fraction of one."""
    template = info.chat_template or ""
    if _is_deepseek(info, template):
        return _deepseek(info, template)
    if not template:
        return _chatml(info, "The model file has no chat template: ChatML is used. A base model may answer badly.")
    derived = split_template(template, info.bos, info.eos, render)
    if derived is None:
        return _chatml(info, "The model's chat template could not be used: ChatML is used instead.")
    return _from_template(info, template, derived)


def _is_deepseek(info: ModelInfo, template: str) -> bool:
    if template:
        return "<｜User｜>" in template and "<｜Assistant｜>" in template
    return info.eos == "<｜end▁of▁sentence｜>"


def _deepseek(info: ModelInfo, template: str) -> Frames:
    """DeepSeek V3 and later: BOS, the system text as it is, ``<｜User｜>`` and ``<｜Assistant｜>``. Thinking is opened
    for the model, or closed before it begins. V3 of 2024 does not think: its template has no such mark."""
    thinks = not template or "think>" in template
    # R1 and its distillates were trained with a line break after the mark, V3.1 and later without, and with a lone
    # closing mark where they shall not think.
    hybrid = not template or "thinking" in template
    opened = "<｜Assistant｜>"
    closed = THINK_CLOSE if hybrid else f"{THINK_OPEN}\n\n{THINK_CLOSE}\n\n"
    return Frames(
        start=info.bos or "<｜begin▁of▁sentence｜>",
        system=Wrap("", ""),
        user=Wrap("<｜User｜>", ""),
        assistant_open=opened + ((THINK_OPEN if hybrid else f"{THINK_OPEN}\n") if thinks else ""),
        assistant_open_nothink=opened + (closed if thinks else ""),
        begins_thinking=thinks,
        end_text=info.eos or "<｜end▁of▁sentence｜>",
        separator="",
        stop_texts=("<｜User｜>", "<｜Assistant｜>"),
        thinks=thinks,
        merges_system=False,
        source="deepseek",
    )


def _chatml(info: ModelInfo, warning: str) -> Frames:
    opened = "<|im_start|>assistant\n"
    return Frames(
        start=info.bos if info.add_bos else "",
        system=Wrap("<|im_start|>system\n", "<|im_end|>\n"),
        user=Wrap("<|im_start|>user\n", "<|im_end|>\n"),
        assistant_open=opened,
        assistant_open_nothink=opened,
        begins_thinking=False,
        end_text="<|im_end|>",
        separator="\n",
        stop_texts=("<|im_start|>", "<|im_end|>"),
        thinks=False,
        merges_system=False,
        source="chatml",
        warning=warning,
    )


def _from_template(info: ModelInfo, template: str, derived: Derived) -> Frames:
    start = info.bos if info.add_bos else ""
    end_text, separator = _split_end(derived.assistant_after, info.eos)
    thinks = THINK_OPEN in template or THINK_CLOSE in template
    nothink = derived.open_nothink
    if thinks and THINK_CLOSE not in nothink:
        opened = nothink.rstrip("\n")
        nothink = f"{opened if opened.endswith(THINK_OPEN) else nothink + THINK_OPEN}\n\n{THINK_CLOSE}\n\n"
    frames = Frames(
        start=start,
        system=Wrap(derived.system_before.removeprefix(start), derived.system_after),
        user=Wrap(derived.user_before, derived.user_after),
        assistant_open=derived.open_think,
        assistant_open_nothink=nothink,
        begins_thinking=derived.open_think.rstrip().endswith(THINK_OPEN),
        end_text=end_text,
        separator=separator,
        stop_texts=(),
        thinks=thinks,
        merges_system=derived.merges_system,
        source="template",
    )
    return replace(frames, stop_texts=_stop_texts(frames))


def _split_end(after: str, eos: str) -> tuple[str, str]:
    """The end token with what precedes it, and the rest. A template that closes a reply by nothing gets EOS."""
    if eos and eos in after:
        cut = after.index(eos) + len(eos)
        return after[:cut], after[cut:]
    if mark := _MARK.search(after):
        return after[: mark.end()], after[mark.end() :]
    return eos, after


def _stop_texts(frames: Frames) -> tuple[str, ...]:
    texts = [frames.user.before, frames.system.before, frames.assistant_open, frames.end_text]
    marks = [match.group() for text in texts if (match := _MARK.search(text))]
    return tuple(dict.fromkeys(mark for mark in marks if mark not in (THINK_OPEN, THINK_CLOSE)))
