"""Appending to a session's log and opening it, by events."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from benchmarks.measure import Row, seconds
from ds4_lsp.session.events import APPEND
from ds4_lsp.session.session import Session
from ds4_lsp.session.store import SessionStore


def rows(sizes: tuple[int, ...]) -> list[Row]:
    found, first = [], 0.0
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            append, opened = _measure(Path(name), size)
        first = first or opened / size
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found += [
            Row(f"append, log of {size:,} events", f"{append / size * 1e6:.0f} µs an event", "flat"),
            Row(
                f"open, log of {size:,} events",
                f"{opened:.2f} s, {opened / size / first:.2f} × the first row's time an event; "
                f"process at most {memory:.0f} MB",
                "linear",
            ),
        ]
    return found


def _measure(base: Path, size: int) -> tuple[float, float]:
    store = SessionStore(base, [base])
    session = store.create()

    def fill() -> None:
        for number in range(size // 5):
            queued = session.append("prompt/queued", {"text": "go on", "context": []})
            session.append("turn/start", {"turn": number + 1, "queued": queued.seq})
            prompt = {"turn": number + 1, "kind": "notice", "text": "word " * 20}
            if number % 100 == 0:
                session.append("user/message", prompt, surface_op=APPEND)
            else:
                session.append("job/started", {"job": number, "command": "word " * 20})
                session.append("job/ended", {"job": number, "state": "exited", "exitStatus": 0})
            session.append("turn/end", {"turn": number + 1, "stopReason": "end"})

    append = seconds(fill)
    directory = session.directory
    session.close()
    opened: list[Session] = []
    took = seconds(lambda: opened.append(Session.open(directory)))
    opened[0].close()
    return append, took
