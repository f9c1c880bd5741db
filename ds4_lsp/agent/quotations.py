"""Tells a call that a model makes from one that it repeats after a file, a command's output or a pasted text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ds4_lsp.agent.rendering import user_text
from ds4_lsp.session.events import Event

_NO_LETTER = re.compile(r"[\W\d_]+")
_LEAST = 12
"""Letters of a call below which it is no quotation: too little to be one by chance or by design."""


class Quotations:
    """Called with a call's text: whether its letters stand in something that came from outside, in that order.

    Only letters count: line numbers, escapes, indentation and quotation marks differ between a file and its quotation.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._letters: str | None = None

    def __call__(self, call: str) -> bool:
        letters = _NO_LETTER.sub("", call)
        if len(letters) < _LEAST:
            return False
        if self._letters is None:
            self._letters = "\n".join(_NO_LETTER.sub("", text) for text in map(_outside, self._events) if text)
        return letters in self._letters


def _outside(event: Event) -> str:
    """The text of a node that came from outside: no reply, and no word of our own."""
    if event.type == "tool/result":
        return str(event.data["text"])
    if event.type == "user/message" and event.data.get("kind", "prompt") == "prompt":
        return user_text(event.data)
    return ""
