"""Arguments and results of every ``workspace/executeCommand``, and the one table that names them.

Lines are 1-based and inclusive, tokens are the model's, times are Unix seconds, durations seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from ds4_lsp.protocol.text import refuse_lone_surrogates

StopReason = Literal["end", "cancelled", "length", "error"]
State = Literal["loading", "idle", "prefill", "generating", "tool", "compacting", "error", "noModel"]


class Wire(BaseModel):
    """camelCase on the wire, snake_case in Python."""

    # Built when first used: all of them at once would delay the answer to initialize.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, defer_build=True)


class Arguments(Wire):
    """Base of all arguments: an unknown field is an error, so that a typing slip is not silently ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @field_validator("*")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        return refuse_lone_surrogates(value)


class Position(Arguments):
    line: int = Field(ge=0)
    character: int = Field(ge=0)


class Range(Arguments):
    start: Position
    end: Position


class Context(Arguments):
    """A place that the user points at. ``diagnostic`` is the text of a problem found there."""

    uri: str
    range: Range | None = None
    diagnostic: str | None = None


class PromptArguments(Arguments):
    text: str = Field(min_length=1)
    session_id: str | None = None
    context: list[Context] = Field(default_factory=list)
    wait: bool = True


class Usage(Wire):
    prompt_tokens: int = 0
    """Tokens evaluated."""
    cached_tokens: int = 0
    """Tokens found in the KV."""
    completion_tokens: int = 0
    prompt_seconds: float = 0.0
    completion_seconds: float = 0.0


class ToolCallSummary(Wire):
    call_id: str
    name: str
    arguments: dict[str, Any]
    ok: bool


class PromptResult(Wire):
    session_id: str
    turn: int
    stop_reason: StopReason | None = None
    text: str = ""
    tool_calls: list[ToolCallSummary] = Field(default_factory=list)
    usage: Usage | None = None
    queued: bool | None = None
    error: str | None = None


class CompactArguments(Arguments):
    session_id: str | None = None
    instructions: str | None = None


class ShadowedRange(Wire):
    """The first and the last message that a checkpoint stands for, in the model's order, by the numbers of their events
    (``seq``). The first is the earlier checkpoint where there was one, whose number can be greater than the last one's:
    ``shadowedSeqs`` has every message."""

    start: int
    end: int


class CompactionResult(Wire):
    """``compaction_id``: as the events ``compaction.start``, ``compaction.delta`` and ``compaction.end`` have it."""

    compaction_id: str
    start_seq: int
    summary_seq: int
    end_seq: int
    summary: str
    shadowed_range: ShadowedRange
    shadowed_seqs: list[int]
    shadowed_token_count: int
    checkpoint_token_count: int
    tail_token_count: int
    before_tokens: int
    after_tokens: int
    trigger: Literal["soft", "hard", "generation", "overflow", "manual"]


class CompactResult(Wire):
    """``compacted`` false carries a ``reason``; true carries every field of :class:`CompactionResult`."""

    compacted: bool
    reason: str | None = None
    compaction_id: str | None = None
    start_seq: int | None = None
    summary_seq: int | None = None
    end_seq: int | None = None
    summary: str | None = None
    shadowed_range: ShadowedRange | None = None
    shadowed_seqs: list[int] | None = None
    shadowed_token_count: int | None = None
    checkpoint_token_count: int | None = None
    tail_token_count: int | None = None
    before_tokens: int | None = None
    after_tokens: int | None = None
    trigger: Literal["soft", "hard", "generation", "overflow", "manual"] | None = None


class InterruptArguments(Arguments):
    session_id: str | None = None
    send_queued: bool = False


class InterruptResult(Wire):
    interrupted: bool


class QueuedArguments(Arguments):
    """``seq``: that of the prompt's ``queued`` and ``queue`` events."""

    seq: int = Field(ge=0)
    session_id: str | None = None


class DequeueResult(Wire):
    removed: bool


class EditQueuedArguments(QueuedArguments):
    text: str = Field(min_length=1)


class EditQueuedResult(Wire):
    seq: int


class ReleaseQueuedResult(Wire):
    released: bool


class NoArguments(Arguments):
    pass


class ContextUse(Wire):
    used: int
    size: int
    percent: float


class PrefillStatus(Wire):
    done: int
    total: int


class GenerationStatus(Wire):
    tokens: int
    tokens_per_second: float


class JobInfo(Wire):
    job: int
    pid: int | None
    command: str
    state: Literal["running", "exited", "killed", "timeout", "lost", "elsewhere"]
    exit_status: int | None
    elapsed: float


class StatusResult(Wire):
    state: State
    model: dict[str, Any] | None
    context: ContextUse
    prefill: PrefillStatus
    generation: GenerationStatus
    session: dict[str, Any] | None
    queue: list[dict[str, Any]]
    jobs: list[JobInfo]
    error: str | None = None


class NewSessionArguments(Arguments):
    title: str | None = None


class SessionResult(Wire):
    session_id: str


class SessionInfo(Wire):
    session_id: str
    title: str
    created_at: float
    updated_at: float
    turns: int
    tokens: int
    compactions: int
    current: bool
    snapshot: bool


class SessionList(Wire):
    sessions: list[SessionInfo]


class SwitchSessionArguments(Arguments):
    session_id: str
    turns: int = Field(3, ge=0)


class HistoryEntry(Wire):
    """One thing that the user saw. ``role``: user, assistant, tool, compaction, notice."""

    model_config = ConfigDict(extra="allow")
    seq: int
    role: str
    text: str


class SwitchSessionResult(Wire):
    session_id: str
    history: list[HistoryEntry]


class ShowHistoryArguments(Arguments):
    session_id: str | None = None
    turns: int = Field(3, ge=0)


class HistoryResult(Wire):
    history: list[HistoryEntry]


class SessionArguments(Arguments):
    session_id: str | None = None


class SaveSessionResult(Wire):
    session_id: str
    tokens: int
    snapshot: bool


class ForkSessionArguments(Arguments):
    session_id: str | None = None
    seq: int | None = Field(None, ge=0)


class DeleteSessionArguments(Arguments):
    session_id: str


class DeleteSessionResult(Wire):
    deleted: bool


class ExportSessionArguments(Arguments):
    session_id: str | None = None
    format: Literal["markdown", "jsonl"] = "markdown"


class UriResult(Wire):
    uri: str


class ReadFileArguments(Arguments):
    uri: str
    start_line: int = Field(1, ge=1)
    max_lines: int = Field(500, ge=1)
    raw: bool = False


class ReadFileResult(Wire):
    """``source`` is ``buffer`` or ``disk``; ``version`` is the synced version of an open document."""

    uri: str
    file_tag: str
    start_line: int
    end_line: int
    total_lines: int
    text: str
    version: int | None
    source: Literal["buffer", "disk"]


def _fields_clash(message: str, fields: list[str]) -> PydanticCustomError:
    """An error of several fields together; the server puts their names into ``data.fields``."""
    return PydanticCustomError("fields_clash", "{message}", {"message": message, "fields": fields})


class ApplyEditArguments(Arguments):
    """Exactly one of: ``startLine``+``endLine``+``newText``; ``oldText``+``newText``; ``range: "all"``+``newText``."""

    uri: str
    file_tag: str
    start_line: int | None = Field(None, ge=1)
    end_line: int | None = Field(None, ge=0)
    old_text: str | None = None
    new_text: str
    range: Literal["all"] | None = None
    label: str | None = None

    @model_validator(mode="after")
    def _one_target(self) -> ApplyEditArguments:
        lines = self.start_line is not None or self.end_line is not None
        if lines + (self.old_text is not None) + (self.range is not None) != 1:
            raise _fields_clash(
                "name exactly one target: startLine and endLine, or oldText, or range 'all'",
                ["startLine", "endLine", "oldText", "range"],
            )
        if lines and (self.start_line is None or self.end_line is None):
            raise _fields_clash("startLine and endLine go together", ["startLine", "endLine"])
        return self


class ApplyEditResult(Wire):
    applied: bool
    file_tag: str
    rebased: bool
    start_line: int
    end_line: int
    saved: bool


class UndoTurnArguments(Arguments):
    session_id: str | None = None
    turn: int | None = Field(None, ge=1)


class SkippedFile(Wire):
    uri: str
    reason: str


class UndoTurnResult(Wire):
    reverted: list[str]
    skipped: list[SkippedFile]


class ListJobsResult(Wire):
    jobs: list[JobInfo]


class StopJobArguments(Arguments):
    job: int


class LoadModelArguments(Arguments):
    path: str | None = None


class ModelResult(Wire):
    model: dict[str, Any] | None


@dataclass(frozen=True)
class Command:
    """One command: its name on the wire, its argument and result models, one line of help."""

    name: str
    arguments: type[Arguments]
    result: type[Wire]
    help: str


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("ds4.prompt", PromptArguments, PromptResult, "Send a prompt to the agent; answers when the turn ends."),
        Command("ds4.compact", CompactArguments, CompactResult, "Replace older conversation by a checkpoint."),
        Command("ds4.interrupt", InterruptArguments, InterruptResult, "Stop what the agent is doing."),
        Command("ds4.dequeue", QueuedArguments, DequeueResult, "Take a queued prompt back before it runs."),
        Command("ds4.editQueued", EditQueuedArguments, EditQueuedResult, "Change the text of a queued prompt."),
        Command("ds4.releaseQueued", QueuedArguments, ReleaseQueuedResult, "Let one prompt run that Stop held."),
        Command("ds4.status", NoArguments, StatusResult, "What the server is doing now."),
        Command("ds4.newSession", NewSessionArguments, SessionResult, "Start a new session and make it current."),
        Command("ds4.listSessions", NoArguments, SessionList, "The workspace's sessions, newest first."),
        Command("ds4.switchSession", SwitchSessionArguments, SwitchSessionResult, "Make another session current."),
        Command("ds4.showHistory", ShowHistoryArguments, HistoryResult, "The last turns, as the user saw them."),
        Command("ds4.saveSession", SessionArguments, SaveSessionResult, "Write the session's KV snapshot now."),
        Command("ds4.forkSession", ForkSessionArguments, SessionResult, "Copy a session up to an event."),
        Command("ds4.deleteSession", DeleteSessionArguments, DeleteSessionResult, "Delete a session."),
        Command("ds4.exportSession", ExportSessionArguments, UriResult, "Write a session as Markdown or JSON lines."),
        Command("ds4.readFile", ReadFileArguments, ReadFileResult, "Read a file as the agent sees it, with its tag."),
        Command("ds4.applyEdit", ApplyEditArguments, ApplyEditResult, "Apply an edit that is guarded by a file tag."),
        Command("ds4.undoTurn", UndoTurnArguments, UndoTurnResult, "Restore the files that a turn changed."),
        Command(
            "ds4.listJobs",
            NoArguments,
            ListJobsResult,
            "The commands that the agent started in the current session. Those of another go on, up to their timeout, "
            "and are seen and stopped again after a switch to it.",
        ),
        Command(
            "ds4.stopJob",
            StopJobArguments,
            ListJobsResult,
            "Stop a command of the current session, and all it started.",
        ),
        Command("ds4.loadModel", LoadModelArguments, ModelResult, "Load a model, in place of the one loaded."),
        Command("ds4.unloadModel", NoArguments, ModelResult, "Free the model's memory."),
    )
}
