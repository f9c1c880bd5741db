from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.protocol.errors import CorruptSession
from ds4_lsp.session.events import APPEND, LOG_ONLY_TYPES, Event, replace
from ds4_lsp.session.reader import read_file
from ds4_lsp.session.session import Session
from ds4_lsp.session.surface import Surface


def _message(seq: int, op: Any = APPEND, sources: tuple[int, ...] = ()) -> Event:
    return Event(seq, "user/message", 1.0, {"text": str(seq)}, op, sources)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_the_same_log_gives_the_same_surface_while_written_and_when_reloaded(data: st.DataObject, lawful: Any) -> None:
    with lawful.store() as store:
        session = store.create()
        lawful.play(session, data.draw(lawful.actions))
        live = session.surface.nodes
        session.log.close()
        session._lock.release()
        assert Surface(read_file(session.directory)).nodes == live
        assert Surface(read_file(session.directory)).nodes == live


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_reopening_twice_changes_nothing_more(data: st.DataObject, lawful: Any) -> None:
    with lawful.played(data.draw(lawful.actions)) as directory:
        first = Session.open(directory)
        nodes = first.surface.nodes
        first.close()
        content = (directory / "events.jsonl").read_bytes()
        second = Session.open(directory)
        assert second.recovered == ()
        assert second.surface.nodes == nodes
        second.close()
        assert (directory / "events.jsonl").read_bytes() == content


@pytest.mark.parametrize("kind", sorted(LOG_ONLY_TYPES | {"future/kind"}))
def test_log_only_events_never_change_the_surface(kind: str) -> None:
    surface = Surface([_message(1), _message(2)])
    revision = surface.revision
    surface.apply(Event(3, kind, 1.0, {"turn": 1}, ignorable=True))
    assert surface.seqs == [1, 2]
    assert surface.revision == revision
    with pytest.raises(CorruptSession):
        surface.apply(Event(4, kind, 1.0, {"turn": 1}, APPEND, ignorable=True))
    assert surface.seqs == [1, 2]


@settings(deadline=None)
@given(st.integers(1, 8), st.data())
def test_a_replacement_must_cite_every_node_that_it_shadows(size: int, data: st.DataObject) -> None:
    surface = Surface(_message(seq) for seq in range(1, size + 1))
    start = data.draw(st.integers(0, size - 1))
    end = data.draw(st.integers(start, size - 1))
    shadowed = surface.seqs[start : end + 1]
    cited = data.draw(st.sets(st.sampled_from(surface.seqs)))
    event = _message(size + 1, replace(start, end), tuple(sorted(cited)))
    before = surface.nodes
    if set(shadowed) <= cited:
        surface.apply(event)
        assert surface.nodes == [*before[:start], (event.seq, event), *before[end + 1 :]]
    else:
        with pytest.raises(CorruptSession, match="does not cite"):
            surface.apply(event)
        assert surface.nodes == before


def test_a_replacement_of_what_is_not_there_is_corrupt() -> None:
    surface = Surface([_message(1)])
    with pytest.raises(CorruptSession, match="only 1 nodes"):
        surface.apply(_message(2, replace(0, 1), (1,)))
    assert surface.seqs == [1]


def test_a_replacement_refused_by_the_surface_never_reaches_the_log(session: Session) -> None:
    session.append("user/message", {"turn": 1, "text": "a", "kind": "prompt"}, surface_op=APPEND)
    before = session.log.path.read_bytes()
    with pytest.raises(CorruptSession):
        session.append("user/message", {"turn": 1, "text": "b", "kind": "checkpoint"}, surface_op=replace(0, 0))
    assert session.log.path.read_bytes() == before
    assert session.surface.seqs == [1]
