"""What surrounds a message: the control tokens' texts of one model, fixed for as long as it is loaded.

They are cut out of renderings of the model's own template, once, with sentinels for the messages. DeepSeek's are built
in for a file that has no template; ChatML serves every other one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from ds4_lsp.chat.calls import Called
from ds4_lsp.chat.cut import end_of_reply, marks
from ds4_lsp.chat.results import ResultFrames
from ds4_lsp.chat.split import Derived, Way
from ds4_lsp.chat.thinking import Level, Leveled, Thinking
from ds4_lsp.ports import ModelInfo

THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"
PLAIN_THINKING = Thinking(THINK_OPEN, THINK_CLOSE, THINK_OPEN, THINK_CLOSE)


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
    """Whether ``assistant_open`` ends inside a thought."""
    end_text: str
    """The token that ends a reply, for one that did not end by itself."""
    separator: str
    """What stands between the end token and the next message."""
    stop_texts: tuple[str, ...]
    """Control tokens that end a reply besides the model's own: the beginning of somebody else's turn."""
    thinking: Thinking | None
    """The model's marks of thinking, if it knows any."""
    merges_system: bool
    """The system text is the beginning of the first user message, whose frame ``system.before`` opens."""
    source: Literal["deepseek", "template", "chatml"]
    environment_in_user: bool = False
    """What describes the machine stands behind the head, at the beginning of the first user message."""
    warning: str | None = None
    history_open: str = ""
    """How the template opens a finished reply that has no thought."""
    levels: Mapping[Level, Leveled] = field(default_factory=dict)
    """What each level of thinking changes."""
    called: Called | None = None
    """What the template writes for calls and results, if it knows tools."""
    way: Way = field(default_factory=Way)
    """How the template is asked at this level."""

    @property
    def thinks(self) -> bool:
        return self.thinking is not None

    @property
    def results(self) -> ResultFrames | None:
        """What stands around results, where the template has a place for them."""
        return self.called.results if self.called else None

    @property
    def answer(self) -> str:
        """What a model writes before the text of an answer, beyond ``assistant_open``: a channel's name, say."""
        if self.thinking:
            return self.thinking.answer
        return self.history_open.removeprefix(self.assistant_open)

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """All control tokens of the frames. In text from outside none of them may be found by a tokenizer."""
        texts = [self.start, self.system.before, self.system.after, self.user.before, self.user.after]
        texts += [self.assistant_open, self.assistant_open_nothink, self.end_text, self.separator, self.history_open]
        if self.results:
            texts += [piece.text for piece in (*self.results.first, *self.results.next, *self.results.last)]
        return tuple(dict.fromkeys([*(mark for text in texts for mark in marks(text)), *self.inner_marks]))

    @cached_property
    def inner_marks(self) -> tuple[str, ...]:
        """Control tokens inside a reply, which do not end it even where the vocabulary says that they do."""
        texts = [self.answer]
        if self.thinking:
            texts += [self.thinking.before, self.thinking.after, self.thinking.open, self.thinking.close]
        if self.called:
            samples = self.called.samples
            texts += [each for each in (samples.one, samples.two, samples.after_text, samples.empty) if each]
        return tuple(dict.fromkeys(mark for text in texts for mark in marks(text)))

    def at(self, level: Level) -> Frames:
        """The frames at a level of thinking. Where its head or its user messages differ, a transcript begins anew."""
        if level not in self.levels:
            return self
        chosen = self.levels[level]
        return replace(
            self,
            system=_system(chosen.derived, self.start),
            user=Wrap(chosen.derived.user_before, chosen.derived.user_after),
            assistant_open=chosen.opened,
            begins_thinking=chosen.begins,
            way=replace(self.way, mood=chosen.mood),
        )


def deepseek(info: ModelInfo) -> Frames:
    """DeepSeek V3.1 and later: BOS, the system text as it is, ``<｜User｜>`` and ``<｜Assistant｜>``. Thinking is
    opened for the model, or closed before it begins."""
    opened = "<｜Assistant｜>"
    return Frames(
        start=info.bos or "<｜begin▁of▁sentence｜>",
        system=Wrap("", ""),
        user=Wrap("<｜User｜>", ""),
        assistant_open=opened + THINK_OPEN,
        assistant_open_nothink=opened + THINK_CLOSE,
        begins_thinking=True,
        end_text=info.eos or "<｜end▁of▁sentence｜>",
        separator="",
        stop_texts=("<｜User｜>", "<｜Assistant｜>"),
        thinking=PLAIN_THINKING,
        merges_system=False,
        source="deepseek",
        history_open=opened + THINK_CLOSE,
    )


def chatml(info: ModelInfo, warning: str) -> Frames:
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
        thinking=None,
        merges_system=False,
        source="chatml",
        warning=warning,
        history_open=opened,
    )


def from_template(
    info: ModelInfo,
    way: Way,
    thinking: Thinking | None,
    levels: Mapping[Level, Leveled],
    called: Called | None,
) -> Frames:
    """The frames of a template that was understood."""
    on, off = levels["on"], levels["off"]
    start = info.bos if info.add_bos else ""
    end_text, separator = end_of_reply(on.derived.assistant_after, info.eos, on.derived.user_before)
    frames = Frames(
        start=start,
        system=_system(on.derived, start),
        user=Wrap(on.derived.user_before, on.derived.user_after),
        assistant_open=on.opened,
        assistant_open_nothink=off.opened,
        begins_thinking=on.begins,
        end_text=end_text,
        separator=separator,
        stop_texts=(),
        thinking=thinking,
        merges_system=on.derived.merges_system,
        source="template",
        history_open=on.derived.history_open,
        levels=levels,
        called=called,
        way=replace(way, mood=on.mood),
    )
    return replace(frames, stop_texts=_stop_texts(frames))


def _system(derived: Derived, start: str) -> Wrap:
    return Wrap(derived.system_before.removeprefix(start), derived.system_after)


def _stop_texts(frames: Frames) -> tuple[str, ...]:
    texts = [frames.user.before, frames.system.before, frames.assistant_open]
    first = [found[0] for text in texts if (found := marks(text))]
    ends = [found[-1]] if (found := marks(frames.end_text)) else []
    inner = {*frames.inner_marks, THINK_OPEN, THINK_CLOSE}
    return tuple(dict.fromkeys(mark for mark in [*first, *ends] if mark not in inner))
