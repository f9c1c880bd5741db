"""What the log knows for certain: the user's requests, files read and edited, commands, jobs. A fold over its events.

No fact in here is ever asked of the model. A file counts as read once a reply follows the result that showed it: before
that the model has not read it, whatever the log holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ds4_lsp.compaction.graphemes import one_line
from ds4_lsp.edits.uris import canonical, from_path

LINE_LIMIT = 240
"""Most code points of a path or command in a ledger line."""
RANGES_SHOWN = 16


class LogEvent(Protocol):
    """An event as the session room keeps it."""

    @property
    def seq(self) -> int: ...

    @property
    def type(self) -> str: ...

    @property
    def data(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Prompt:
    """A message that the user typed, exactly. ``attached``: the places sent along, as ``uri`` or ``uri:first-last``."""

    seq: int
    text: str
    attached: tuple[str, ...] = ()


@dataclass
class _File:
    newest: int
    path: str
    """The shortest name it was logged under: what the model called it."""
    read: list[tuple[int, int]] = field(default_factory=list)
    shown: list[tuple[int, int]] = field(default_factory=list)
    """The part of ``read`` that was shown with ``tag``."""
    tag: str = ""
    tagged: int = -1
    """seq of the event that gave the tag."""
    blob: str | None = None
    """Where the text with that tag is kept."""
    edits: int = 0
    created: bool = False
    unsaved: bool = False
    removed: bool = False


@dataclass
class _Command:
    newest: int
    command: str
    job: int | None
    state: str = "running"
    exit_status: int | None = None


@dataclass(frozen=True)
class Entry:
    """One fact of the ledger, in full and in ``short``; ``seq`` of the newest event that it reports.

    ``claim``: what the full text says the model was shown of a file, as the log's ``shown`` has it.
    """

    seq: int
    running: bool
    text: str
    short: str
    claim: Mapping[str, Any] | None = None


class Facts:
    """The fold. Its size grows with the number of files and requests, not with the log's bytes."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.open_start: int | None = None
        """seq of a ``compact/start`` that has no ``compact/end``."""
        self.open_replaced = False
        """Whether that compaction's checkpoint is in the log."""
        self.summary_tokens: int | None = None
        """Tokens of the newest summary, as the engine counted them."""
        self._files: dict[str, _File] = {}
        """By canonical URI: the log names one file by relative and absolute paths, and as an editor spells it."""
        self._commands: dict[str, _Command] = {}
        self._answered: set[str] = set()
        self._unread: list[tuple[int, Any]] = []
        """Places shown by results and prompts that no reply follows yet."""

    def apply(self, event: LogEvent) -> None:
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event.seq, event.data)

    def entries(self) -> list[Entry]:
        """Running jobs first, then everything else, newest first."""
        lines = [
            Entry(file.newest, False, _file_line(file), _short_line(file), _claim(uri, file))
            for uri, file in self._files.items()
        ]
        for one in self._commands.values():
            text = _command_line(one)
            lines.append(Entry(one.newest, one.state == "running", text, text))
        return sorted(lines, key=lambda entry: (not entry.running, -entry.seq))

    def running_jobs(self) -> list[str]:
        """One line per job that still runs, oldest first."""
        return [entry.text for entry in reversed(self.entries()) if entry.running]

    def _user_message(self, seq: int, data: Mapping[str, Any]) -> None:
        kind = data.get("kind", "prompt")
        if kind == "prompt":
            self.prompts.append(Prompt(seq, str(data.get("text", "")), tuple(_places(data.get("context")))))
            self._unread += [(seq, place.get("shown")) for place in data.get("context") or ()]
        elif kind == "checkpoint" and self.open_start is not None:
            self.open_replaced = True

    def _tool_result(self, seq: int, data: Mapping[str, Any]) -> None:
        call_id = str(data.get("callId", seq))
        if call_id in self._answered:  # a pruned copy of a result that was counted already
            return
        self._answered.add(call_id)
        self._unread.append((seq, data.get("shown")))
        detail = data.get("data") or {}
        if "job" in detail or "command" in detail:
            self._job(seq, detail, call_id)

    def _reply(self, seq: int, data: Mapping[str, Any]) -> None:
        if "original" in data:  # a shortened copy of a reply that was counted already
            return
        unread, self._unread = self._unread, []
        for shown_at, places in unread:
            for shown in places or ():
                self._shown(shown_at, shown)

    def _shown(self, seq: int, shown: Mapping[str, Any]) -> None:
        file = self._file(shown, seq)
        ranges = [(int(a), int(b)) for a, b in shown.get("ranges", ())]
        tag = str(shown.get("fileTag", file.tag))
        if tag != file.tag and seq > file.tagged:
            # Somebody else changed the file: of the text as it is now, the model has read just this.
            file.tag, file.tagged, file.read, file.shown = tag, seq, [], []
        file.read = _merged([*file.read, *ranges])
        if tag == file.tag:
            file.shown = _merged([*file.shown, *ranges])
            file.blob = shown.get("blob") or file.blob

    def _edit(self, seq: int, data: Mapping[str, Any]) -> None:
        file = self._file(data, seq)
        file.edits += 1
        file.tag, file.tagged = str(data.get("afterTag") or ""), seq
        # Numbers of lines may be others now: what is shown of the new text comes with the edit's result.
        file.shown, file.blob = [], data.get("afterBlob")
        file.created = file.created or bool(data.get("created"))
        file.unsaved = data.get("saved") is False
        # Undoing a creation: there is no text left that a tag could be of.
        file.removed = not file.tag

    def _job_event(self, seq: int, data: Mapping[str, Any]) -> None:
        self._job(seq, data, str(data.get("callId", "")))

    def _job_ended(self, seq: int, data: Mapping[str, Any]) -> None:
        self._job(seq, {"state": "exited", **data}, "")

    def _job(self, seq: int, data: Mapping[str, Any], call_id: str) -> None:
        job = data.get("job")
        key = f"call {call_id}" if job is None else f"job {job}"
        one = self._commands.get(key)
        if one is None:
            state = "running" if job is not None else "not run"
            one = self._commands[key] = _Command(seq, str(data.get("command", "")), job, state)
        one.newest = seq
        one.command = str(data.get("command") or one.command)
        # What has ended stays ended: a late look at a job's output must not revive it.
        if one.state in ("running", "not run"):
            one.state = str(data.get("state") or one.state)
        if data.get("exitStatus") is not None:
            one.exit_status = int(data["exitStatus"])

    def _compact_start(self, seq: int, data: Mapping[str, Any]) -> None:
        self.open_start, self.open_replaced = seq, False

    def _compact_summary(self, seq: int, data: Mapping[str, Any]) -> None:
        tokens = (data.get("usage") or {}).get("completionTokens")
        self.summary_tokens = int(tokens) if tokens else self.summary_tokens

    def _compact_end(self, seq: int, data: Mapping[str, Any]) -> None:
        self.open_start, self.open_replaced = None, False

    def _file(self, data: Mapping[str, Any], seq: int) -> _File:
        path = str(data.get("path") or data.get("uri"))
        file = self._files.setdefault(_key(data, path), _File(seq, path))
        file.newest = max(file.newest, seq)
        file.path = min(file.path, path, key=len)
        return file


_HANDLERS = {
    "user/message": Facts._user_message,
    "assistant/message": Facts._reply,
    "tool/result": Facts._tool_result,
    "edit/applied": Facts._edit,
    "job/started": Facts._job_event,
    "job/ended": Facts._job_ended,
    "compact/start": Facts._compact_start,
    "compact/summary": Facts._compact_summary,
    "compact/end": Facts._compact_end,
}


def _claim(uri: str, file: _File) -> dict[str, Any] | None:
    if not file.tag or file.removed:
        return None
    said = file.read[:RANGES_SHOWN]
    ranges = [[max(a, first), min(b, last)] for a, b in file.shown for first, last in said if a <= last and first <= b]
    claim: dict[str, Any] = {"uri": uri, "path": file.path, "fileTag": file.tag, "ranges": ranges}
    if len(file.read) > RANGES_SHOWN:
        claim["partial"] = True
    return claim if file.blob is None else claim | {"blob": file.blob}


def _key(data: Mapping[str, Any], path: str) -> str:
    if Path(path).is_absolute():
        return from_path(Path(path))
    return canonical(str(data.get("uri") or path))


def _places(context: Any) -> Iterable[str]:
    for place in context or ():
        if place.get("attached"):
            continue  # shown for the prompt's words; the user pointed at nothing
        lines = place.get("range")
        if lines:
            yield f"{place['uri']}:{lines['start']['line'] + 1}-{lines['end']['line'] + 1}"
        else:
            yield str(place["uri"])


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        elif last >= first:
            merged.append((first, last))
    return merged


def _file_line(file: _File) -> str:
    facts: list[str] = []
    if file.removed:
        facts.append("removed again")
    elif file.created:
        facts.append("created")
    if file.read:
        ranges = ", ".join(f"{first}-{last}" for first, last in file.read[:RANGES_SHOWN])
        more = len(file.read) - RANGES_SHOWN
        facts.append(f"read {ranges}" + (f" and {more} more ranges" if more > 0 else ""))
    if file.edits and not file.removed:
        facts.append("edited" if file.edits == 1 else f"edited {file.edits} times")
    if file.unsaved:
        facts.append("not saved")
    if file.tag:
        facts.append(f"file_tag={file.tag}")
    return f"{one_line(file.path, LINE_LIMIT)}: {'; '.join(facts) or 'seen'}"


def _short_line(file: _File) -> str:
    if file.removed:
        return f"{one_line(file.path, LINE_LIMIT)} removed again"
    return one_line(file.path, LINE_LIMIT) + (f" edited, file_tag={file.tag}" if file.edits else "")


def _command_line(one: _Command) -> str:
    command = one_line(one.command, LINE_LIMIT)
    if one.state == "running":
        return f"job {one.job} is running: {command}"
    if one.exit_status is None:
        return f"`{command}`: {one.state}"
    return f"`{command}`: " + ("" if one.state == "exited" else f"{one.state}, ") + f"exit status {one.exit_status}"


def jobs_notice(facts: Facts) -> str | None:
    """What to tell the model after a rebuild about jobs that still run; None when there are none."""
    running = facts.running_jobs()
    return "Still running: " + "; ".join(running) + "." if running else None
