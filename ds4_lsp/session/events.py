"""One line of a session's log: its shape, its types, and the way to and from bytes.

A line is a JSON object, UTF-8, ended by LF. Its last member, ``crc``, is the CRC-32 of the bytes before it, so that a
flipped bit is noticed wherever it falls; a log written without it is read without that check.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = 1
"""The log format that this version writes, and the newest that it reads."""

HEADER = "session/header"
MESSAGE_TYPES = frozenset({"user/message", "assistant/message", "tool/result"})
"""Types that carry a ``surfaceOp``: what the model sees derives from these."""
LOG_ONLY_TYPES = frozenset(
    {
        "turn/start",
        "turn/end",
        "request/header",
        "model/loaded",
        "prompt/queued",
        "prompt/dropped",
        "prompt/edited",
        "permission/asked",
        "permission/decided",
        "tool/started",
        "edit/applied",
        "job/started",
        "job/ended",
        "compact/start",
        "compact/summary",
        "compact/end",
        "session/title",
        "session/retokenised",
    }
)
KNOWN_TYPES = MESSAGE_TYPES | LOG_ONLY_TYPES | {HEADER}

APPEND: Mapping[str, Any] = {"op": "append"}
"""The ``surfaceOp`` that puts a node at the surface's end."""

_MEMBERS = frozenset({"seq", "type", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable", "crc"})
_CRC = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_CRC_LENGTH = 18
_JSON = json.JSONDecoder()


class Damaged(ValueError):
    """A line is not what was written. The message says how."""


class Newer(ValueError):
    """A line is whole, but of a kind that only a newer version knows."""


def replace(start: int, end: int) -> dict[str, Any]:
    """The ``surfaceOp`` that puts one node in the place of the surface positions ``start`` to ``end`` (inclusive)."""
    return {"op": "replace", "start": start, "end": end}


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``seq`` is its position in the log, ``time`` in Unix seconds, ``data`` JSON values.

    ``sources`` are the ``sourceEventSeqs``: the events that this one was made from. ``ignorable``: a version that does
    not know the type may skip it.
    """

    seq: int
    type: str
    time: float
    data: dict[str, Any]
    surface_op: Mapping[str, Any] | None = None
    sources: tuple[int, ...] = ()
    ignorable: bool = False

    def to_json(self) -> dict[str, Any]:
        """The event under its names in the log."""
        members: dict[str, Any] = {"seq": self.seq, "type": self.type, "time": self.time, "data": self.data}
        if self.surface_op is not None:
            members["surfaceOp"] = dict(self.surface_op)
        if self.sources:
            members["sourceEventSeqs"] = list(self.sources)
        if self.ignorable:
            members["ignorable"] = True
        return members


@dataclass(frozen=True)
class Header:
    """The first event's data. ``parent``: session and seq that a fork was made from; ``created_at``: Unix seconds."""

    session_id: str
    workspace: tuple[str, ...]
    created_at: float
    title: str | None = None
    parent: tuple[str, int] | None = None

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "format": FORMAT,
            "sessionId": self.session_id,
            "workspace": list(self.workspace),
            "createdAt": self.created_at,
        }
        if self.title is not None:
            data["title"] = self.title
        if self.parent is not None:
            data["parent"] = {"sessionId": self.parent[0], "seq": self.parent[1]}
        return data

    @classmethod
    def from_event(cls, event: Event) -> Header:
        """Raises ``Newer`` for a later format, ``Damaged`` where the first event is no header."""
        data = event.data
        if event.type != HEADER or not isinstance(data.get("format"), int):
            raise Damaged("the first event is not a session header")
        if data["format"] > FORMAT:
            raise Newer(f"log format {data['format']}, this version reads up to {FORMAT}")
        for name, good in _HEADER.items():
            if not good(data.get(name)):
                raise Damaged(f"the session header lacks or garbles {name!r}")
        parent = data.get("parent")
        return cls(
            session_id=data["sessionId"],
            workspace=tuple(data["workspace"]),
            created_at=float(data["createdAt"]),
            title=data.get("title"),
            parent=None if parent is None else (parent["sessionId"], parent["seq"]),
        )


def _is_time(value: object) -> bool:
    """Seconds that a calendar has a date for: neither infinite nor not a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11


def _is_parent(value: Any) -> bool:
    if value is None:
        return True
    named = isinstance(value, dict) and isinstance(value.get("sessionId"), str)
    return named and type(value.get("seq")) is int and value["seq"] >= 0


_HEADER: dict[str, Callable[[Any], bool]] = {
    "sessionId": lambda value: isinstance(value, str),
    "workspace": lambda value: isinstance(value, list) and all(isinstance(path, str) for path in value),
    "createdAt": _is_time,
    "title": lambda value: value is None or isinstance(value, str),
    "parent": _is_parent,
}


def encode(event: Event) -> bytes:
    """The event as one line. Raises ``ValueError``, ``TypeError`` or ``RecursionError`` for data that is not JSON."""
    members = event.to_json()
    try:
        body = json.dumps(members, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        # Lone surrogates (from a file name, say) have no UTF-8 form; JSON can escape them.
        body = json.dumps(members, separators=(",", ":"), allow_nan=False).encode()
    head = body[:-1]
    return b'%b,"crc":"%08x"}\n' % (head, zlib.crc32(head))


def checksum(line: bytes) -> int | None:
    """The checksum that a line, without its LF, ends in."""
    found = _CRC.fullmatch(line, max(0, len(line) - _CRC_LENGTH))
    return None if found is None else int(found.group(1), 16)


def is_sealed(line: bytes) -> bool:
    """Whether a line, without its LF, ends in the checksum of what precedes it."""
    return checksum(line) == zlib.crc32(memoryview(line)[:-_CRC_LENGTH])


def decode(line: bytes, seq: int) -> Event:
    """The event in ``line`` (without its LF), which must be number ``seq``. Raises ``Damaged`` or ``Newer``."""
    return decode_checked(line, seq)[0]


def decode_checked(line: bytes, seq: int) -> tuple[Event, bool]:
    """As :func:`decode`; also whether the line has a checksum."""
    crc = checksum(line)
    if crc is not None and crc != zlib.crc32(memoryview(line)[:-_CRC_LENGTH]):
        raise Damaged("its checksum does not match its content")
    try:
        members = _JSON.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not JSON ({error})") from error
    if not isinstance(members, dict):
        raise Damaged("it is not an object")
    if type(members.get("seq")) is not int or members["seq"] != seq:
        raise Damaged(f"its seq is {members.get('seq')!r} where {seq} belongs")
    if crc is None and "crc" in members:
        raise Damaged("its checksum is garbled")
    if not members.keys() <= _MEMBERS:
        raise Damaged(f"it has unknown members: {', '.join(sorted(members.keys() - _MEMBERS))}")
    kind, time, data = members.get("type"), members.get("time"), members.get("data")
    if not isinstance(kind, str) or not _is_time(time) or not isinstance(data, dict):
        raise Damaged("its type, time or data is missing or garbled")
    ignorable = members.get("ignorable", False) is True
    if kind not in KNOWN_TYPES and not ignorable:
        raise Newer(f"event type {kind!r}")
    if (kind == HEADER) != (seq == 0):
        raise Damaged("a session header is the first event, and only that")
    sources = _sources(members["sourceEventSeqs"], seq) if "sourceEventSeqs" in members else ()
    op = members.get("surfaceOp")
    check_surface_op(kind, op)
    assert time is not None
    return Event(seq, kind, time, data, op, sources, ignorable), crc is not None


def check_surface_op(kind: str, op: Mapping[str, Any] | None) -> None:
    """Raise ``Damaged`` unless exactly the message types carry a well-formed ``surfaceOp``."""
    if kind not in MESSAGE_TYPES:
        if op is not None:
            raise Damaged(f"a {kind} event carries a surfaceOp")
        return
    if not isinstance(op, (dict, Mapping)):
        raise Damaged(f"a {kind} event lacks its surfaceOp")
    if op.get("op") == "append":
        return
    start, end = op.get("start"), op.get("end")
    if op.get("op") != "replace" or type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise Damaged(f"its surfaceOp is garbled: {dict(op)!r}")


def _sources(value: object, seq: int) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or any(type(item) is not int or not 0 <= item < seq for item in value):
        raise Damaged("its sourceEventSeqs do not name earlier events")
    return tuple(value)
