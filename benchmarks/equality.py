"""Conversations written once by our frames and once by the model's own template: the two must be equal.

Thoughts of earlier turns are compared apart: a transcript keeps them as they were sampled, and many templates take them
away or write empty ones.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from benchmarks.conversations import CONVERSATIONS, IDS, SPECS, Conversation, Turn
from ds4_lsp.chat import render
from ds4_lsp.chat.frames import Frames
from ds4_lsp.chat.render import Result
from ds4_lsp.chat.template import Job, Message, Render, render_apart
from ds4_lsp.chat.tools import schemas, with_tools
from ds4_lsp.ports import ModelInfo, Segment
from ds4_lsp.syntax.block import Syntax

_ENDS = {"deepseek": "<｜end▁of▁sentence｜>", "Cohere": "<|END_OF_TURN_TOKEN|>"}
"""EOS by what a template's name begins with, where frames depend on it."""


def info_of(name: str, template: str) -> ModelInfo:
    """A model with that template: what the rest of its file would say is left to defaults."""
    eos = next((end for start, end in _ENDS.items() if name.startswith(start)), "<EOS>")
    return ModelInfo(
        path=f"{name}.gguf",
        name=name,
        architecture="",
        size=0,
        context_size=0,
        trained_context=0,
        vocabulary_size=0,
        chat_template=template,
        bos="<BOS>",
        eos=eos,
        add_bos=True,
        end_ids=frozenset(),
        fingerprint="",
        gpu=False,
        devices=(),
        truncatable=True,
        batch_size=0,
    )


def ours(frames: Frames, conversation: Conversation, syntax: Syntax | None) -> str:
    """As our frames write it. ``frames``: with the tools where the conversation has any."""
    segments: list[Segment] = []
    if frames.environment_in_user:
        # What describes the machine is the beginning of the first user's message: here there is nothing of it.
        segments.append(Segment(frames.start + frames.system.before + conversation.system + frames.system.after))
    else:
        segments += render.system(frames, conversation.system, "")
    for number, turn in enumerate(conversation.turns):
        segments += render.user(frames, turn.user, first=number == 0)
        if turn.calls:
            assert syntax is not None and frames.called is not None
            calls = [(name, arguments, IDS[index]) for index, (name, arguments) in enumerate(turn.calls)]
            opened = frames.called.opened
            if turn.said and not opened.endswith(frames.answer):
                opened += frames.answer
            segments.append(Segment(opened + turn.said + syntax.render(calls, text_precedes=bool(turn.said))))
            segments += render.assistant_close(frames, False, called=True)
            row: list[Result] = []
            for (name, _, call_id), text in zip(calls, turn.results, strict=True):
                shown = Result(name, "" if _makes_ids(frames) else call_id, text)
                segments += render.result(frames, shown, row)
                row.append(shown)
            segments += render.results_end(frames, row)
        if turn.answer is not None:
            segments += _answer(frames, turn)
    if conversation.opens:
        segments += render.assistant_open(frames, True, results=bool(conversation.turns[-1].calls))[0]
    return "".join(segment.text for segment in segments)


def _makes_ids(frames: Frames) -> bool:
    """Whether the template takes no notice of a call's id, and makes one."""
    return frames.results is not None and any(p.kind == "id" and p.text for p in frames.results.first)


def _answer(frames: Frames, turn: Turn) -> list[Segment]:
    opened = frames.history_open
    if turn.thought and frames.thinking:
        opened = frames.assistant_open if frames.begins_thinking else frames.assistant_open + frames.thinking.before
        opened += turn.thought + frames.thinking.after
    elif turn.calls and frames.results and frames.results.reopened is not None:
        opened = frames.results.reopened
    return [Segment(opened + (turn.answer or "")), *render.assistant_close(frames, False)]


def theirs(info: ModelInfo, frames: Frames, renderer: Render = render_apart) -> dict[str, str | None]:
    """Each conversation as the model's own template writes it, in the first form that it takes; None where it takes
    none. One process for all."""
    asked = [(each, _jobs(info, frames, each)) for each in CONVERSATIONS]
    texts = iter(renderer(info.chat_template or "", [job for _, jobs in asked for job in jobs]))
    found: dict[str, str | None] = {}
    for conversation, jobs in asked:
        forms = [next(texts) for _ in jobs]
        calls = any(turn.calls for turn in conversation.turns)
        whole = [text for text in forms if text and (not calls or _names_arguments(text, conversation))]
        found[conversation.name] = whole[0] if whole else None
    return found


def _names_arguments(text: str, conversation: Conversation) -> bool:
    turn = conversation.turns[0]
    said = text.partition(turn.user)[2]
    whole = turn.said in said and all(f"{name}" in said for name, _ in turn.calls)
    return whole and "path" in said and '\\"path' not in said and "{'path" not in said


def _jobs(info: ModelInfo, frames: Frames, conversation: Conversation) -> list[Job]:

    jobs: list[Job] = []
    tools = schemas(SPECS) if conversation.tools else frames.way.tools
    way = replace(frames.way, tools=tools)
    if conversation.tools:
        way = replace(way, mood={**way.mood, "functions": json.dumps(tools)})
    for written in (False, True):
        for form in (0, 1, 2):
            messages: list[Message] = [{"role": "system", "content": conversation.system}]
            if not frames.way.system:
                messages = []
            for number, turn in enumerate(conversation.turns):
                merged = number == 0 and not frames.way.system
                user = f"{conversation.system}\n\n{turn.user}" if merged else turn.user
                messages.append({"role": "user", "content": user})
                messages += _called(turn, written, form)
                if turn.answer is not None:
                    messages.append(
                        {
                            "role": "assistant",
                            **_thought(turn, form),
                        }
                    )
            jobs.append(way.job(messages, info.bos, info.eos, opens=conversation.opens))
    return jobs


def _thought(turn: Turn, form: int) -> dict[str, Any]:
    if not turn.thought:
        return {"content": turn.answer}
    fields = {"reasoning_content": turn.thought, "reasoning": turn.thought, "thinking": turn.thought}
    blocks = [{"type": "thinking", "thinking": turn.thought}, {"type": "text", "text": turn.answer}]
    parts = {"blocks": [{"type": "thoughts", "text": turn.thought}, {"type": "response", "text": turn.answer}]}
    return ({"content": turn.answer, **fields}, {"content": blocks}, {"content": parts})[form]


def _called(turn: Turn, written: bool, form: int) -> list[Message]:

    if not turn.calls:
        return []
    calls = [
        {
            "id": IDS[index],
            "type": "function",
            "function": {
                "name": name,
                "arguments": json.dumps(arguments, ensure_ascii=False) if written else arguments,
            },
        }
        for index, (name, arguments) in enumerate(turn.calls)
    ]
    content: dict[str, Any] = {"content": turn.said} if turn.said else ({"content": ""}, {"content": None}, {})[form]
    results = [
        {"role": "tool", "name": name, "tool_call_id": IDS[index], "content": text}
        for index, ((name, _), text) in enumerate(zip(turn.calls, turn.results, strict=True))
    ]
    return [{"role": "assistant", **content, "tool_calls": calls}, *results]


def equals(
    info: ModelInfo, frames: Frames, syntax: Syntax | None, renderer: Render = render_apart
) -> dict[str, bool | None]:
    """Whether both are the same, character for character, by the conversation's name; None where the template cannot
    write such a thing."""
    written = theirs(info, frames, renderer)
    # A template without a place for tools leaves them to the system text.
    tooled = with_tools(info, frames, SPECS, renderer) or frames
    return {
        each.name: _equal(tooled if each.tools else frames, each, syntax, written[each.name]) for each in CONVERSATIONS
    }


def _equal(frames: Frames, conversation: Conversation, syntax: Syntax | None, other: str | None) -> bool | None:
    thinks = conversation.name == "thinking"
    if other is None or (thinks and (frames.thinking is None or conversation.turns[0].thought not in other)):
        return None
    if conversation.tools and (frames.results is None or syntax is None):
        return None
    mine = ours(frames, conversation, syntax)
    if not other.startswith(frames.start):
        # The vocabulary wants a BOS that the template leaves to the tokenizer.
        mine = mine.removeprefix(frames.start)
    if not conversation.opens:
        # How a template closes its last reply is no matter of frames.
        answer = conversation.turns[-1].answer or ""
        return mine.partition(answer)[0] == other.partition(answer)[0]
    return _without_empty_thoughts(mine, frames) == _without_empty_thoughts(other, frames)


def _without_empty_thoughts(text: str, frames: Frames) -> str:
    thinking = frames.thinking
    if thinking is None:
        return text
    opening = rf"(?:{re.escape(thinking.open)}\s*)?" if thinking.open else ""
    return re.sub(rf"{opening}{re.escape(thinking.close + thinking.again)}\s*", "", text)
