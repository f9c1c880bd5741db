"""``DS4: …`` code actions, so that any LSP client can use the agent without a plugin. Pure.

LSP cannot ask for a line of text. A client that can announces ``experimental.ds4.editCommand``, its own command
which gets the place as ``arguments[0]`` and sends ``ds4.prompt`` itself; elsewhere the instruction is what is
written in the selection.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from ds4_lsp.server.capabilities import EDIT, EXPLAIN, FIX
from ds4_lsp.server.client import LLM_GENERATED, Client

EXPLAIN_TEXT = "Explain the selected code: what it does, and why it is written this way. Do not change any file."
EDIT_TEXT = "Do what the comments and notes in the selected code ask for. Change the file accordingly."
FIX_TEXT = "Fix this problem in the file."


def code_actions(params: types.CodeActionParams, client: Client) -> list[dict[str, Any]]:
    """Code actions, or plain commands for a client that knows no literals. Ordered: the most specific first."""
    uri = params.text_document.uri
    place = {"uri": uri, "range": _range(params.range)}
    automatic = params.context.trigger_kind == types.CodeActionTriggerKind.Automatic
    actions = [_fix(uri, diagnostic, client) for diagnostic in params.context.diagnostics]
    if params.range.start != params.range.end or not automatic:
        actions.append(_edit(place, client))
        actions.append(_action("DS4: Explain", EXPLAIN, _prompt(EXPLAIN_TEXT, place), client))
    wanted = [action for action in actions if _asked_for(action["kind"], params.context.only)]
    return wanted if client.action_literals else [action["command"] for action in wanted]


def _fix(uri: str, diagnostic: types.Diagnostic, client: Client) -> dict[str, Any]:
    place = {"uri": uri, "range": _range(diagnostic.range), "diagnostic": describe(diagnostic)}
    action = _action("DS4: Fix this problem", FIX, _prompt(FIX_TEXT, place), client)
    action["diagnostics"] = [diagnostic]
    return action


def _edit(place: dict[str, Any], client: Client) -> dict[str, Any]:
    title = "DS4: Edit with a prompt…"
    if client.edit_command:
        command = {"title": title, "command": client.edit_command, "arguments": [place]}
        return _action(title, EDIT, command, client)
    title = "DS4: Edit as the comments here ask"
    return _action(title, EDIT, _prompt(EDIT_TEXT, place), client)


def _prompt(text: str, place: dict[str, Any]) -> dict[str, Any]:
    # A client without a plugin drops the reply of a command, and some block on it: the turn reports by progress.
    return {"command": "ds4.prompt", "arguments": [{"text": text, "context": [place], "wait": False}]}


def _action(title: str, kind: str, command: dict[str, Any], client: Client) -> dict[str, Any]:
    action: dict[str, Any] = {"title": title, "kind": kind, "command": {"title": title} | command}
    if client.action_tags:
        action["tags"] = [LLM_GENERATED]
    return action


def describe(diagnostic: types.Diagnostic) -> str:
    """A diagnostic in one line: ``source(code): message``."""
    head = diagnostic.source or ""
    if diagnostic.code is not None:
        head += f"({diagnostic.code})"
    return f"{head}: {diagnostic.message}" if head else diagnostic.message


def _range(value: types.Range) -> dict[str, Any]:
    return {
        "start": {"line": value.start.line, "character": value.start.character},
        "end": {"line": value.end.line, "character": value.end.character},
    }


def _asked_for(kind: str, only: Any) -> bool:
    if not only:
        return True
    kinds = [str(getattr(value, "value", value)) for value in only]
    return any(value in {"", kind} or kind.startswith(value + ".") for value in kinds)
