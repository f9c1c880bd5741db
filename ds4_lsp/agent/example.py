"""A short conversation for the system prompt: small models copy what they are shown better than they follow rules.

Measured on Qwen2.5-Coder 1.5B: without it the model answers from imagination, with it the first reply is a call.
"""

from __future__ import annotations

from ds4_lsp.syntax.block import Syntax
from ds4_lsp.syntax.prompt import render_calls

_PATH = "path/to/file"
"""A placeholder: a name that a file could have leaks into calls."""
_TAG = "00000000"
_TEXT = f'{_PATH}: file_tag={_TAG} lines 1-2 of 2\n1 NAME = "old"\n2 print(NAME)'
_EDIT = {"path": _PATH, "old": 'NAME = "old"', "new": 'NAME = "new"'}


def _exchanges(syntax: Syntax) -> tuple[tuple[str, str], ...]:
    return (
        ("User", f'[For this request:]\n{_TEXT}\n\nSet NAME to "new" in {_PATH}.'),
        ("You", render_calls([("edit", _EDIT)], syntax)),
        ("User", f"Tool result c1 (edit, ok):\nEdited {_PATH}: line 1 is changed."),
        ("You", f'NAME is "new" now ({_PATH} line 1).'),
    )


def example_conversation(syntax: Syntax) -> str:
    """The example, with the marks of ``syntax``: for the segment that is tokenised with specials."""
    exchanges = _exchanges(syntax)
    lines = [f"{who}: {text}" if "\n" not in text else f"{who}:\n{text}" for who, text in exchanges]
    return "\n".join(["# Example of a conversation", "", *lines, ""])
