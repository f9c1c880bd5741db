"""Looking things up in a session's own log. Pure: events in, text out.

What a checkpoint stands for is still there: every prompt, reply and result, by the number of its event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ds4_lsp.session.events import Event

MOST_HITS = 12
"""Messages that a search shows."""
AROUND = 120
"""Code points shown on each side of what was found."""
LINES_SHOWN = 2
"""Places shown of one message."""

Said = Callable[[str, bool], str]
"""(raw reply, whether it began in thinking) to what was said in it: no thinking, no calls."""


@dataclass(frozen=True)
class Message:
    """One message of the session. ``who``: as the model is told."""

    seq: int
    who: str
    text: str


@dataclass(frozen=True)
class Hit:
    """``score``: how well it fits; ``places``: what stands around what was found."""

    message: Message
    score: int
    places: tuple[str, ...]


def messages(events: Iterable[Event], said: Said) -> Iterator[Message]:
    """Everything that was said or shown, as it was first: not checkpoints, shortened copies, nor what `recall` gave."""
    for event in events:
        if event.surface_op is None or event.surface_op["op"] != "append":
            continue
        data = event.data
        if event.type == "assistant/message":
            yield Message(event.seq, "you", said(data["text"], bool(data.get("thinking"))))
        elif event.type == "tool/result":
            if data["name"] != "recall":
                yield Message(event.seq, f"result of {data['name']}", data["text"])
        elif data.get("kind", "prompt") == "prompt":
            yield Message(event.seq, "the user", data["text"])


def search(found: Iterable[Message], query: str) -> list[Hit]:
    """The messages with the whole query, then those with most of its words; among equals the newest first."""
    wanted = _folded(query.strip())
    words = list(dict.fromkeys(wanted.split()))
    hits = []
    for message in found:
        text = _folded(message.text)
        at = _all(text, wanted)
        if at:
            hits.append(Hit(message, len(words) + 1, _places(message.text, at, len(query))))
            continue
        there = [word for word in words if word in text]
        # One word of many says little.
        if there and 2 * len(there) >= len(words):
            first = max(there, key=len)
            hits.append(Hit(message, len(there), _places(message.text, _all(text, first), len(first))))
    return sorted(hits, key=lambda hit: (-hit.score, -hit.message.seq))


def render(hits: Sequence[Hit], query: str) -> str:
    """What a search found, best first."""
    if not hits:
        return f'[nothing in this session has "{query}"; try fewer or other words]'
    lines = []
    for hit in hits[:MOST_HITS]:
        lines += [f"event {hit.message.seq} ({hit.message.who}):", *(f"  {place}" for place in hit.places)]
    more = f"; {len(hits) - MOST_HITS} more messages have it: narrow the query" if len(hits) > MOST_HITS else ""
    return "\n".join([*lines, f"[recall with event=NUMBER shows a message whole{more}]"])


def _folded(text: str) -> str:
    """In lower case, where that leaves every code point in its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def _all(text: str, wanted: str) -> list[int]:
    found: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(found) < LINES_SHOWN:
        found.append(at)
        at = text.find(wanted, at + len(wanted) + AROUND)
    return found


def _places(text: str, found: Sequence[int], size: int) -> tuple[str, ...]:
    return tuple(_around(text, at, at + size) for at in found)


def _around(text: str, start: int, end: int) -> str:
    low, high = max(0, start - AROUND), min(len(text), end + AROUND)
    piece = " ".join(text[low:high].split())
    return f"{'… ' if low else ''}{piece}{' …' if high < len(text) else ''}"
