"""``ds4:`` documents: a session's transcript, and a checkpoint's summary beside what it shadows. Reads only.

``ds4:/session/ID`` and ``ds4:/session/ID/checkpoint/SEQ`` (the seq of the ``compact/summary`` event).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds4_lsp.protocol.errors import InvalidRequest, NotFound
from ds4_lsp.session import history
from ds4_lsp.syntax.events import Text, Thinking
from ds4_lsp.syntax.parser import StreamParser

if TYPE_CHECKING:
    from ds4_lsp.agent.sessions import Sessions

_SESSION = re.compile(r"ds4:/*session/([^/?#]+?)(?:\.md)?(?:/checkpoint/(\d+)(?:\.md)?)?$")


_LONGEST_SEQ = 18
"""Digits. More than any log has events."""


def plain_text(raw: str, thinking: bool) -> str:
    """An assistant message as the user read it: without thinking and calls."""
    return _said(raw, thinking, Text)


def thinking_text(raw: str, thinking: bool) -> str:
    """The thinking of an assistant message, all of it as one text; empty where there is none."""
    return _said(raw, thinking, Thinking)


def _said(raw: str, thinking: bool, kind: type[Text] | type[Thinking]) -> str:
    parser = StreamParser({}, thinking=thinking)
    events = [*parser.feed(raw), *parser.finish()]
    return "".join(event.delta for event in events if isinstance(event, kind)).strip()


def render(sessions: Sessions, uri: str) -> str:
    """Raises ``NotFound`` for a URI that names nothing, ``InvalidRequest`` for a number that none can be."""
    match = _SESSION.match(uri)
    if match is None:
        raise NotFound(f"{uri} is no ds4 document. Use ds4:/session/ID or ds4:/session/ID/checkpoint/SEQ.")
    identity, checkpoint = match.groups()
    _, events = sessions.reading(identity)
    if checkpoint is None:
        return history.export_markdown(events, clean=plain_text)
    if len(checkpoint) > _LONGEST_SEQ:
        raise InvalidRequest(f"A checkpoint's number has no {len(checkpoint)} digits. ds4.showHistory has it as seq.")
    text = history.checkpoint_markdown(events, int(checkpoint), clean=plain_text)
    if text is None:
        raise NotFound(f"{uri}: the session has no checkpoint with seq {checkpoint}.")
    return text
