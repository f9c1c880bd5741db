"""Guarded requests as the vectors have them: what the server sends, and what an editor makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from editor_model import EditorModel, tag_of
from lsp_client import offset_of

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
    uri = (tmp_path / "a.txt").as_uri()
    if case["open"]:
        editor.open(uri, case["text"], case["version"])
    elif case["text"] is not None:
        editor.put(uri, case["text"], "utf-8")
    answer = editor.handlers["ds4/applyGuardedEdit"](request)
    answer.pop("failureReason", None)
    assert answer == case["answer"]
    assert editor.text(uri) == case["after"]
    if answer["applied"]:
        assert answer["fileTag"] == tag_of(case["after"])
        assert not answer["saved"] or editor.on_disk(uri) == case["after"]


@pytest.mark.parametrize("case", HONEST, ids=lambda case: case["name"])
def test_the_server_sends_the_request_of_the_vector(case: dict[str, Any]) -> None:
    request, before = case["request"], case["text"] or ""
    [given] = request["guards"]
    [change] = request["edit"]["documentChanges"][-1]["edits"]
    start, end = (
        offset_of(before, place["line"], place["character"], case["encoding"]) for place in change["range"].values()
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
    client = Client(encoding=case["encoding"], document_changes=True, annotations=True, create_files=True)
    assert workspace_edit(edit, given["uri"], client, confirm=False) == request["edit"]
    assert guard(edit, given["uri"]) == given
    assert edit.after == case["after"]
    assert edit.after_tag == case["answer"]["fileTag"]
