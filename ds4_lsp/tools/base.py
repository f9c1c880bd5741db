"""What a tool is: a pydantic argument model, a description, and ``run``.

Schema, prompt text, grammar and validation all come from ``Arguments``. A tool never raises into the turn: it raises
``Ds4Error`` with a message that names the cause and a next step, and the dispatcher makes that the result's text.
"""

from __future__ import annotations

import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

import annotated_types
from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

from ds4_lsp.ports import Cancel, ParameterSpec, ToolSpec
from ds4_lsp.protocol.errors import Ds4Error


class ToolArguments(BaseModel):
    """Base of every argument model. Values arrive as raw text or JSON, so lax coercion is wanted."""

    model_config = ConfigDict(extra="forbid", frozen=True)


UNTAUGHT: dict[str, Any] = {"taught": False}
"""``json_schema_extra`` of a parameter that is seldom worth its tokens: taken where a model writes it all the same."""

A = TypeVar("A", bound=ToolArguments)


@dataclass(frozen=True)
class Shown:
    """Lines of a file that the model was shown: 1-based inclusive ranges of the text with that tag."""

    uri: str
    path: str
    file_tag: str
    ranges: tuple[tuple[int, int], ...]


Fits = Callable[[str], Awaitable[bool]]
"""Whether a text fits as this result's. The longer the text, the less likely."""
Part = Callable[[Fits], Awaitable["ToolResult | None"]]


@dataclass(frozen=True)
class ToolResult:
    """``text`` goes to the model; ``data`` to the log (JSON values); ``shown`` feeds the guard and the ledger.

    ``part``: what to show where the whole does not fit the context. It is asked for a text that ``fits``, says how much
    of it that is and how to go on, and gives None where nothing sensible would fit.
    """

    text: str
    ok: bool = True
    shown: tuple[Shown, ...] = ()
    data: dict[str, Any] = field(default_factory=dict)
    part: Part | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Call:
    """One dispatch. ``progress`` streams output to the user while the tool runs (a string of new text)."""

    session_id: str
    turn: int
    call_id: str
    cancel: Cancel
    progress: Callable[[str], None] = lambda _text: None


class Tool(ABC, Generic[A]):
    """One tool of one session. What it needs (editor, views, jobs, permissions) is given to its constructor."""

    name: ClassVar[str]
    description: ClassVar[str]
    Arguments: ClassVar[type[ToolArguments]]
    one_of: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Alternatives of optional parameters, of which a call must have exactly one."""
    changes: ClassVar[bool] = False
    """Has side effects: the log is fsynced before it runs."""

    @abstractmethod
    async def run(self, arguments: A, call: Call) -> ToolResult: ...

    async def after_refusal(self, arguments: A, error: Ds4Error, call: Call) -> ToolResult | None:
        """What the model is told of a refused call, where that is more than the error's message. Raises nothing."""
        return None

    @classmethod
    def spec(cls) -> ToolSpec:
        """The tool as the model is told of it."""
        return ToolSpec(
            cls.name,
            cls.description,
            tuple(_parameter(name, info) for name, info in cls.Arguments.model_fields.items()),
            one_of=cls.one_of,
        )


def _parameter(name: str, info: FieldInfo) -> ParameterSpec:
    kind, choices = _kind(info.annotation)
    bounds: dict[str, int] = {}
    for item in info.metadata:
        if isinstance(item, annotated_types.Ge):
            bounds["minimum"] = int(str(item.ge))
        elif isinstance(item, annotated_types.Le):
            bounds["maximum"] = int(str(item.le))
    taught = info.json_schema_extra is None
    return ParameterSpec(name, kind, info.description or "", info.is_required(), choices, taught=taught, **bounds)


def _kind(annotation: Any) -> tuple[Literal["string", "integer", "boolean", "enum"], tuple[str, ...]]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        [inner] = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return _kind(inner)
    if origin is Literal:
        return "enum", tuple(typing.get_args(annotation))
    if annotation is bool:
        return "boolean", ()
    if annotation is int:
        return "integer", ()
    if annotation is str:
        return "string", ()
    raise TypeError(f"a tool parameter cannot be of type {annotation!r}")
