from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.protocol.errors import CorruptSession, NotFound, StorageFailed
from ds4_lsp.session.blobs import Blobs


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Blobs:
    return Blobs(tmp_path_factory.mktemp("session") / "blobs")


@settings(deadline=None, max_examples=30)
@given(st.text(st.characters(), max_size=30))
def test_every_text_comes_back_unchanged_under_one_name(blobs: Blobs, text: str) -> None:
    name = blobs.put(text)
    assert blobs.get(name) == text
    assert blobs.put(text) == name
    assert name in blobs


def test_line_ends_are_kept(blobs: Blobs) -> None:
    assert blobs.get(blobs.put("a\r\nb\rc\n\u2028")) == "a\r\nb\rc\n\u2028"


def test_a_damaged_text_is_never_returned(blobs: Blobs) -> None:
    name = blobs.put("precious")
    blobs.path(name).write_bytes(b"precioux")
    with pytest.raises(CorruptSession):
        blobs.get(name)
    blobs.path(name).write_bytes(b"prec")
    assert blobs.get(blobs.put("precious")) == "precious"


def test_a_damaged_text_of_the_same_size_is_replaced_by_a_new_file(blobs: Blobs, tmp_path: Path) -> None:
    name = blobs.put("shared")
    # As a fork has it: another name for the same file.
    other = Blobs(tmp_path)
    other.path(name).hardlink_to(blobs.path(name))
    blobs.path(name).write_bytes(b"sharex")
    assert blobs.put("shared") == name
    assert blobs.get(name) == "shared"
    with pytest.raises(CorruptSession):
        other.get(name)
    before = blobs.path(name).stat()
    blobs.put("shared")
    assert blobs.path(name).stat() == before
    other.put("shared")
    assert other.get(name) == "shared"


@pytest.mark.parametrize("name", ["0" * 64, "../../etc/passwd", ""])
def test_what_is_not_stored_is_not_found(blobs: Blobs, name: str) -> None:
    assert name not in blobs
    with pytest.raises(NotFound):
        blobs.get(name)


def test_no_room_for_a_text_is_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("in the way")
    with pytest.raises(StorageFailed):
        Blobs(tmp_path / "blobs").put("x")
