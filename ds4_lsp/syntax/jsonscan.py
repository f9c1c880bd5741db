"""Reads one JSON value of a stream to its end, however it is cut, and tells of its members while they come.

It only finds where strings, members and the value end; what the whole means is ``arguments.parse_json``'s to say. So it
reads on over slips: real line breaks in strings, commas too many, brackets that do not match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from ds4_lsp.syntax.arguments import whole_text
from ds4_lsp.syntax.source import Source, Step

Note: TypeAlias = "Callable[[tuple[str, ...], str, bool], None]"
"""(path, piece, done): a piece of the value at ``path``, keys of objects from the outside in. Strings without escapes,
all else as written. ``done``: that was its end."""

DEEPEST_PATH = 2
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_WORD = re.compile(r"[^,{}\[\]\s]+")


def read_json(source: Source, note: Note) -> Step[str]:
    """The value at the source's place, an object or an array: its text. Raises ``Ended`` where it is cut off; what was
    used of it is then in ``source.recorded``, where that is on."""
    return (yield from _Scan(source, note).value())


class _Scan:
    def __init__(self, source: Source, note: Note) -> None:
        self._source = source
        self._note = note
        self._written: list[str] = []
        self._stack: list[str] = []
        self._keys: list[str | None] = []
        """Of each open object the key whose value is being read; None for arrays, and where a key is awaited."""
        self._value_of: tuple[str, ...] | None = None
        """The member whose value is written as it stands, and the depth at which it ends."""
        self._value_depth = 0

    def value(self) -> Step[str]:
        source = self._source
        while True:
            while source.at >= len(source.text):
                yield from source.more()
            character = source.text[source.at]
            if character == '"':
                yield from self._string()
            elif character in "{[":
                self._open(character)
            elif character in "}]":
                self._close(character)
                if not self._stack:
                    return "".join(self._written)
            else:
                self._between()

    def _use(self, to: int) -> str:
        used = self._source.advance(to)
        self._written.append(used)
        return used

    # --- structure ------------------------------------------------------------------------------------------------

    def _open(self, bracket: str) -> None:
        path = self._path()
        if bracket == "[" or len(self._stack) >= DEEPEST_PATH:
            self._begin_raw(path)
        elif path:
            self._note(path, "", False)
        self._raw(self._use(self._source.at + 1))
        self._stack.append(bracket)
        self._keys.append(None)

    def _close(self, bracket: str) -> None:
        if self._value_of is not None and len(self._stack) <= self._value_depth:
            self._end_raw()
        self._raw(self._use(self._source.at + 1))
        self._stack.pop()
        self._keys.pop()
        if self._value_of is not None and len(self._stack) <= self._value_depth:
            self._end_raw()

    def _between(self) -> None:
        """White space, colons, commas, and words such as numbers."""
        text, at = self._source.text, self._source.at
        character = text[at]
        if character == ",":
            if self._value_of is not None and len(self._stack) <= self._value_depth:
                self._end_raw()
            self._raw(self._use(at + 1))
            if self._keys:
                self._keys[-1] = None
            return
        word = _WORD.match(text, at)
        if word is None or character == ":":
            self._raw(self._use(at + 1))
            return
        end = word.end() if '"' not in word.group() else at + word.group().index('"')
        self._begin_raw(self._path())
        self._raw(self._use(end))

    def _path(self) -> tuple[str, ...]:
        """The keys that lead to the value that begins here; empty where it is not told of."""
        depth = len(self._stack)
        keys = self._keys
        if not 1 <= depth <= DEEPEST_PATH or self._value_of is not None or any(key is None for key in keys):
            return ()
        return tuple(key or "" for key in keys)

    # --- values as they stand -------------------------------------------------------------------------------------

    def _begin_raw(self, path: tuple[str, ...]) -> None:
        if path and self._value_of is None:
            self._value_of, self._value_depth = path, len(self._stack)

    def _raw(self, text: str) -> None:
        if self._value_of is not None:
            self._note(self._value_of, text, False)

    def _end_raw(self) -> None:
        if self._value_of is not None:
            path, self._value_of = self._value_of, None
            self._note(path, "", True)

    # --- strings --------------------------------------------------------------------------------------------------

    def _string(self) -> Step[None]:
        source = self._source
        in_object = bool(self._stack) and self._stack[-1] == "{"
        is_key = in_object and self._value_of is None and self._keys[-1] is None
        path = () if is_key else self._path()
        key: list[str] = []
        self._raw(self._use(source.at + 1))
        while True:
            while source.at >= len(source.text):
                yield from source.more()
            text, at = source.text, source.at
            if text[at] == '"':
                self._raw(self._use(at + 1))
                break
            if run := _PLAIN.match(text, at):
                piece = written = self._use(run.end())
            else:
                while (escape := _ESCAPE.match(source.text, source.at)) is None or self._may_grow(escape.group()):
                    if source.final or len(source.rest) >= 12 or _broken(source.rest):
                        break
                    yield from source.more()
                written = self._use(source.at + (len(escape.group()) if escape else 1))
                piece = _unescape(written)
            self._raw(written)
            if is_key:
                key.append(piece)
            elif path:
                self._note(path, piece, False)
        if is_key:
            self._keys[-1] = "".join(key)
        elif path:
            self._note(path, "", True)

    def _may_grow(self, escape: str) -> bool:
        """Whether the other half of a pair may still come."""
        rest = self._source.rest
        return (
            len(escape) == 6
            and escape[2:4].lower() in ("d8", "d9", "da", "db")
            and len(rest) < 12
            and "\\u".startswith(rest[6:8])
            and not _broken(rest[6:])
        )


def _broken(escape: str) -> bool:
    """Whether the text cannot become an escape of four digits."""
    return re.fullmatch(r"(\\(u[0-9a-fA-F]{0,4})?)?(\\(u[0-9a-fA-F]{0,4})?)?", escape) is None


def _unescape(written: str) -> str:
    try:
        return whole_text(str(json.loads(f'"{written}"', strict=False)))
    except ValueError:
        return written
