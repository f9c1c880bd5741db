"""What of the files is before the model now, as the log tells it: the same when it happens and after a restart.

Lines count as seen when a reply follows the result or the prompt that shows them: they were evaluated in a request. A
checkpoint takes away what it stands for, and leaves what its own ledger says was shown. A result that is shortened
keeps the lines that can still be read in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ds4_lsp.edits.uris import canonical
from ds4_lsp.edits.views import FileViews, Ranges, clip, merge
from ds4_lsp.session.events import Event

Key = tuple[str, str]

_NUMBERED = re.compile(r"^(\d+) ", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """Lines of a text of a file, by canonical URI. ``whole``: a checkpoint claims all that was shown with that tag."""

    uri: str
    tag: str
    ranges: Ranges
    blob: str | None
    whole: bool = False


class Seen:
    """The fold. Memory: what is shown by the messages on the surface."""

    def __init__(self) -> None:
        self._places: dict[int, list[Place]] = {}
        """By the seq of the message that shows them."""
        self._unread: dict[int, None] = {}

    def apply(self, event: Event) -> list[Place]:
        """Take in the next event; what the model has now seen by it for the first time."""
        op = event.surface_op
        if op is None:
            return []
        if op["op"] == "replace":
            self._replace(event)
            return []
        if event.type == "assistant/message":
            read = [place for seq in self._unread for place in self._places.get(seq, ())]
            self._unread.clear()
            return read
        places = _shown(event)
        if places:
            self._places[event.seq] = places
            self._unread[event.seq] = None
        return []

    def _replace(self, event: Event) -> None:
        gone = [seq for seq in event.sources if seq in self._places]
        unread = [seq for seq in gone if seq in self._unread]
        left = _shown(event)
        if event.type == "tool/result":
            left = _readable(left, event.data["text"])
        for seq in gone:
            del self._places[seq]
            self._unread.pop(seq, None)
        if left:
            # First: what is shown after it is what was shown last.
            self._places = {event.seq: left, **self._places}
            if unread and event.type == "tool/result":
                self._unread[event.seq] = None

    def left(self) -> dict[Key, Ranges | None]:
        """What is seen, by canonical URI and tag: the lines, or None for all that ever were shown with that tag."""
        ranges: dict[Key, list[tuple[int, int]]] = {}
        whole: dict[Key, None] = {}
        for seq, places in self._places.items():
            if seq in self._unread:
                continue
            for place in places:
                key = (place.uri, place.tag)
                ranges.setdefault(key, []).extend(place.ranges)
                if place.whole:
                    whole[key] = None
        return {key: None if key in whole else merge(pairs) for key, pairs in ranges.items()}

    def places(self) -> Iterable[tuple[Place, bool]]:
        """Every place that is left, in order, and whether it was read."""
        for seq, places in self._places.items():
            for place in places:
                yield place, seq not in self._unread


def follow(seen: Seen, views: FileViews, event: Event) -> None:
    """Let the views know what ``event`` means for them: to be called for each event as it is logged."""
    for place in seen.apply(event):
        views.restore(place.uri, place.tag, None, place.ranges)
    if event.surface_op is not None and event.surface_op["op"] == "replace":
        views.keep(seen.left())


def _shown(event: Event) -> list[Place]:
    data = event.data
    claimed = event.type == "user/message" and data.get("kind") == "checkpoint"
    shown = [*(data.get("shown") or ()), *(p for c in data.get("context") or () for p in c.get("shown") or ())]
    return [
        Place(
            canonical(place["uri"]),
            place["fileTag"],
            merge((pair[0], pair[1]) for pair in place["ranges"]),
            place.get("blob"),
            claimed and not place.get("partial"),
        )
        for place in shown
    ]


def _readable(places: list[Place], text: str) -> list[Place]:
    """What can still be read of the one file in a shortened result: lines that stand there with their numbers. With
    several files nobody can say which line is of which."""
    if len(places) != 1:
        return []
    numbers = merge((int(number), int(number)) for number in _NUMBERED.findall(text))
    kept = merge(part for start, end in places[0].ranges for part in clip(numbers, start, end))
    return [replace(places[0], ranges=kept)] if kept else []
