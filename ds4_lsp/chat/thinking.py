"""What a template says of thinking: its marks, and what each level of it changes.

Marks are cut out of a finished reply that the template was given with its thoughts; levels are renderings with the
variables set that templates ask for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ds4_lsp.chat.cut import MARK, common_start
from ds4_lsp.chat.split import REPLY, SYSTEM, USER, Derived, Way
from ds4_lsp.chat.template import Job, Message

Level = Literal["off", "on", "low", "medium", "high", "max"]
LEVELS: tuple[Level, ...] = ("off", "on", "low", "medium", "high", "max")
EFFORTS: tuple[Level, ...] = ("low", "medium", "high", "max")
THOUGHT = "Tho9hMsentinel"
_FREE = "zeal"
"""An effort that no model knows: a template that writes it writes any."""
_FREE_EFFORTS: tuple[Level, ...] = ("low", "medium", "high")
"""What a template that writes any word as the effort is asked for: the words that models were trained on."""
_BUDGETS: Mapping[str, int] = {"low": 512, "medium": 4096, "high": 16384}
"""Tokens of thinking, for models that are told a number; ``max`` tells them none. Seed-OSS's template names these."""
_ON: Mapping[str, Any] = {
    "enable_thinking": True,
    "thinking": True,
    "thinking_mode": "enabled",
    "thinking_option": "on",
    "reasoning": True,
}
_OFF: Mapping[str, Any] = {
    "enable_thinking": False,
    "thinking": False,
    "thinking_mode": "disabled",
    "thinking_option": "off",
    "reasoning": False,
}
_NO_EFFORTS = ("none", "minimal", "no_think")
_DUMPED = re.compile(r"""['"]type['"]""")
"""A template that writes a list of parts as it is knows no such parts."""
_SOURCE = re.compile(r"</([\w:]*think[\w:]*)>|\[/(THINK)\]|◁/(think)▷")


def _effort(word: str) -> dict[str, Any]:
    budget = {"thinking_budget": _BUDGETS[word]} if word in _BUDGETS else {}
    return {"reasoning_effort": word, "thinking_effort": word, "reasoning_strength": word, **budget}


MOODS: Mapping[str, Mapping[str, Any]] = {
    "on": _ON,
    "off": _OFF,
    **{f"off {word}": {**_OFF, **_effort(word)} for word in _NO_EFFORTS},
    "off budget": {**_OFF, "thinking_budget": 0},
    **{word: {**_ON, **_effort(word)} for word in EFFORTS},
    "free": {**_ON, **_effort(_FREE)},
}
"""Variables of a template, by what they are tried for."""


@dataclass(frozen=True)
class Thinking:
    """The marks of one model, as texts."""

    open: str
    """Empty where a reply thinks from its beginning on."""
    close: str
    before: str
    """What the model writes before a thought, white space included."""
    after: str
    """What it writes between a thought and its answer, or a call."""
    again: str = ""
    """The beginning of ``assistant_open``, where the model writes it once more behind ``close``."""
    answer: str = ""
    """What the model writes before an answer, thought or none: the name of a channel, say. Not shown."""


@dataclass(frozen=True)
class Leveled:
    """What one level of thinking makes of a model's frames."""

    derived: Derived
    mood: Mapping[str, Any]
    opened: str
    begins: bool
    """Whether ``opened`` ends inside a thought."""


def thought_jobs(way: Way, bos: str, eos: str, called: Mapping[str, Any]) -> list[Job]:
    """A finished reply with its thought, in the forms that templates take. ``called``: a message with a call, for
    those that show thoughts only there."""
    fields = {"reasoning_content": THOUGHT, "reasoning": THOUGHT, "thinking": THOUGHT}
    blocks = [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": REPLY}]
    parts = {"blocks": [{"type": "thoughts", "text": THOUGHT}, {"type": "response", "text": REPLY}]}
    head: list[Message] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}]
    replies: list[Message] = [
        {"role": "assistant", "content": REPLY, **fields},
        {"role": "assistant", "content": blocks},
        {"role": "assistant", "content": parts},
        {**called, "role": "assistant", **fields},
    ]
    return [way.job([*head, reply], bos, eos, opens=False) for reply in replies]


def marks_of(
    template: str, texts: Sequence[str | None], derived: Mapping[str, Derived], call: str
) -> tuple[Thinking | None, str]:
    """The marks, and what all openings of a reply have in common. ``texts``: of ``thought_jobs``; ``call``: a text
    that only a call has."""
    on = derived["on"]
    openings = [on.history_open, *(each.opened for each in derived.values())]
    for text in texts:
        _, user, said = (text or "").partition(USER)
        if not user or said.count(THOUGHT) != 1 or not said.startswith(on.user_after):
            continue
        before, _, rest = said.removeprefix(on.user_after).partition(THOUGHT)
        between, answered, _ = rest.partition(REPLY)
        if _DUMPED.search(before + between):
            continue
        base = _base([before, *openings], between)
        opening = before[len(base) :]
        if answered:
            tails = [derived["off"].opened if "off" in derived else "", on.history_open]
            found = _closing(opening, between, base, [tail.removeprefix(base) for tail in tails])
        else:
            mark = MARK.search(between.partition(call)[0])
            found = mark and Thinking(opening.strip(), mark.group(), opening, between[: mark.end()])
        if found:
            return found, base
    base = common_start(*openings)
    return _from_source(template, on.opened.removeprefix(base) or on.opened), base


def _base(openings: Sequence[str], closing: str) -> str:
    """What the openings have in common, without a mark of thinking that all of them have."""
    base = common_start(*openings)
    found = list(MARK.finditer(base))
    if not found or base[found[-1].end() :].strip():
        return base
    last = found[-1]
    # "<|open|>think": the mark belongs to the word behind it.
    named = last.end() == len(base) and openings[0][len(base) :][:1].isalpha()
    own = closing.strip().startswith(f"{last.group()[0]}/{last.group()[1:]}")
    return base[: last.start()] if named or own else base


def _closing(before: str, between: str, base: str, tails: Sequence[str]) -> Thinking | None:
    if not between.strip():
        return None
    if MARK.search(base) and base in between:
        close, _, answer = between.partition(base)
        return Thinking(before.strip(), close.strip(), before, between, again=base, answer=answer)
    for tail in tails:
        if tail.strip() and between.endswith(tail) and between.removesuffix(tail).strip():
            close = between.removesuffix(tail).strip()
            return Thinking(before.strip(), close, before, between, answer=tail)
    return Thinking(before.strip(), between.strip(), before, between)


def _from_source(template: str, opened: str) -> Thinking | None:
    """Marks that a template takes out of replies, or ends its opening with; white space as R1 was trained with."""
    for match in _SOURCE.finditer(template):
        close = match.group()
        mark = close.replace("/", "", 1)
        if mark in opened and not opened.endswith("\n"):
            return Thinking(mark, close, mark, close)
        return Thinking(mark, close, f"{mark}\n", f"\n{close}\n\n")
    return None


def levels_of(thinking: Thinking | None, base: str, derived: Mapping[str, Derived]) -> dict[Level, Leveled]:
    """What each level is. A model that knows fewer gets the nearest; one that cannot think has one."""
    on = derived["on"]
    if thinking is None:
        plain = Leveled(on, MOODS["on"], on.opened, begins=False)
        return dict.fromkeys(LEVELS, plain)

    def leveled(name: str) -> Leveled:
        opened = derived[name].opened
        begins = not thinking.open or opened.rstrip().endswith(thinking.open)
        return Leveled(derived[name], MOODS[name], opened, begins)

    def closed(name: str) -> bool:
        return name in derived and thinking.close in derived[name].opened.removeprefix(base)

    free = "free" in derived and _FREE in derived["free"].system_before + derived["free"].system_after
    efforts = [e for e in (_FREE_EFFORTS if free else EFFORTS) if e in derived and not closed(e)]
    chosen = next((n for n in ("on", "medium", "high") if n in derived and not closed(n)), "on")
    levels: dict[Level, Leveled] = {"on": leveled(chosen)}
    for effort in EFFORTS:
        wanted = EFFORTS.index(effort)
        near = sorted(efforts, key=lambda e: (abs(EFFORTS.index(e) - wanted), -EFFORTS.index(e)))
        levels[effort] = leveled(near[0]) if near else levels["on"]
    levels["off"] = _off(thinking, base, derived, levels, [n for n in derived if n.startswith("off") and not free])
    return levels


def _off(
    thinking: Thinking,
    base: str,
    derived: Mapping[str, Derived],
    levels: Mapping[Level, Leveled],
    names: Sequence[str],
) -> Leveled:
    """How the template switches thinking off; else how it writes a reply without a thought, said beforehand."""
    on = levels["on"]
    others = [name for name in ("off", *names) if name in derived and derived[name] != on.derived]
    for name in sorted(others, key=lambda n: thinking.close not in derived[n].opened.removeprefix(base)):
        opened = derived[name].opened
        if not (thinking.open and opened.rstrip().endswith(thinking.open)):
            return Leveled(derived[name], MOODS[name], opened, begins=False)
    least = levels["low"]
    after = thinking.after.removesuffix(thinking.answer) if thinking.answer else thinking.after
    return Leveled(least.derived, least.mood, base + thinking.before + after, begins=False)
