"""What a session has been shown of its files.

A view is one text of one file, by its tag, and which of its lines the author has seen. It is what makes an edit of
changed text decidable: the guard compares the text that was seen with the text that is there.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ds4_lsp.edits.text import file_tag
from ds4_lsp.edits.uris import canonical

Ranges = tuple[tuple[int, int], ...]
"""1-based inclusive line ranges, sorted, neither overlapping nor touching."""

TEXT_BYTES = 64 * 1024 * 1024
"""Memory for texts. What is dropped first was used longest ago; an edit against a dropped text is refused, and reading
again brings it back."""
MOST_VIEWS = 4096


@dataclass(frozen=True)
class View:
    """``numbered``: lines seen with their numbers, which an edit by line number may name. ``known``: these and lines
    whose text the author knows without the number, such as those that it wrote itself. ``text`` None: no longer kept,
    so that only an edit of the very same text can be judged."""

    text: str | None
    numbered: Ranges = ()
    known: Ranges = ()


class FileViews:
    """The views of one session, by canonical URI and tag. Not thread-safe: it belongs to the session's loop."""

    def __init__(self, text_bytes: int = TEXT_BYTES) -> None:
        self._limit = text_bytes
        self._views: OrderedDict[tuple[str, str], View] = OrderedDict()
        self._latest: dict[str, str] = {}
        self._bytes = 0

    def show(self, uri: str, text: str, ranges: Iterable[tuple[int, int]]) -> str:
        """Remember that lines of ``text`` were shown with their numbers; returns the text's tag."""
        tag = file_tag(text)
        self._add(uri, tag, text, tuple(ranges), ())
        return tag

    def restore(self, uri: str, tag: str, text: str | None, ranges: Iterable[tuple[int, int]]) -> None:
        """Remember what a session's log says was shown. ``text`` None where it cannot be had any more."""
        self._add(uri, tag, text, tuple(ranges), ())

    def keep(self, seen: Mapping[tuple[str, str], Ranges | None]) -> None:
        """Forget what the author was shown and has not before it any more. ``seen``: by canonical URI and tag the lines
        that are left, None for all that were shown; of texts that it does not name nothing is left."""
        for key, view in list(self._views.items()):
            left = seen.get(key, ())
            if left is not None:
                numbered, known = _within(view.numbered, left), _within(view.known, left)
                self._views[key] = replace(view, numbered=numbered, known=known)

    def edited(self, uri: str, before: str, after: str, splice: Splice, context: Iterable[tuple[int, int]]) -> str:
        """Remember the text after the author's own edit; returns its tag.

        ``context``: the lines that were shown with the result. Lines above the edit keep their numbers, and so do
        those below it when the number of lines is the same. Otherwise the old numbers below are stale: those lines
        stay known, but must be shown again before an edit may name them by number.
        """
        old = self._views.get((canonical(uri), before), View(None))
        above = clip(old.numbered, 1, splice.start - 1)
        below = clip(old.numbered, splice.end + 1, sys.maxsize) if splice.shift == 0 else ()
        known = (
            *clip(old.known, 1, splice.start - 1),
            *((a + splice.shift, b + splice.shift) for a, b in clip(old.known, splice.end + 1, sys.maxsize)),
            (splice.start, splice.end + splice.shift),
        )
        tag = file_tag(after)
        self._add(uri, tag, after, (*above, *below, *context), known)
        return tag

    def seen(self, uri: str, tag: str) -> View | None:
        """The view behind a tag, None if this session was never shown such a text."""
        key = (canonical(uri), tag)
        view = self._views.get(key)
        if view is not None:
            self._views.move_to_end(key)
        return view

    def latest(self, uri: str) -> str | None:
        """The tag of the text of that file that was shown last, None if none was."""
        return self._latest.get(canonical(uri))

    def any(self, uri: str) -> bool:
        """Whether any text of that file was ever shown."""
        name = canonical(uri)
        return any(seen == name for seen, _tag in self._views)

    def _add(self, uri: str, tag: str, text: str | None, numbered: Ranges, known: Ranges) -> None:
        key = (canonical(uri), tag)
        self._latest[key[0]] = tag
        old = self._views.pop(key, View(None))
        kept = old.text if text is None else text
        self._bytes += _size(kept) - _size(old.text)
        both = merge((*old.numbered, *numbered))
        self._views[key] = View(kept, both, merge((*old.known, *known, *both)))
        self._shrink()

    def _shrink(self) -> None:
        while len(self._views) > MOST_VIEWS:
            _key, view = self._views.popitem(last=False)
            self._bytes -= _size(view.text)
        if self._bytes <= self._limit:
            return
        newest = next(reversed(self._views))
        for key, view in self._views.items():
            # The newest stays whatever its size, else a file larger than the limit could never be edited.
            if self._bytes <= self._limit or key == newest:
                return
            self._bytes -= _size(view.text)
            self._views[key] = replace(view, text=None)


@dataclass(frozen=True)
class Splice:
    """Lines ``start`` to ``end`` (1-based inclusive; ``end = start - 1`` for none) became ``shift`` more lines."""

    start: int
    end: int
    shift: int


def merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted ranges without overlaps, empty ones dropped."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(pair for pair in ranges if pair[0] <= pair[1]):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def clip(ranges: Iterable[tuple[int, int]], start: int, end: int) -> Ranges:
    """The parts of ``ranges`` within ``start`` to ``end``."""
    return tuple((max(a, start), min(b, end)) for a, b in ranges if a <= end and b >= start and start <= end)


def _within(ranges: Ranges, left: Ranges) -> Ranges:
    return merge(part for start, end in left for part in clip(ranges, start, end))


def covers(ranges: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    """Whether every line from ``start`` to ``end`` is in one of the merged ``ranges``. No lines are always covered."""
    return start > end or any(a <= start and end <= b for a, b in ranges)


def _size(text: str | None) -> int:
    return 0 if text is None else sys.getsizeof(text)
