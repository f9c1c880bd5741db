"""What clients know of the queues: one ``queue`` event for each change of what waits in a session."""

from __future__ import annotations

from collections.abc import Sequence

from ds4_lsp.agent.queue import Pending
from ds4_lsp.ports import Listener

Shape = tuple[tuple[int, str, bool], ...]


class QueueTold:
    """Remembers what was told last, so that nothing is told twice."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._told: dict[str, Shape] = {}

    def tell(self, session_id: str, turn: int, waiting: Sequence[Pending]) -> None:
        """``waiting``: what waits behind something, or is held, in order. ``turn``: the next one's number."""
        shape = tuple((item.seq, item.text, item.held) for item in waiting)
        if shape == self._told.get(session_id, ()):
            return
        self._told[session_id] = shape
        items = [{"seq": seq, "text": text, "held": held} for seq, text, held in shape]
        self._listener.event(session_id, turn, "queue", items=items)
