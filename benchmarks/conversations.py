"""Conversations as data, for ``equality``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ds4_lsp.ports import ParameterSpec, ToolSpec

IDS = ("callqone1", "callqtwo2")
QUOTED = "é \"q\" \\ 'x' <b>\nnext"


@dataclass(frozen=True)
class Turn:
    """A user's message, and what follows until the next."""

    user: str
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    said: str = ""
    """Before the calls."""
    results: Sequence[str] = ()
    thought: str = ""
    answer: str | None = None


@dataclass(frozen=True)
class Conversation:
    name: str
    turns: Sequence[Turn]
    system: str = "You test.\n\nTwo paragraphs: é."
    tools: bool = False
    opens: bool = True
    specs: Sequence[ToolSpec] = field(default=())


READ = ToolSpec(
    "read",
    "Reads a file.",
    (
        ParameterSpec("path", "string", "Where.", required=True),
        ParameterSpec("start_line", "integer", "First line.", required=False, minimum=1),
        ParameterSpec("whole", "boolean", "All of it.", required=False),
    ),
)
EDIT = ToolSpec(
    "edit",
    "Changes a file.",
    (
        ParameterSpec("path", "string", "Where.", required=True),
        ParameterSpec("old", "string", "What is there.", required=True),
        ParameterSpec("new", "string", "What shall be there.", required=True),
    ),
)
SPECS = (READ, EDIT)
_READ = ("read", {"path": "src/a.py", "start_line": 40, "whole": False})
_EDIT = ("edit", {"path": "src/b.py", "old": "x = 1", "new": "x = 2"})
_SEEN = "src/a.py: file_tag=1a2b3c4d lines 40-41 of 50\n40 x = 1\n41 y = 2"
CONVERSATIONS = (
    Conversation("system", [Turn("A question\nof two lines?")]),
    Conversation("user and answer", [Turn("One?", answer="An answer."), Turn("And then?")]),
    Conversation("thinking", [Turn("One?", thought="I wonder.", answer="An answer.")], opens=False),
    Conversation("one call", [Turn("Look.", [_READ], results=["Short."])], tools=True),
    Conversation("two calls", [Turn("Look.", [_READ, _EDIT], results=["First.", "Second."])], tools=True),
    Conversation("result", [Turn("Look.", [_READ], results=[_SEEN], answer="Seen."), Turn("More?")], tools=True),
    Conversation(
        "results in a row",
        [Turn("Look.", [_READ, _EDIT], results=[_SEEN, "Done."], answer="So."), Turn("?")],
        tools=True,
    ),
    Conversation("call after text", [Turn("Look.", [_READ], said="I look.", results=["Short."])], tools=True),
    Conversation(
        "quotes", [Turn("Look.", [("edit", {"path": "é.py", "old": QUOTED, "new": "ü"})], results=["Ok."])], tools=True
    ),
)
