"""What a template writes for calls and their results: samples to recognise a syntax from, and the results' frames."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ds4_lsp.chat.cut import MARK, after, common_start, end_of_reply
from ds4_lsp.chat.probe import ARGUMENTS, IDS, PROBE, SECOND, TOOLS
from ds4_lsp.chat.split import REPLY, SYSTEM, USER, USER_2, Way
from ds4_lsp.chat.template import Job, Message
from ds4_lsp.chat.thinking import Leveled, Thinking
from ds4_lsp.syntax.samples import CallSamples, SampleCall

RESULTS = ("Res1fWsentinel", "Res2gKsentinel")
_ESCAPED = 'Res1fW "é"\nsentinel'
"""Holds what JSON would write otherwise."""
_CONTENTS: tuple[Mapping[str, Any], ...] = ({"content": ""}, {"content": None}, {})
"""What templates take for a reply that only calls."""
_JOBS = 8
_SLOT = re.compile(
    rf"{IDS[0]}|{IDS[1]}|[\w.]*(?:{PROBE}|{SECOND})[\w.]*:\d+|(?<=_id\": \")\d+(?=\")|\0\d\0|{PROBE}|{SECOND}"
)
"""A call's id as given, as made of its name and number, or as a number; a number in a row; a name."""
Kind = Literal["frame", "name", "id", "number"]


@dataclass(frozen=True)
class Piece:
    """A part of a result's frame. ``frame``: text of the template; the others are filled in, as plain text.

    ``number`` counts the results of a row from ``text`` on. ``previous``: of the result before this frame.
    """

    kind: Kind
    text: str = ""
    previous: bool = False


@dataclass(frozen=True)
class ResultFrames:
    """What stands around the results of a reply's calls. A row of results is ``first``, a content, then ``next`` and a
    content for each further one, then ``last`` and what follows: the opening of a reply, or a user's message."""

    first: tuple[Piece, ...]
    next: tuple[Piece, ...]
    last: tuple[Piece, ...]
    end_text: str
    """What ends a reply with calls that did not end by itself; the syntax's own end where that is one."""
    separator: str
    """What stands between a reply with calls and ``first``."""
    escaped: Literal["no", "json", "ascii"]
    """Whether a content is written as the inside of a JSON string, and with its letters escaped."""
    reopened: str | None = None
    """What asks for a reply behind results, where that is not ``Frames.assistant_open``."""
    reopened_nothink: str | None = None


@dataclass(frozen=True)
class Called:
    """What was found: ``samples`` for the room of syntaxes, ``results`` where results have frames of their own."""

    samples: CallSamples
    results: ResultFrames | None
    opened: str
    """How the template opens a finished reply that calls, without a thought."""


@dataclass(frozen=True)
class Known:
    """What is known of the template already."""

    on: Leveled
    off: Leveled
    base: str
    """What all openings of a reply have in common."""
    thinking: Thinking | None
    eos: str


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
            escaped = {**result, "content": _ESCAPED}
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
    ends = _ends(derived.assistant_after, known.eos)
    calls = alone.removesuffix(next((end for end in ends if end and alone.endswith(end)), ""))
    sample: dict[str, str | None] = {"one": calls, "two": None, "after_text": None, "empty": None}
    results = None
    if said[1] is not None and said[1].count(RESULTS[0]) == 1:
        before = said[1].partition(RESULTS[0])[0]
        calls = _calls_in(before, calls, alone, [end for end in ends if end], derived.user_before)
        between = before.removeprefix(calls)
        sample = {"one": calls, "two": _upto(said[3], between), "after_text": _upto(said[4], between)}
        sample["empty"] = _upto(said[5], between)
        results = _results(said, between, calls + (sample["two"] or ""), known)
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
    """How the reply was opened: as one without a thought, or by what all openings share and an empty thought."""
    history, thinking = known.on.derived.history_open, known.thinking
    # A channel that a template writes before an answer is no part of a call's opening.
    if body.startswith(history) and (thinking or known.on.opened != known.base):
        return history
    if not body.startswith(known.base):
        return ""
    if thinking is None:
        return known.base
    marks = [re.escape(mark) for mark in (thinking.open, thinking.close) if mark]
    empty = re.compile(rf"\s*(?:{marks[0]}\s*)?{marks[-1]}\s*")
    found = empty.match(body, len(known.base))
    return body[: found.end()] if found else known.base


def _ends(assistant_after: str, eos: str) -> list[str]:
    """What may close a reply with calls: as any reply, or by the end token alone."""
    end_text, separator = end_of_reply(assistant_after, eos)
    last = list(MARK.finditer(end_text))
    return [assistant_after, *([last[-1].group() + separator] if last and assistant_after else [])]


def _upto(said: str | None, between: str) -> str | None:
    """A reply's calls, before what the template puts between them and the first result."""
    before, result, _ = (said or "").partition(RESULTS[0])
    return before.removesuffix(between) if result and before.endswith(between) else None


def _results(said: Sequence[str | None], between: str, calls: str, known: Known) -> ResultFrames:
    derived, eos = known.on.derived, known.eos
    ends = _ends(derived.assistant_after, eos)
    closed = next((end for end in ends if end and between.startswith(end)), "")
    end_text, separator = end_of_reply(closed, eos) if closed else ("", "")
    found = re.search(f"{RESULTS[0]}(.*?){RESULTS[1]}", said[3] or "", re.DOTALL)
    behind, silent, to_user = ((said[n] or "").partition(RESULTS[0])[2] for n in (1, 2, 7))
    # What stands behind a result when a user's message follows is known to be no opening.
    to_user = to_user.partition(USER_2)[0].removesuffix(derived.user_before)
    last, reopened = _last(behind, known.on.opened, to_user)
    first = between.removeprefix(closed)
    following = found[1] if found else last + first
    first, following = _numbered(first, following)
    return ResultFrames(
        first=_pieces(first, calls, own=0),
        next=_pieces(following, calls, own=1),
        last=_pieces(last, calls, own=1),
        end_text=end_text,
        separator=separator,
        escaped=_escape(said[6]),
        reopened=reopened,
        reopened_nothink=silent.removeprefix(last) if reopened is not None and silent.startswith(last) else None,
    )


def _numbered(first: str, following: str) -> tuple[str, str]:
    """A number that counts the results of a row is replaced by where it starts, in marks that no template has."""
    for match in re.finditer(r'(?<=")\d(?=")', first):
        tail, rest = first[: match.start()], first[match.end() :]
        one = following.replace(SECOND, PROBE).replace(IDS[1], IDS[0])
        if one.endswith(f"{tail}{int(match.group()) + 1}{rest}"):
            cut = len(following) - len(rest.replace(PROBE, SECOND).replace(IDS[0], IDS[1]))
            mark = f"\0{match.group()}\0"
            return tail + mark + rest, following[: cut - 1] + mark + following[cut:]
    return first, following


def _last(behind: str, opened: str, to_user: str) -> tuple[str, str | None]:
    if behind.endswith(opened):
        return behind.removesuffix(opened), None
    if behind.startswith(to_user):
        return to_user, behind.removeprefix(to_user)
    return "", behind


def _escape(body: str | None) -> Literal["no", "json", "ascii"]:
    body = body or ""
    if json.dumps(_ESCAPED, ensure_ascii=False)[1:-1] in body:
        return "json"
    return "ascii" if json.dumps(_ESCAPED)[1:-1] in body else "no"


def _pieces(text: str, calls: str, *, own: int) -> tuple[Piece, ...]:
    """``text`` with its names and ids taken out. ``own``: which of the two probes the frame opens; the other is that
    of the result before. An id made of a name or a number is one where the call has it too."""
    pieces: list[Piece] = []
    start = 0
    for match in _SLOT.finditer(text):
        found = match.group()
        kind: Kind = "name" if found in (PROBE, SECOND) else "number" if "\0" in found else "id"
        if kind == "id" and found not in calls and found not in IDS:
            continue
        mine = found in (IDS[own],) or (PROBE, SECOND)[own] in found or kind == "number" or found.isdigit()
        pieces += [Piece("frame", text[start : match.start()]), Piece(kind, found.strip("\0"), previous=not mine)]
        start = match.end()
    found_all = [*pieces, Piece("frame", text[start:])]
    return tuple(piece for piece in found_all if piece.kind != "frame" or piece.text)
