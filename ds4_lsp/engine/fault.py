"""Faults on demand, for tests of what the server does when the engine dies.

``DS4_LSP_FAULT`` is ``POINT:SIGNAL`` or ``POINT:SIGNAL@N``: at the N-th passage (default the first) of the point
(``load``, ``prefill``, ``decode``, ``save``, ``restore``) the process sends itself the signal (``abort``, ``kill``,
``segv``, ``term``). With ``DS4_LSP_FAULT_ONCE=FILE`` the file is created first and the fault is off while it exists,
so that the next engine lives.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

SIGNALS = {"abort": signal.SIGABRT, "kill": signal.SIGKILL, "segv": signal.SIGSEGV, "term": signal.SIGTERM}


class Faults:
    """Armed once per process; ``hit`` costs an attribute test when nothing is armed."""

    def __init__(self, spec: str | None, once: str | None) -> None:
        self._point = ""
        if not spec:
            return
        point, _, rest = spec.partition(":")
        name, _, count = rest.partition("@")
        if name not in SIGNALS:
            raise ValueError(f"DS4_LSP_FAULT={spec!r}: the signal is one of {', '.join(SIGNALS)}")
        self._point = point
        self._signal = SIGNALS[name]
        self._left = int(count or 1)
        self._once = Path(once) if once else None

    def hit(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left > 0:
            return
        if self._once is not None:
            try:
                self._once.touch(exist_ok=False)
            except FileExistsError:
                self._point = ""
                return
        os.kill(os.getpid(), self._signal)


faults = Faults(os.environ.get("DS4_LSP_FAULT"), os.environ.get("DS4_LSP_FAULT_ONCE"))
