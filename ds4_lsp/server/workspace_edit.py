"""From one planned edit to the ``WorkspaceEdit`` that asks for it. Pure (edits.md, "Applying", 1 and 2)."""

from __future__ import annotations

from typing import Any

from ds4_lsp.edits import positions, text
from ds4_lsp.ports import FileEdit
from ds4_lsp.server.client import Client, PositionEncoding

ANNOTATION = "ds4"


def workspace_edit(edit: FileEdit, uri: str, client: Client, *, confirm: bool, mark: str = "") -> dict[str, Any]:
    """One document, one span, the version that it was planned against.

    ``uri`` is the client's spelling. ``confirm``: the user sees a preview first, where the client has one. ``mark``:
    what the client's buffer has before the text.
    """
    change: dict[str, Any] = {"range": _range(edit, client.encoding, mark), "newText": edit.new_text}
    if not client.document_changes:
        return {"changes": {uri: [change]}}
    annotated = client.annotations
    if annotated:
        change["annotationId"] = ANNOTATION
    document: dict[str, Any] = {"textDocument": {"uri": uri, "version": edit.version}, "edits": [change]}
    result: dict[str, Any] = {"documentChanges": [document]}
    if edit.create:
        create: dict[str, Any] = {"kind": "create", "uri": uri, "options": {"overwrite": False}}
        if annotated:
            create["annotationId"] = ANNOTATION
        result["documentChanges"].insert(0, create)
    if annotated:
        annotation = {"label": edit.label, "needsConfirmation": confirm, "description": "by the ds4 agent"}
        result["changeAnnotations"] = {ANNOTATION: annotation}
    return result


def guard(edit: FileEdit, uri: str) -> dict[str, Any]:
    """What has to hold at the moment of applying. ``fileTag`` null: the file must not exist."""
    return {"uri": uri, "version": edit.version, "fileTag": None if edit.create else edit.before_tag}


def applied_twice(edit: FileEdit) -> str:
    """The text that a client makes of the file when it applies the edit a second time."""
    after = edit.after
    return after[: edit.start] + edit.new_text + after[edit.end :]


def _range(edit: FileEdit, encoding: PositionEncoding, mark: str) -> dict[str, Any]:
    index = text.LineIndex(mark + edit.before)
    start, end = (positions.position_of(index, len(mark) + at, encoding) for at in (edit.start, edit.end))
    return {
        "start": {"line": start[0], "character": start[1]},
        "end": {"line": end[0], "character": end[1]},
    }
