"""From a template's renderings of a conversation of sentinels to the texts between its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ds4_lsp.chat.cut import MARK, after, common_end, common_start, gaps
from ds4_lsp.chat.template import Job, Message

# Ordinary words: nothing in them may be trimmed, escaped or taken for markup by a template.
SYSTEM, USER, REPLY, USER_2 = "Sys7qXsentinel", "Usr8kWsentinel", "Rep3vZsentinel", "Two5jYsentinel"
_CHECK = {
    SYSTEM: "You test.\n\nTwo paragraphs: é.",
    USER: "A question\nof two lines?",
    REPLY: "An answer.",
    USER_2: "And then?",
}
ROLES = {SYSTEM: "system", USER: "user", REPLY: "assistant", USER_2: "user"}
APART = "\n\n"
"""Parts the system text from the user's where no template says it."""
JOBS = 5
"""Renderings that one split needs."""


@dataclass(frozen=True)
class Way:
    """How a template is asked: what it needs to render at all, and the variables that set its mood."""

    system: bool = True
    """Whether it has a role for the system text."""
    tools: Sequence[Mapping[str, Any]] | None = None
    """Some templates fail without a list of tools, be it empty."""
    mood: Mapping[str, Any] = field(default_factory=dict)

    def job(self, messages: Sequence[Message], bos: str, eos: str, *, opens: bool) -> Job:
        variables = {
            "bos_token": bos,
            "eos_token": eos,
            "tools": self.tools,
            "documents": None,
            # What few templates ask for by other names; no date (see ``template``).
            "functions": "",
            "datetime": "",
            **self.mood,
        }
        return [m for m in messages if self.system or m["role"] != "system"], {
            **variables,
            "add_generation_prompt": opens,
        }


@dataclass(frozen=True)
class Derived:
    system_before: str
    """Whatever the template begins with included, BOS too."""
    system_after: str
    user_before: str
    user_after: str
    opened: str
    """What asks for a reply."""
    history_open: str
    """How the template opens a finished reply; thinking models differ there from how a new one is opened."""
    assistant_after: str
    merges_system: bool


def jobs(way: Way, bos: str, eos: str) -> list[Job]:
    """The renderings that ``split`` wants, in its order."""

    def job(texts: Sequence[str], opens: bool, words: Mapping[str, str]) -> Job:
        messages = [{"role": ROLES[text], "content": words.get(text, text)} for text in texts]
        return way.job(messages, bos, eos, opens=opens)

    one, two = (SYSTEM, USER), (SYSTEM, USER, REPLY, USER_2)
    return [
        job((SYSTEM, USER, REPLY), False, {}),
        job(two, False, {}),
        job(two, True, {}),
        job(one, True, _CHECK),
        job((*two, REPLY, USER_2), True, _CHECK),
    ]


def split(texts: Sequence[str | None], way: Way, eos: str) -> Derived | None:
    """The frames of a template from its renderings of ``jobs``, or None where it refused, or is no concatenation of
    frames."""
    rendered = [text for text in texts if text]
    if len(rendered) != JOBS:
        return None
    candidates = [rendered, _without_final_eos(rendered, eos), _without_opening(rendered)]
    # Where nothing is asked for, what asks may be hidden in the end of the messages.
    for candidate in reversed(candidates) if rendered[1] == rendered[2] else candidates:
        if (derived := _split(candidate, way.system)) is not None:
            return derived
    return None


def _without_final_eos(texts: Sequence[str], eos: str) -> list[str]:
    """Some templates end a conversation that asks for no reply by EOS: that is no message's frame."""
    return [text.removesuffix(eos) if index < 2 else text for index, text in enumerate(texts)]


def _without_opening(texts: Sequence[str]) -> list[str]:
    """Some templates ask for a reply without being told to, or say something before they ask."""
    replied, closed, *rest = texts
    behind_reply, behind_user = after(replied, REPLY), after(closed, USER_2)
    found = gaps(closed, [REPLY, USER_2])
    if not (behind_reply and behind_user and found):
        return list(texts)
    # The last mark that both have begins the next message, whosoever it is.
    own = list(MARK.finditer(common_start(behind_reply, found[1])))
    opening = common_end(behind_reply[own[-2].end() :] if len(own) > 1 else behind_reply, behind_user)
    return [replied.removesuffix(opening), closed.removesuffix(opening), *rest]


def _split(texts: Sequence[str], with_system: bool) -> Derived | None:
    replied, closed, asked, check_one, check_long = texts
    found = gaps(closed, [SYSTEM, USER, REPLY, USER_2] if with_system else [USER, REPLY, USER_2])
    behind = after(replied, REPLY)
    if found is None or behind is None or not asked.startswith(closed):
        return None
    to_first, to_reply, to_user, user_after = found[-4], found[-3], found[-2], found[-1]
    assistant_after = behind if behind and to_user.startswith(behind) else _closing(behind, to_first, to_user)
    if not to_reply.startswith(user_after):
        return None
    user_before = to_user[len(assistant_after) :]
    standalone = with_system and to_first.endswith(user_before)
    system_after = to_first if with_system else APART
    derived = Derived(
        system_before=found[0],
        system_after=system_after.removesuffix(user_before) if standalone else system_after,
        user_before=user_before,
        user_after=user_after,
        opened=asked[len(closed) :],
        history_open=to_reply[len(user_after) :],
        assistant_after=assistant_after,
        merges_system=not standalone,
    )
    return derived if _checks(derived, with_system, check_one, check_long) else None


def _closing(behind: str, to_first: str, to_user: str) -> str:
    """What closes a reply within a conversation, where the template does not close the last one, or does it
    otherwise: what stands before the frame that the first user message has too."""
    frame = common_end(to_first, to_user)
    if frame != to_user:
        return to_user.removesuffix(frame)
    mark = MARK.match(to_user) if behind else None
    return mark.group() if mark and mark.end() < len(to_user) else ""


def _checks(derived: Derived, with_system: bool, one: str, long: str) -> bool:
    """Whether the frames, put together, give the template's own renderings of another, longer conversation."""
    user = derived.user_before + _CHECK[USER] + derived.user_after
    if not with_system:
        head = derived.system_before + _CHECK[USER] + derived.user_after
    elif derived.merges_system:
        head = derived.system_before + _CHECK[SYSTEM] + derived.system_after
        head += _CHECK[USER] + derived.user_after
    else:
        head = derived.system_before + _CHECK[SYSTEM] + derived.system_after + user
    reply = derived.history_open + _CHECK[REPLY] + derived.assistant_after
    turn = reply + derived.user_before + _CHECK[USER_2] + derived.user_after
    return one == head + derived.opened and long == head + turn + turn + derived.opened
