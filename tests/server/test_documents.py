from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsp_client import LINE_END, UNITS, position_of

from ds4_lsp.server.documents import Change, DocumentStore

ENCODINGS = ["utf-8", "utf-16", "utf-32"]
PIECES = ["\n", "\r\n", "\r", "\f", "\u2028", "\x85", "\x0b", "a", "bc", "ä", "e\u0301", "😀", "𝒳", "", "\t", "語"]

texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def positions_between_code_points(text: str) -> list[int]:
    """Offsets that LSP can name: not those inside a CRLF."""
    return [offset for offset in range(len(text) + 1) if text[offset - 1 : offset + 1] != "\r\n"]


@st.composite
def histories(draw: Any) -> tuple[str, list[list[tuple[int, int, str]]]]:
    """A text, and notifications of one or more changes each."""
    text = start = draw(texts)
    notifications = []
    for _ in range(draw(st.integers(1, 4))):
        changes = []
        for _ in range(draw(st.integers(1, 3))):
            places = st.sampled_from(positions_between_code_points(text))
            first, last = sorted((draw(places), draw(places)))
            new = draw(texts)
            changes.append((first, last, new))
            text = text[:first] + new + text[last:]
        notifications.append(changes)
    return start, notifications


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(history=histories())
@settings(deadline=None, max_examples=60)
def test_the_store_has_what_the_editor_has(
    encoding: Any, history: tuple[str, list[list[tuple[int, int, str]]]]
) -> None:
    text, notifications = history
    store = DocumentStore(encoding)
    store.open("file:///a", 1, text)
    seen: list[str | None] = []
    expected: list[str | None] = []
    store.watch("file:///a", seen.append)
    for version, changes in enumerate(notifications, start=2):
        wire = []
        for start, end, new in changes:
            first, last = position_of(text, start, encoding), position_of(text, end, encoding)
            wire.append(Change((first["line"], first["character"], last["line"], last["character"]), new))
            text = text[:start] + new + text[end:]
            expected.append(text)
        store.change("file:///a", version, wire)
        document = store.get("file:///a")
        assert document is not None
        assert (document.text, document.version) == (text, version)
    assert seen == expected


@given(text=texts, line=st.integers(0, 8), character=st.integers(0, 20), encoding=st.sampled_from(ENCODINGS))
@settings(deadline=None)
def test_a_position_outside_the_text_is_moved_into_it(text: str, line: int, character: int, encoding: Any) -> None:
    store = DocumentStore(encoding)
    store.open("file:///a", 1, text)
    store.change("file:///a", 2, [Change((line, character, line, character), "#")])
    document = store.get("file:///a")
    assert document is not None
    at = document.text.index("#")
    assert document.text.replace("#", "") == text
    starts = [0, *(found.end() for found in LINE_END.finditer(text))]
    if line < len(starts):
        codec, size = UNITS[encoding]
        assert starts[line] <= at
        assert len(text[starts[line] : at].encode(codec)) // size <= character
        assert LINE_END.search(text[starts[line] : at]) is None
    else:
        assert at == len(text)


def test_one_file_is_one_document_however_its_uri_is_spelled() -> None:
    store = DocumentStore()
    store.open("file:///c%3A/a%20b", 1, "x")
    assert store.get("file:///C:/a b") == store.get("file:///c%3A/a%20b")
    store.close("file:///C:/a%20b")
    assert store.all() == ()


def test_halves_of_a_surrogate_pair_become_one_character() -> None:
    store = DocumentStore("utf-16")
    store.open("file:///a", 1, "\ud83d\ude00")
    store.change("file:///a", 2, [Change((0, 2, 0, 2), "\ud83d"), Change((0, 3, 0, 3), "\ude00")])
    assert [document.text for document in store.all()] == ["😀😀"]


def test_a_change_of_a_document_that_is_not_open_is_no_document() -> None:
    store = DocumentStore()
    store.change("file:///a", 2, [Change(None, "x")])
    assert store.all() == ()


def test_a_watcher_hears_of_opening_and_closing_until_it_forgets() -> None:
    store = DocumentStore()
    seen: list[str | None] = []
    forget = store.watch("file:///a", seen.append)
    store.open("file:///a", 1, "x")
    store.change("file:///a", 2, [Change(None, "y")])
    store.close("file:///a")
    forget()
    store.open("file:///a", 1, "z")
    assert seen == ["x", "y", None]
