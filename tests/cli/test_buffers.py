"""The terminal client as a guarded editor: an edit lands on the text it was made for, or nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4_lsp.cli.buffers import Buffers
from ds4_lsp.edits.positions import PositionEncoding, position_of
from ds4_lsp.edits.text import file_tag
from ds4_lsp.edits.uris import from_path

TEXTS = st.text(st.sampled_from("ab \n\r\x0c\u2028é😀e\u0301"), max_size=30)
ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")


class Told:
    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def __call__(self, method: str, params: Any) -> None:
        self.sent.append((method, params))

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.sent]


def text_edit(text: str, start: int, end: int, new: str, encoding: PositionEncoding = "utf-16") -> dict[str, Any]:
    (line, character), (end_line, end_character) = (position_of(text, at, encoding) for at in (start, end))
    span = {"start": {"line": line, "character": character}, "end": {"line": end_line, "character": end_character}}
    return {"range": span, "newText": new}


def workspace_edit(uri: str, version: int | None, *edits: dict[str, Any]) -> dict[str, Any]:
    return {"documentChanges": [{"textDocument": {"uri": uri, "version": version}, "edits": list(edits)}]}


def guarded(
    uri: str, version: int | None, tag: str | None, *edits: dict[str, Any], save: bool = True
) -> dict[str, Any]:
    guards = [{"uri": uri, "version": version, "fileTag": tag}]
    return {"edit": workspace_edit(uri, version, *edits), "guards": guards, "save": save}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ä b.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    return path


@given(text=TEXTS, new=TEXTS, encoding=st.sampled_from(ENCODINGS), data=st.data())
def test_an_edit_replaces_exactly_its_span_in_every_position_encoding(
    tmp_path_factory: pytest.TempPathFactory, text: str, new: str, encoding: PositionEncoding, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("edit") / "f.txt"
    path.write_bytes(text.encode())
    # A position between CR and LF cannot be named in LSP.
    places = [at for at in range(len(text) + 1) if text[max(0, at - 1) : at + 1] != "\r\n"]
    start, end = sorted((data.draw(st.sampled_from(places)), data.draw(st.sampled_from(places))))
    buffers = Buffers(Told(), encoding)
    change = text_edit(text, start, end, new, encoding)
    assert buffers.apply({"edit": workspace_edit(from_path(path), None, change)}) == {"applied": True}
    assert path.read_bytes().decode() == text[:start] + new + text[end:]


def test_a_guarded_edit_of_an_open_document_is_announced_applied_and_saved(file: Path) -> None:
    told = Told()
    buffers = Buffers(told)
    buffer = buffers.open(file)
    change = text_edit(buffer.text, 0, 3, "ONE")
    answer = buffers.apply_guarded(guarded(buffer.uri, 1, file_tag(buffer.text), change))
    assert answer == {"applied": True, "saved": True, "fileTag": file_tag("ONE\r\ntwo\r\n")}
    assert told.methods == ["textDocument/didOpen", "textDocument/didChange", "textDocument/didSave"]
    assert told.sent[1][1]["textDocument"]["version"] == 2
    assert file.read_bytes() == b"ONE\r\ntwo\r\n"


def test_without_save_the_disk_keeps_the_old_text(file: Path) -> None:
    buffers = Buffers(Told())
    buffer = buffers.open(file)
    change = text_edit(buffer.text, 0, 3, "ONE")
    answer = buffers.apply_guarded(guarded(buffer.uri, 1, file_tag(buffer.text), change, save=False))
    assert (answer["applied"], answer["saved"]) == (True, False)
    assert file.read_bytes() == b"one\r\ntwo\r\n"
    assert buffers.save(buffer.uri) == {"saved": True}
    assert file.read_bytes() == b"ONE\r\ntwo\r\n"


@pytest.mark.parametrize("version, tag", [(2, None), (1, "00000000")], ids=["another version", "another text"])
def test_a_guard_that_does_not_hold_changes_nothing(file: Path, version: int, tag: str | None) -> None:
    told = Told()
    buffers = Buffers(told)
    buffer = buffers.open(file)
    change = text_edit(buffer.text, 0, 3, "ONE")
    answer = buffers.apply_guarded(guarded(buffer.uri, version, tag or file_tag(buffer.text), change))
    assert answer["applied"] is False and file.name in answer["failureReason"]
    assert buffers.get(buffer.uri) == buffer
    assert told.methods == ["textDocument/didOpen"]
    assert file.read_bytes() == b"one\r\ntwo\r\n"


def test_a_file_changed_on_disk_behind_the_buffer_is_not_overwritten(file: Path) -> None:
    buffers = Buffers(Told())
    buffer = buffers.open(file)
    file.write_text("someone else's")
    change = text_edit(buffer.text, 0, 3, "ONE")
    answer = buffers.apply_guarded(guarded(buffer.uri, 1, file_tag(buffer.text), change))
    assert answer["saved"] is False
    assert file.read_text() == "someone else's"


def test_a_stale_guard_of_an_unopened_file_changes_nothing(file: Path) -> None:
    change = text_edit("one\r\ntwo\r\n", 0, 3, "ONE")
    answer = Buffers(Told()).apply_guarded(guarded(from_path(file), None, "00000000", change))
    assert answer["applied"] is False
    assert file.read_bytes() == b"one\r\ntwo\r\n"


def test_a_new_file_is_created_with_its_text_and_an_existing_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "new.txt"
    uri = from_path(path)
    request = guarded(uri, None, None, text_edit("", 0, 0, "hello\n"))
    request["edit"]["documentChanges"].insert(0, {"kind": "create", "uri": uri})
    buffers = Buffers(Told())
    assert buffers.apply_guarded(request) == {"applied": True, "saved": True, "fileTag": file_tag("hello\n")}
    assert path.read_text() == "hello\n"
    assert buffers.apply_guarded(request)["applied"] is False
    assert path.read_text() == "hello\n"


def test_overlapping_edits_are_refused(file: Path) -> None:
    text = "one\r\ntwo\r\n"
    changes = (text_edit(text, 0, 3, "x"), text_edit(text, 2, 6, "y"))
    answer = Buffers(Told()).apply({"edit": workspace_edit(from_path(file), None, *changes)})
    assert answer["applied"] is False and "overlap" in answer["failureReason"]
    assert file.read_bytes() == text.encode()


def test_the_changes_form_of_an_edit_works_too(file: Path) -> None:
    change = text_edit("one\r\ntwo\r\n", 5, 8, "2")
    assert Buffers(Told()).apply({"edit": {"changes": {from_path(file): [change]}}}) == {"applied": True}
    assert file.read_bytes() == b"one\r\n2\r\n"


def test_one_document_under_two_spellings_of_its_uri_is_one_buffer(file: Path) -> None:
    buffers = Buffers(Told())
    buffer = buffers.open(file)
    assert buffers.get(buffer.uri.replace("%C3%A4", "%c3%a4")) == buffer
