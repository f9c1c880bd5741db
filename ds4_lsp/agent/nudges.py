"""Replies that leave the user with nothing: an announcement without a deed, or no word at all. Pure.

Each is told to the model once in a turn. What comes of it after that stands; where it is nothing, the user is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["silent", "announced", "claimed", "unread"]

TOLD: dict[Kind, str] = {
    "silent": "[Your reply had no text and no call. Answer the user in plain text, or make a call.]",
    "claimed": "[No call of this turn has changed a file, and code in a reply changes none. Make the change with a "
    "call; if none was asked for, say so in one sentence.]",
    "unread": "[This was no readable call, and nothing was done: its JSON is not valid. In a text a quote is written "
    'as \\" and a line break as \\n. Make the call again; as `old` and `new` give only the lines that change.]',
    "announced": "[You said what you would do, but made no call. Make it now. If all is done, say so in one sentence.]",
}
SILENT = "[Stopped: the model gave no answer, also when it was asked for one. Rephrase the request and try again.]"
ONLY_THOUGHT = (
    "[Stopped: the model thought, but gave no answer, also when it was asked for one. Rephrase the request, or turn "
    "thinking off, and try again.]"
)

UNREADABLE = "[Stopped: the model's call could not be read, also when it was told how to write it. Nothing was done.]"
UNCHANGED = "[No file was changed in this turn, whatever the answer says.]"

_LONGEST = 600
"""Code points of a reply above which it is an answer, however it ends."""
_ANNOUNCES = re.compile(
    r"(?:^|[.!?:\n]\s*|\b(?:now|then|so|first|next|okay|ok|sure|great),?\s+)(?:(?:now|first|next),?\s+)?"
    r"(?:I(?:'ll| will| am going to|'m going to| need to| shall| should)|let(?:'s| me| us)|we(?:'ll| will| need to))"
    r"\s+(?:now\s+|first\s+|then\s+|just\s+)?"
    r"(?!know\b|be\b|help\b|assist\b|not\b|note\b|summari|explain|answer)[a-z]",
    re.IGNORECASE,
)


_DONE = r"(?:updated|changed|modified|replaced|renamed|added|inserted|removed|deleted|created|written|fixed|corrected)"
_CLAIMS = re.compile(
    rf"\b(?:has|have) (?:now )?been (?:successfully )?{_DONE}\b"
    rf"|\b(?:was|were|is|are) (?:now |successfully ){{1,2}}{_DONE}\b"
    rf"|\bI(?:'ve| have)? (?:now |just |successfully )*{_DONE}\b"
    rf"|\b(?:successfully|the) {_DONE} (?:file|code|version|content)"
    rf"|^{_DONE} ",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:change|rename|fix|replace|add|remove|delete|create|make|set|update|insert|move|edit|correct|increase|write)\b",
    re.IGNORECASE,
)


def claims_a_change(said: str, prompt: str) -> bool:
    """Whether a reply tells of a change as done, or shows the code of one that was asked for."""
    return _CLAIMS.search(said) is not None or ("```" in said and _ASKS.search(prompt) is not None)


_CALL = re.compile(r'(?:```(?:json)?\s*|<tool_call>\s*)?\{\s*"name"\s*:\s*"\w+"\s*,\s*"(?:arguments|parameters)"\s*:')


def is_unread_call(said: str) -> bool:
    """Whether a reply is a call in JSON that was not taken as one."""
    return _CALL.match(said.strip()) is not None


@dataclass
class Nudges:
    """Of one turn, whose prompt is ``prompt``."""

    prompt: str = ""
    _told: set[Kind] = field(default_factory=set)

    def judge(self, said: str, *, changed: bool = True) -> Kind | None:
        """What is wrong with a reply without calls that said ``said``, where the model has not been told yet.
        ``changed``: whether a call of the turn has changed something."""
        kind = "unread" if is_unread_call(said) else silent_or_announced(said)
        if kind is None and not changed and claims_a_change(said, self.prompt):
            kind = "claimed"
        if kind is None or kind in self._told:
            return None
        self._told.add(kind)
        return kind


def silent_or_announced(said: str) -> Kind | None:
    """``announced``: the last sentence says what the speaker is about to do."""
    text = said.strip()
    if not text:
        return "silent"
    if len(text) > _LONGEST or text.endswith("?"):
        return None
    last = re.split(r"(?<=[.!?])\s+|\n+", text.rstrip(" .:!…"))[-1]
    return "announced" if text.endswith((":", "…", "...")) or _ANNOUNCES.search(last) else None
