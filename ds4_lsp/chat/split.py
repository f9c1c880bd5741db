"""From a template's renderings of a conversation of sentinels to the texts between its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ds4_lsp.chat.template import Job, Message, Render

# Ordinary words: nothing in them may be trimmed, escaped or taken for markup by a template.
SYSTEM, USER, REPLY, USER_2 = "Sys7qXsentinel", "Usr8kWsentinel", "Rep3vZsentinel", "Two5jYsentinel"
_CHECK = {
    SYSTEM: "You test.\n\nTwo paragraphs: é.",
    USER: "A question\nof two lines?",
    REPLY: "An answer.",
    USER_2: "And then?",
}


@dataclass(frozen=True)
class Derived:
    system_before: str
    """Whatever the template begins with included, BOS too."""
    system_after: str
    user_before: str
    user_after: str
    open_think: str
    open_nothink: str
    history_open: str
    """How the template opens a finished reply; thinking models differ there from how a new one is opened."""
    assistant_after: str
    merges_system: bool


def split_template(template: str, bos: str, eos: str, render: Render) -> Derived | None:
    """The frames of ``template``, or None where it does not render, or is no concatenation of frames."""
    jobs = [job for with_system in (True, False) for job in _jobs(with_system, bos, eos)]
    results = render(template, jobs)
    half = len(results) // 2
    for with_system, texts in ((True, results[:half]), (False, results[half:])):
        for candidate in (texts, _without_final_eos(texts, eos)):
            if (derived := _split(candidate, with_system)) is not None:
                return derived
    return None


def _jobs(with_system: bool, bos: str, eos: str) -> list[Job]:
    variables = {"bos_token": bos, "eos_token": eos, "tools": None, "documents": None}

    def job(texts: Sequence[str], opens: bool, thinking: bool, words: dict[str, str]) -> Job:
        roles = {SYSTEM: "system", USER: "user", REPLY: "assistant", USER_2: "user"}
        messages: list[Message] = [
            {"role": roles[text], "content": words.get(text, text)} for text in texts if with_system or text != SYSTEM
        ]
        thinks = {"enable_thinking": thinking, "thinking": thinking}
        return messages, {**variables, **thinks, "add_generation_prompt": opens}

    one, two = (SYSTEM, USER), (SYSTEM, USER, REPLY, USER_2)
    return [
        job((SYSTEM, USER, REPLY), False, True, {}),
        job(two, False, True, {}),
        job(two, True, True, {}),
        job(two, True, False, {}),
        job(one, True, True, _CHECK),
        job((*two, REPLY, USER_2), True, True, _CHECK),
    ]


def _without_final_eos(texts: Sequence[str | None], eos: str) -> list[str | None]:
    """Some templates end a conversation that asks for no reply by EOS: that is no message's frame."""
    return [text.removesuffix(eos) if text and index < 2 else text for index, text in enumerate(texts)]


def _split(texts: Sequence[str | None], with_system: bool) -> Derived | None:
    replied, closed, thinking, nothinking, check_one, check_long = texts
    if None in texts or not (replied and closed and thinking and nothinking):
        return None
    sentinels = [SYSTEM, USER, REPLY, USER_2] if with_system else [USER, REPLY, USER_2]
    gaps = _gaps(closed, sentinels)
    assistant_after = _after(replied, REPLY)
    opens = [_opening(text, closed) for text in (thinking, nothinking)]
    if gaps is None or assistant_after is None or None in opens:
        return None
    to_user = gaps[-2]
    if not to_user.startswith(assistant_after):
        return None
    user_before, user_after = to_user[len(assistant_after) :], gaps[-1]
    to_reply = gaps[-3]
    if not to_reply.startswith(user_after):
        return None
    standalone = with_system and gaps[1].endswith(user_before)
    # Where no template says it, a blank line parts the system text from the user's.
    system_after = gaps[1] if with_system else "\n\n"
    if standalone:
        system_after = system_after.removesuffix(user_before)
    derived = Derived(
        system_before=gaps[0],
        system_after=system_after,
        user_before=user_before,
        user_after=user_after,
        open_think=opens[0] or "",
        open_nothink=opens[1] or "",
        history_open=to_reply[len(user_after) :],
        assistant_after=assistant_after,
        merges_system=not standalone,
    )
    return derived if _checks(derived, with_system, check_one, check_long) else None


def _gaps(text: str, sentinels: Sequence[str]) -> list[str] | None:
    """What stands before, between and after the sentinels; None unless each occurs once, in order."""
    gaps: list[str] = []
    for sentinel in sentinels:
        if text.count(sentinel) != 1:
            return None
        gap, _, text = text.partition(sentinel)
        gaps.append(gap)
    return [*gaps, text]


def _after(text: str, sentinel: str) -> str | None:
    return text.partition(sentinel)[2] if text.count(sentinel) == 1 else None


def _opening(opened: str, closed: str) -> str | None:
    return opened[len(closed) :] if opened.startswith(closed) else None


def _checks(derived: Derived, with_system: bool, one: str | None, long: str | None) -> bool:
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
    return one == head + derived.open_think and long == head + turn + turn + derived.open_think
