"""What the user saw: derived from the log, and not changed by compaction. As entries, and as documents."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ds4_lsp.protocol.commands import HistoryEntry
from ds4_lsp.session.events import Event
from ds4_lsp.session.storage import replace_file, storing
from ds4_lsp.session.surface import Surface

Clean = Callable[[str, bool], str]
"""(raw reply, whether it began in thinking) to what the user saw of it: no thinking, no calls. For logs that do
not hold that apart."""

_ROLES = {"user": "You", "assistant": "DS4", "tool": "Tool", "compaction": "Compaction", "notice": "Notice"}


def entries(
    events: Iterable[Event], *, clean: Clean, thought: Clean | None = None, turns: int | None = None
) -> list[HistoryEntry]:
    """The entries of the last ``turns`` turns (None: of all). Memory: those entries.

    Beside ``seq``, ``role``, ``text`` they have ``turn`` and ``time``; a reply its ``calls`` and ``stop``, and its
    ``thinking`` where ``thought`` finds some, a tool result ``callId``, ``name``, ``ok``, a prompt its ``context``.
    """
    kept: deque[HistoryEntry] = deque()
    if turns == 0:
        return []
    order: deque[int] = deque()
    for entry in stream(events, clean=clean, thought=thought):
        turn = turn_of(entry)
        if turn not in order:
            order.append(turn)
            if turns is not None and len(order) > turns:
                gone = order.popleft()
                kept = deque(item for item in kept if turn_of(item) != gone)
        kept.append(entry)
    return list(kept)


def stream(events: Iterable[Event], *, clean: Clean, thought: Clean | None = None) -> Iterator[HistoryEntry]:
    """Every entry in order, one at a time."""
    turn = 0
    for event in events:
        if isinstance(event.data.get("turn"), int):
            # What a recovery settles late counts to the turn in which the user saw it.
            turn = max(turn, event.data["turn"])
        if event.type == "turn/end" and event.data.get("error"):
            yield _entry(event, "notice", str(event.data["error"]), turn)
        elif event.type in _READERS:
            entry = _READERS[event.type](event, turn, clean)
            if entry is None:
                continue
            if thought is not None and entry.role == "assistant":
                data = event.data
                known = data.get("thought", "" if "said" in data else None)
                thinking = thought(str(data.get("text", "")), bool(data.get("thinking"))) if known is None else known
                entry = entry.model_copy(update={"thinking": thinking}) if thinking else entry
            yield entry


def turn_of(entry: HistoryEntry) -> int:
    return int((entry.model_extra or {}).get("turn") or 0)


def _user(event: Event, turn: int, clean: Clean) -> HistoryEntry | None:
    data = event.data
    text = str(data.get("text", ""))
    if data.get("kind") == "checkpoint":
        summary = (data.get("parts") or {}).get("summary") or text
        return _entry(event, "compaction", summary, turn, shadowed=list(event.sources))
    if not _appended(event):
        return None
    if data.get("kind", "prompt") != "prompt":
        return _entry(event, "notice", text, turn)
    context = {"context": data["context"]} if data.get("context") else {}
    return _entry(event, "user", text, turn, **context)


def _assistant(event: Event, turn: int, clean: Clean) -> HistoryEntry | None:
    if not _appended(event):
        # A shortened reply: the user saw the whole one.
        return None
    data = event.data
    said = str(data["said"]).strip() if "said" in data else clean(str(data.get("text", "")), bool(data.get("thinking")))
    return _entry(event, "assistant", said, turn, calls=data.get("calls") or [], stop=data.get("stop"))


def _tool(event: Event, turn: int, clean: Clean) -> HistoryEntry | None:
    if not _appended(event):
        # A pruned result: the user saw the whole one.
        return None
    data = event.data
    fields = {"callId": data.get("callId"), "name": data.get("name"), "ok": bool(data.get("ok"))}
    return _entry(event, "tool", str(data.get("text", "")), turn, **fields)


_READERS: dict[str, Callable[[Event, int, Clean], HistoryEntry | None]] = {
    "user/message": _user,
    "assistant/message": _assistant,
    "tool/result": _tool,
}


def _appended(event: Event) -> bool:
    return event.surface_op is not None and event.surface_op["op"] == "append"


def _entry(event: Event, role: str, text: str, turn: int, **fields: Any) -> HistoryEntry:
    members = {"seq": event.seq, "role": role, "text": text, "turn": turn, "time": event.time, **fields}
    return HistoryEntry.model_validate(members)


def markdown_pieces(events: Iterable[Event], *, clean: Clean) -> Iterator[str]:
    """The session as Markdown, in pieces that each end a line. ``events`` begin with the header."""
    rest = iter(events)
    header = next(rest, None)
    if header is None:
        return
    yield from _head(header)
    shown = 0
    for entry in stream(rest, clean=clean):
        turn = turn_of(entry)
        if turn != shown:
            yield f"\n## Turn {turn}\n"
            shown = turn
        yield from _markdown_entry(entry)


def export_markdown(events: Iterable[Event], *, clean: Clean) -> str:
    """The session as one Markdown text."""
    return "".join(markdown_pieces(events, clean=clean))


def jsonl_lines(events: Iterable[Event]) -> Iterator[str]:
    """The log itself, one event a line, compacted parts included."""
    for event in events:
        yield json.dumps(event.to_json(), ensure_ascii=False, separators=(",", ":")) + "\n"


def export_jsonl(events: Iterable[Event]) -> str:
    return "".join(jsonl_lines(events))


def checkpoint_markdown(events: Iterable[Event], seq: int, *, clean: Clean) -> str | None:
    """The summary of one compaction, then what it replaced. ``seq`` is that of its ``compact/summary`` event or of the
    checkpoint message; None where there is no such event. Memory: the surface."""
    surface = Surface()
    summary: Event | None = None
    for event in events:
        if event.type == "compact/summary" and event.seq == seq:
            summary = event
        op = event.surface_op
        if op is not None and op["op"] == "replace" and (event.seq == seq or (summary and seq in event.sources)):
            surface.check(event)
            shadowed = [surface[position] for position in range(op["start"], op["end"] + 1)]
            return "".join(_checkpoint(event, shadowed, clean))
        if event.type == "compact/end" and summary is not None:
            break
        surface.apply(event)
    if summary is None:
        return None
    return f"# A summary that was not used\n\n{summary.data.get('summary', '')}\n"


def write_export(path: Path, text: str | Iterable[str]) -> None:
    """Write a document, mode 0600: whole, or not at all. Raises ``StorageFailed``, and what an iterable raises.

    Halves of surrogate pairs, which have no UTF-8, become escapes, as JSON has them too."""
    pieces = (text,) if isinstance(text, str) else text
    with storing("write", path):
        replace_file(path, (piece.encode("utf-8", "backslashreplace") for piece in pieces), durable=False)


def fenced(text: str, language: str = "") -> str:
    """``text`` as a code block that nothing in it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"


def _head(event: Event) -> Iterator[str]:
    data = event.data
    yield f"# {data.get('title') or 'Session ' + str(data.get('sessionId'))}\n"
    yield f"\nSession `{data.get('sessionId')}`"
    if data.get("workspace"):
        yield " in " + ", ".join(f"`{path}`" for path in data["workspace"])
    if data.get("parent"):
        yield f", forked from `{data['parent'].get('sessionId')}` at event {data['parent'].get('seq')}"
    yield "\n"


def _markdown_entry(entry: HistoryEntry) -> Iterator[str]:
    extra = entry.model_extra or {}
    if entry.role == "tool":
        outcome = "" if extra.get("ok") else " (failed)"
        yield f"\n### Tool: {extra.get('name')} `{extra.get('callId')}`{outcome}\n\n{fenced(entry.text)}\n"
        return
    yield f"\n### {_ROLES.get(entry.role, entry.role)}\n"
    if entry.text.strip():
        yield f"\n{entry.text.rstrip()}\n"
    for call in extra.get("calls") or ():
        arguments = json.dumps(call.get("arguments"), ensure_ascii=False, indent=2)
        yield f"\nCalls **{call.get('name')}** `{call.get('callId')}`:\n\n{fenced(arguments, 'json')}\n"


def _checkpoint(message: Event, shadowed: list[Event], clean: Clean) -> Iterator[str]:
    parts = message.data.get("parts") or {}
    yield f"# Checkpoint at event {message.seq}\n"
    for name in ("task", "summary", "ledger"):
        if parts.get(name):
            yield f"\n## {name.capitalize()}\n\n{str(parts[name]).rstrip()}\n"
    if not parts:
        yield f"\n{message.data.get('text', '')}\n"
    yield f"\n# What it replaced: {len(shadowed)} messages\n"
    for entry in stream(shadowed, clean=clean):
        yield from _markdown_entry(entry)
