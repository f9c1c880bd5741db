"""Run as a program in place of ``python -m ds4_lsp``: the same server, killed at a chosen point of its session logs.

``DYING`` names a file. While it exists, what the server does to session logs is counted: each append, and each fsync
that has something to do. The file holds a number: before that passage the process gets SIGKILL. Every passage is noted
in the file ``DYING.passed``, one name a line.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ds4_lsp.server.run import main
from ds4_lsp.session.events import Event
from ds4_lsp.session.log import EventLog

order = Path(os.environ["DYING"])
passed = Path(f"{order}.passed")
write, sync = EventLog.write, EventLog.sync


def pass_by(name: str) -> None:
    if not order.exists():
        return
    count = len(passed.read_text().splitlines()) if passed.exists() else 0
    with passed.open("a") as file:
        file.write(name + "\n")
    if count == int(order.read_text()):
        os.kill(os.getpid(), signal.SIGKILL)


def write_and_count(log: EventLog, event: Event) -> None:
    pass_by(event.type)
    write(log, event)


def sync_and_count(log: EventLog) -> None:
    if log._synced != log._length:
        pass_by("fsync")
    sync(log)


EventLog.write = write_and_count  # type: ignore[method-assign]
EventLog.sync = sync_and_count  # type: ignore[method-assign]
sys.exit(main())
