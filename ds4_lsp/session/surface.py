"""The surface: what the model sees, as a projection of the log.

The same events always give the same surface. Log-only events never change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ds4_lsp.protocol.errors import CorruptSession
from ds4_lsp.session.events import Damaged, Event, check_surface_op


class Surface:
    """An ordered list of message events after replacements. A *position* is an index into it, from 0."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._nodes: list[Event] = []
        self._revision = 0
        for event in events:
            self.apply(event)

    @property
    def events(self) -> list[Event]:
        """The nodes in order (a copy of the list)."""
        return list(self._nodes)

    @property
    def nodes(self) -> list[tuple[int, Event]]:
        """(seq, event) of each node in order."""
        return [(event.seq, event) for event in self._nodes]

    @property
    def seqs(self) -> list[int]:
        return [event.seq for event in self._nodes]

    @property
    def revision(self) -> int:
        """Rises with every change of the surface."""
        return self._revision

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Event]:
        return iter(self._nodes)

    def __getitem__(self, position: int) -> Event:
        return self._nodes[position]

    def check(self, event: Event) -> None:
        """Raise ``CorruptSession`` where ``event`` cannot follow: its span is not on the surface, or it does not cite
        every node that it would shadow. Changes nothing."""
        try:
            check_surface_op(event.type, event.surface_op)
        except Damaged as error:
            raise CorruptSession(f"Event {event.seq}: {error}.", seq=event.seq) from error
        op = event.surface_op
        if op is None or op["op"] == "append":
            return
        if op["end"] >= len(self._nodes):
            raise CorruptSession(
                f"Event {event.seq} replaces surface positions {op['start']} to {op['end']}, "
                f"but the surface has only {len(self._nodes)} nodes.",
                seq=event.seq,
            )
        shadowed = [node.seq for node in self._nodes[op["start"] : op["end"] + 1]]
        missing = sorted(set(shadowed).difference(event.sources))
        if missing:
            raise CorruptSession(
                f"Event {event.seq} replaces events {shadowed} and does not cite {missing}.", seq=event.seq
            )

    def apply(self, event: Event) -> None:
        """Take in the next event of the log. Raises what :meth:`check` raises, and is then unchanged."""
        self.check(event)
        op = event.surface_op
        if op is None:
            return
        if op["op"] == "append":
            self._nodes.append(event)
        else:
            self._nodes[op["start"] : op["end"] + 1] = [event]
        self._revision += 1
