"""What a turn changed, from the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ds4_lsp.agent.undo import Change, changes
from ds4_lsp.session.events import Event


def edited(turn: int, path: str, before: str | None, after: str, **more: Any) -> Event:
    data = {"turn": turn, "uri": f"file:{path}", "path": path, "beforeBlob": before, "afterTag": after}
    return Event(0, "edit/applied", 0.0, {**data, **more})


def test_a_file_goes_back_to_before_its_first_edit_from_after_its_last() -> None:
    events = [edited(1, "/a", "a0", "a1"), edited(1, "/b", None, "b1"), edited(1, "/a", "a1", "a2")]
    a, b = Change("file:/a", Path("/a"), "a0", "a2"), Change("file:/b", Path("/b"), None, "b1")
    assert changes(events, None) == (1, [a, b])
    assert changes(events, 1) == (1, [a, b])
    assert changes(events, 2) == (2, [])


def test_one_file_is_one_change_however_its_uri_is_spelled() -> None:
    events = [edited(1, "/a~", "a0", "a1"), edited(1, "/a~", "a1", "a2", uri="file:/a%7E")]
    assert changes(events, 1)[1] == [Change("file:/a%7E", Path("/a~"), "a0", "a2")]
    events.append(edited(2, "/a~", "a2", "a0", undoes=1))
    assert changes(events, 1)[1] == []


def test_without_a_turn_the_last_one_with_something_left_to_undo_is_meant() -> None:
    events = [edited(1, "/a", "a0", "a1"), edited(2, "/a", "a1", "a2"), edited(2, "/b", None, "b1")]
    undone = edited(2, "/a", "a2", "a1", undoes=2)
    assert changes([*events, undone], None) == (2, [Change("file:/b", Path("/b"), None, "b1")])
    removed = edited(2, "/b", None, "", undoes=2)
    assert changes([*events, undone, removed], None) == (1, [Change("file:/a", Path("/a"), "a0", "a1")])
