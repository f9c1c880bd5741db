"""What the data of each event type must have. Written logs have it; a garbled one is told by it.

More members are welcome everywhere: a later version may add some.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ds4_lsp.session.events import Event

Count = Annotated[int, Field(ge=0)]
Seq = Annotated[int, Field(ge=0)]


class Shape(BaseModel):
    """Base of every shape. Strict, since the log holds what this project wrote itself."""

    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_camel)


class _Place(Shape):
    uri: str
    path: str
    file_tag: str
    ranges: list[Annotated[list[Count], Field(min_length=2, max_length=2)]]
    blob: str | None = None


class _Pointed(Shape):
    uri: str
    shown: list[_Place] = []


class _Call(Shape):
    call_id: str
    name: str


class _Span(Shape):
    start: Count
    end: Count


class _User(Shape):
    turn: Count
    text: str
    kind: Literal["prompt", "notice", "checkpoint"] = "prompt"
    context: list[_Pointed] = []
    shown: list[_Place] = []


class _Assistant(Shape):
    turn: Count
    text: str
    tokens: list[Count]
    tokenizer: str
    thinking: bool
    calls: list[_Call]
    stop: str
    original: Seq | None = None


class _Result(Shape):
    turn: Count
    call_id: str
    name: str
    ok: bool
    text: str
    shown: list[_Place] = []
    original: Seq | None = None


class _TurnStart(Shape):
    turn: Count
    queued: Seq | None = None


class _TurnEnd(Shape):
    turn: Count
    stop_reason: str
    error: str | None = None
    context_tokens: Count | None = None


class _RequestHeader(Shape):
    system: str
    tools: list[str]
    model: str


class _Model(Shape):
    name: str
    path: str
    fingerprint: str


class _Queued(Shape):
    text: str
    context: list[_Pointed]
    requeued: Seq | None = None


class _Dropped(Shape):
    queued: Seq


class _Edited(Shape):
    queued: Seq
    text: str


class _Asked(Shape):
    kind: str
    detail: str
    call_id: str


class _Decided(Shape):
    kind: str
    answer: Literal["allow", "deny", "pattern", "remembered", "once", "session", "unavailable"]
    call_id: str


class _Started(Shape):
    turn: Count
    call_id: str
    name: str


class _Edit(Shape):
    turn: Count
    call_id: str
    uri: str
    path: str
    before_tag: str
    after_tag: str
    before_blob: str | None
    after_blob: str | None
    created: bool = False
    undoes: Count | None = None


class _JobStarted(Shape):
    job: Count
    pid: int | None = None
    command: str
    call_id: str


class _JobEnded(Shape):
    job: Count
    state: Literal["exited", "killed", "timeout", "lost", "elsewhere"]
    exit_status: int | None


class _CompactStart(Shape):
    turn: Count
    trigger: str
    bottom: Count


class _CompactSummary(Shape):
    summary: str
    compaction_id: str | None = None
    shadowed_seqs: list[Seq]
    shadowed_range: _Span | None = None


class _CompactEnd(Shape):
    turn: Count
    error: str | None = None
    recovered: bool = False


class _Title(Shape):
    title: str


class _Retokenised(Shape):
    tokenizer: str
    replies: Count


_SHAPES: dict[str, type[Shape]] = {
    "user/message": _User,
    "assistant/message": _Assistant,
    "tool/result": _Result,
    "turn/start": _TurnStart,
    "turn/end": _TurnEnd,
    "request/header": _RequestHeader,
    "model/loaded": _Model,
    "prompt/queued": _Queued,
    "prompt/dropped": _Dropped,
    "prompt/edited": _Edited,
    "permission/asked": _Asked,
    "permission/decided": _Decided,
    "tool/started": _Started,
    "edit/applied": _Edit,
    "job/started": _JobStarted,
    "job/ended": _JobEnded,
    "compact/start": _CompactStart,
    "compact/summary": _CompactSummary,
    "compact/end": _CompactEnd,
    "session/title": _Title,
    "session/retokenised": _Retokenised,
}


def misshapen(event: Event) -> str | None:
    """What is wrong with the shape of an event's data, if anything is. The header is checked where it is read."""
    shape = _SHAPES.get(event.type)
    if shape is None:
        return None
    try:
        shape.model_validate(event.data)
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        return f"{event.type} has a garbled {where}: {first['msg']}"
    return None
