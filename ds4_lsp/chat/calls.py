"""What a template writes for calls: samples to recognise a syntax from, and whether results have frames."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4_lsp.chat.cut import MARK, after, common_start
from ds4_lsp.chat.probe import ARGUMENTS, ESCAPED, IDS, PROBE, RESULTS, SECOND, TOOLS
from ds4_lsp.chat.results import Known, ResultFrames, ends_of, results_of
from ds4_lsp.chat.split import REPLY, SYSTEM, USER, USER_2, Way
from ds4_lsp.chat.template import Job, Message
from ds4_lsp.syntax.samples import CallSamples, SampleCall

_CONTENTS: tuple[Mapping[str, Any], ...] = ({"content": ""}, {"content": None}, {})
"""What templates take for a reply that only calls."""
_JOBS = 8


@dataclass(frozen=True)
class Called:
    """What was found: ``samples`` for the room of syntaxes, ``results`` where results have frames of their own."""

    samples: CallSamples
    results: ResultFrames | None
    opened: str
    """How the template opens a finished reply that calls, without a thought."""


def call_jobs(way: Way, off: Mapping[str, Any], bos: str, eos: str) -> list[Job]:
    """Replies with calls and their results, in the forms that templates take. ``off``: the mood without thinking."""
    jobs: list[Job] = []
    asked = Way(way.system, TOOLS, way.mood)
    silent = Way(way.system, TOOLS, off)
    head: list[Message] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}]
    for written in (False, True):
        for content in _CONTENTS:

            def called(said: Mapping[str, Any], *arguments: Mapping[str, Any], written: bool = written) -> Message:
                return {"role": "assistant", **said, "tool_calls": _calls(arguments, written)}

            one, two = called(content, ARGUMENTS[0]), called(content, *ARGUMENTS)
            text, empty = called({"content": REPLY}, ARGUMENTS[0]), called(content, {})
            result, second = _result(0), _result(1)
            escaped = {**result, "content": ESCAPED}
            user: Message = {"role": "user", "content": USER_2}
            conversations = (
                (asked, [one], False),
                (asked, [one, result], True),
                (silent, [one, result], True),
                (asked, [two, result, second], True),
                (asked, [text, result], True),
                (asked, [empty, result], True),
                (asked, [one, escaped], True),
                (asked, [one, result, user], True),
            )
            jobs += [each.job([*head, *more], bos, eos, opens=opens) for each, more, opens in conversations]
    return jobs


def _calls(arguments: Sequence[Mapping[str, Any]], written: bool) -> list[dict[str, Any]]:
    return [
        {
            "id": IDS[number],
            "type": "function",
            "function": {
                "name": (PROBE, SECOND)[number],
                "arguments": json.dumps(each, ensure_ascii=False) if written else each,
            },
        }
        for number, each in enumerate(arguments)
    ]


def _result(number: int) -> Message:
    return {"role": "tool", "name": (PROBE, SECOND)[number], "tool_call_id": IDS[number], "content": RESULTS[number]}


def calls_of(texts: Sequence[str | None], known: Known) -> Called | None:
    """Samples and frames from the renderings of ``call_jobs``; None where the template writes no calls."""
    forms = [texts[start : start + _JOBS] for start in range(0, len(texts), _JOBS)]
    whole = [form for form in forms if _is_call(form[0])]
    for form in sorted(whole, key=lambda form: sum(text is None for text in form)):
        if (found := _cut(form, known)) is not None:
            return found
    return None


def _is_call(text: str | None) -> bool:
    """Whether arguments were taken as they are: neither a text quoted once more nor an object dumped."""
    said = (text or "").partition(USER)[2]
    return PROBE in said and "alphaqz" in said and '\\"alphaqz' not in said and "{'alphaqz" not in said


def _cut(form: Sequence[str | None], known: Known) -> Called | None:
    derived = known.on.derived
    said = [_said(text, known) for text in form]
    alone = said[0]
    if alone is None:
        return None
    ends = ends_of(derived.assistant_after, known.eos)
    calls = alone.removesuffix(next((end for end in ends if end and alone.endswith(end)), ""))
    sample: dict[str, str | None] = {"one": calls, "two": None, "after_text": None, "empty": None}
    results = None
    if said[1] is not None and said[1].count(RESULTS[0]) == 1:
        before = said[1].partition(RESULTS[0])[0]
        calls = _calls_in(before, calls, alone, [end for end in ends if end], derived.user_before)
        between = before.removeprefix(calls)
        sample = {"one": calls, "two": _upto(said[3], between), "after_text": _upto(said[4], between)}
        sample["empty"] = _upto(said[5], between)
        results = results_of(said, between, calls + (sample["two"] or ""), known)
    first, second = (
        SampleCall(name, arguments, call_id)
        for name, arguments, call_id in zip((PROBE, SECOND), ARGUMENTS, IDS, strict=True)
    )
    opened = _opening(_body(form[1], known) or _body(form[0], known) or "", known)
    return Called(CallSamples(first, second, REPLY, **sample), results, opened)


def _calls_in(before: str, calls: str, alone: str, ends: Sequence[str], user_before: str) -> str:
    """A reply's calls, of what stands before their result. ``calls``: as they were with nothing behind them."""
    if before.startswith(calls) and calls != alone.removesuffix(calls):
        return calls
    for end in ends:
        if end in before:
            return before[: before.rindex(end)]
    common = common_start(alone, before)
    beginning = MARK.search(user_before)
    return common.partition(beginning.group())[0] if beginning else common


def _said(text: str | None, known: Known) -> str | None:
    """What follows the first user's message and the opening of the reply."""
    body = _body(text, known)
    return None if body is None else body.removeprefix(_opening(body, known))


def _body(text: str | None, known: Known) -> str | None:
    body, user_after = after(text or "", USER), known.on.derived.user_after
    return body.removeprefix(user_after) if body is not None and body.startswith(user_after) else None


def _opening(body: str, known: Known) -> str:
    """How the reply was opened: as one without a thought, or by what all openings share; an empty thought included."""
    history, thinking = known.on.derived.history_open, known.thinking
    # A channel that a template writes before an answer is no part of a call's opening.
    if body.startswith(history) and (thinking or known.on.opened != known.base):
        opening = history
    elif body.startswith(known.base):
        opening = known.base
    else:
        return ""
    if thinking is None:
        return opening
    begun = rf"(?:{re.escape(thinking.open)}\s*)?" if thinking.open else ""
    found = re.compile(rf"\s*{begun}{re.escape(thinking.close)}\s*").match(body, len(opening))
    return body[: found.end()] if found else opening


def _upto(said: str | None, between: str) -> str | None:
    """A reply's calls, before what the template puts between them and the first result."""
    before, result, _ = (said or "").partition(RESULTS[0])
    return before.removesuffix(between) if result and before.endswith(between) else None
