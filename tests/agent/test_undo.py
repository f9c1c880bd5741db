"""What a turn changed, from the log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ds4_lsp.agent.undo import Change, Step, changes, reverted
from ds4_lsp.edits.guard import Mode
from ds4_lsp.edits.text import file_tag
from ds4_lsp.session.events import Event


def edited(turn: int, path: str, before: str | None, after: str, **more: Any) -> Event:
    """Texts are named as their tags here."""
    tags = {"beforeTag": before or "", "afterTag": after, "beforeBlob": before, "afterBlob": after}
    data = {"turn": turn, "uri": f"file:{path}", "path": path, **tags}
    return Event(0, "edit/applied", 0.0, {**data, **more})


def step(before: str | None, after: str, saved_tag: str | None = None) -> Step:
    return Step(before or "", after, before, after, saved_tag)


def test_a_file_goes_back_to_before_its_first_edit_from_after_its_last() -> None:
    events = [edited(1, "/a", "a0", "a1"), edited(1, "/b", None, "b1"), edited(1, "/a", "a1", "a2")]
    a = Change("file:/a", Path("/a"), (step("a0", "a1"), step("a1", "a2")))
    b = Change("file:/b", Path("/b"), (step(None, "b1"),))
    assert changes(events, None) == (1, [a, b])
    assert changes(events, 1) == (1, [a, b])
    assert changes(events, 2) == (2, [])
    assert (a.creates, a.is_proven, a.left, b.creates) == (False, True, {"a2"}, True)


def test_one_file_is_one_change_however_its_uri_is_spelled() -> None:
    events = [edited(1, "/a~", "a0", "a1"), edited(1, "/a~", "a1", "a2", uri="file:/a%7E")]
    assert changes(events, 1)[1] == [Change("file:/a%7E", Path("/a~"), (step("a0", "a1"), step("a1", "a2")))]
    events.append(edited(2, "/a~", "a2", "a0", undoes=1))
    assert changes(events, 1)[1] == []


def test_without_a_turn_the_last_one_with_something_left_to_undo_is_meant() -> None:
    a1, a2, b = (
        Change("file:/a", Path("/a"), (step("a0", "a1"),)),
        Change("file:/a", Path("/a"), (step("a1", "a2"),)),
        Change("file:/b", Path("/b"), (step(None, "b1"),)),
    )
    events = [edited(1, "/a", "a0", "a1"), edited(2, "/a", "a1", "a2"), edited(2, "/b", None, "b1")]
    assert changes(events, None) == (2, [b, a2])
    undone = edited(2, "/a", "a2", "a1", undoes=2)
    assert changes([*events, undone], None) == (2, [b])
    removed = edited(2, "/b", None, "", undoes=2)
    assert changes([*events, undone, removed], None) == (1, [a1])
    # What was tried and could not be undone stands in nobody's way, and is tried again when nothing else is left.
    assert changes([*events, undone], None, tried={2: [b]}) == (1, [a1])
    assert changes([*events, undone], None, tried={1: [a1], 2: [b]}) == (2, [b])
    assert changes([*events, undone], 2, tried={2: [b]}) == (2, [b])
    # But for what the turn did since, as one that goes on does.
    later = edited(2, "/c", "c0", "c1")
    assert changes([*events, undone, later], None, tried={2: [b]})[0] == 2
    again = edited(2, "/b", "b1", "b2")
    assert changes([*events, undone, again], None, tried={2: [b]})[0] == 2


ROWS = [f"l{number}\r\n" for number in range(1, 13)]


def text(**changed: str) -> str:
    return "".join(changed.get(row.strip(), row) for row in ROWS)


def undo(current: str, *edits: tuple[str, str], mode: Mode = "rebase", saved: str | None = None) -> str | None:
    """``edits``: the texts before and after each; ``saved``: what a formatter made of the last."""
    stored = {file_tag(one): one for pair in edits for one in pair}
    steps = [Step(file_tag(a), file_tag(b), file_tag(a), file_tag(b)) for a, b in edits]
    if saved is not None:
        steps[-1] = replace(steps[-1], saved_tag=file_tag(saved))
    return reverted(Change("file:/a", Path("/a"), tuple(steps)), current, stored.__getitem__, mode)


def test_what_was_typed_between_two_edits_of_a_turn_stays() -> None:
    first = text(l2="agent\n")
    for l6 in ("l6 typed\r\n", "typed\nl6\r\n", ""):
        between, after = text(l2="agent\n", l6=l6), text(l2="agent\n", l6=l6, l10="10\r")
        assert undo(after, (text(), first), (between, after)) == text(l6=l6)
        assert undo(after, (text(), first), (between, after), mode="strict") is None
    # Lines that the agent had put there, taken away, or changed at the end.
    for changed in ("new\nl2\r\n", "", "l2"):
        first, after = text(l2=changed), text(l2=changed, l6="typed\n", l12="12")
        assert undo(after, (text(), first), (text(l2=changed, l6="typed\n"), after)) == text(l6="typed\n")


def test_a_file_in_whose_edited_lines_somebody_typed_is_left_alone() -> None:
    first = text(l2="agent\r\n")
    for typed in ({"l2": "agent typed\r\n"}, {"l2": "agent\r\n", "l3": "typed\r\n"}):
        between, after = text(**typed), text(**typed, l10="10\r\n")
        assert undo(after, (text(), first), (between, after)) is None
    created = Step(file_tag(""), file_tag("1\n"), None, file_tag("1\n"))
    later = Step(file_tag("1\ntyped\n"), file_tag("2\ntyped\n"), "b", "a")
    change = Change("file:/a", Path("/a"), (created, later))
    assert not change.is_proven
    texts = {"b": "1\ntyped\n", "a": "2\ntyped\n"}
    assert reverted(change, "2\ntyped\n", texts.__getitem__, "rebase") is None


def test_a_file_that_was_changed_after_the_turn_is_left_alone() -> None:
    one, two = text(l2="2\r\n"), text(l2="2\r\n", l10="10\r\n")
    assert undo(two, (text(), one), (one, two)) == text()
    assert undo(two + "typed", (text(), one), (one, two)) is None


def test_what_a_formatter_made_of_an_edit_in_its_own_save_goes_with_it() -> None:
    made, formatted = text(l2="x=1\r\n"), text(l2="x = 1\r\n")
    assert undo(formatted, (text(), made), saved=formatted) == text()
    assert undo(made, (text(), made), saved=formatted) == text()
    assert undo(formatted, (text(), made)) is None
