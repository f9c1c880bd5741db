"""Guarded requests as the vectors have them: what the server sends, and what an editor makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from editor_model import EditorModel, tag_of
from lsp_client import MARK, offset_of

from ds4_lsp.edits.plan import plan
from ds4_lsp.edits.text import file_tag
from ds4_lsp.ports import FileEdit
from ds4_lsp.server.client import Client
from ds4_lsp.server.workspace_edit import guard, workspace_edit

VECTORS = Path(__file__).parents[1] / "edits" / "vectors.json"
REQUESTS: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))["requests"]
HONEST = [case for case in REQUESTS if case["answer"]["applied"]]


class Alone(EditorModel):
    """Without a server."""

    def notify(self, method: str, params: Any) -> None:
        pass


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case["name"])
def test_an_editor_answers_as_the_vectors_say(case: dict[str, Any], tmp_path: Path) -> None:
    request = json.loads(json.dumps(case["request"]).replace("file:///ws", tmp_path.as_uri()))
    editor = Alone()
    editor.encoding = case["encoding"]
    path = tmp_path / "a.txt"
    uri, codec = path.as_uri(), case.get("codec", "utf-8")
    if case["open"]:
        editor.open(uri, case["text"], case["version"])
    elif case["text"] is not None:
        editor.put(uri, case["text"], codec)
    if "disk" in case:
        editor.put(uri, case["disk"], codec)
    user = case.get("user", {"agrees": True})

    def agrees() -> bool:
        if "types" in user:
            editor.change(uri, 0, 0, user["types"])
        return bool(user["agrees"])

    editor.agrees = agrees
    answer = editor.handlers["ds4/applyGuardedEdit"](request)
    assert ("failureReason" in answer) is not (answer["applied"] or not user["agrees"])
    answer.pop("failureReason", None)
    assert answer == case["answer"]
    there = uri in editor.buffers or path.exists()
    assert (editor.text(uri) if there else None) == case["after"]
    if answer["applied"]:
        assert answer["fileTag"] == tag_of(case["after"])
        assert not answer["saved"] or path.read_bytes() == case["after"].encode(codec)
    if "disk" in case:
        assert editor.on_disk(uri) == case["disk"]


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case["name"])
def test_the_server_sends_the_request_of_the_vector(case: dict[str, Any]) -> None:
    request, text = case["request"], case["text"] or ""
    mark = MARK if text.startswith(MARK) else ""
    before, after = text.removeprefix(mark), case["after"].removeprefix(mark)
    [given] = request["guards"]
    versioned = "documentChanges" in request["edit"]
    edits = request["edit"]["documentChanges"][-1]["edits"] if versioned else request["edit"]["changes"][given["uri"]]
    [change] = edits
    start, end = (
        offset_of(text, place["line"], place["character"], case["encoding"]) - len(mark)
        for place in change["range"].values()
    )
    common = {"path": Path("/ws/a.txt"), "label": request["label"], "save": request["save"]}
    if given["fileTag"] is None:
        new = change["newText"]
        edit = FileEdit(
            given["uri"], common["path"], None, "", 0, 0, new, file_tag(""), file_tag(new), common["label"], create=True
        )
    else:
        edit = plan(
            uri=given["uri"],
            version=case["version"],
            before=before,
            start=start,
            end=end,
            new_text=change["newText"],
            **common,
        )
    client = Client(
        encoding=case["encoding"], document_changes=versioned, annotations=versioned, create_files=versioned
    )
    confirm = versioned and request["edit"]["changeAnnotations"]["ds4"]["needsConfirmation"]
    assert workspace_edit(edit, given["uri"], client, confirm=confirm, mark=mark) == request["edit"]
    assert guard(edit, given["uri"]) == given
    assert edit.after == after
    assert edit.after_tag == case["answer"]["fileTag"]
