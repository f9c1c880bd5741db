"""What stands around the results of calls, cut out of a template's rendering of some."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ds4_lsp.chat.cut import MARK, end_of_reply
from ds4_lsp.chat.probe import ESCAPED, IDS, PROBE, RESULTS, SECOND
from ds4_lsp.chat.split import USER_2
from ds4_lsp.chat.thinking import Leveled, Thinking

_SLOT = re.compile(
    rf"{IDS[0]}|{IDS[1]}|[\w.]*(?:{PROBE}|{SECOND})[\w.]*:\d+|(?<=_id\": \")\d+(?=\")|\0\d\0|{PROBE}|{SECOND}"
)
"""A call's id as given, as made of its name and number, or as a number; a number in a row; a name."""
Kind = Literal["frame", "name", "id", "number"]


@dataclass(frozen=True)
class Piece:
    """A part of a result's frame. ``frame``: text of the template; the others are filled in, as plain text.

    ``number`` counts the results of a row from ``text`` on. ``id``: as the call has it; for a call that has none
    ``text`` says how the template makes one, of ``{name}`` and ``{number}``. ``previous``: of the result before this
    frame.
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
class Known:
    """What is known of the template already."""

    on: Leveled
    off: Leveled
    base: str
    """What all openings of a reply have in common."""
    thinking: Thinking | None
    eos: str


def results_of(said: Sequence[str | None], between: str, calls: str, known: Known) -> ResultFrames:
    derived, eos = known.on.derived, known.eos
    ends = ends_of(derived.assistant_after, eos)
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
    if json.dumps(ESCAPED, ensure_ascii=False)[1:-1] in body:
        return "json"
    return "ascii" if json.dumps(ESCAPED)[1:-1] in body else "no"


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
        pieces += [Piece("frame", text[start : match.start()]), Piece(kind, _made(kind, found), previous=not mine)]
        start = match.end()
    found_all = [*pieces, Piece("frame", text[start:])]
    return tuple(piece for piece in found_all if piece.kind != "frame" or piece.text)


def _made(kind: Kind, found: str) -> str:
    if kind == "number":
        return found.strip("\0")
    if kind == "name" or found in IDS:
        return ""
    return re.sub(r"\d+$", "{number}", found.replace(PROBE, "{name}").replace(SECOND, "{name}"))


def ends_of(assistant_after: str, eos: str) -> list[str]:
    """What may close a reply with calls: as any reply, or by the end token alone."""
    end_text, separator = end_of_reply(assistant_after, eos)
    last = list(MARK.finditer(end_text))
    return [assistant_after, *([last[-1].group() + separator] if last and assistant_after else [])]
