"""Faults on demand, for tests of what the server does when the engine dies.

``DS4_LSP_FAULT`` is ``POINT:SIGNAL`` or ``POINT:SIGNAL@N``: at the N-th passage (default the first) of the point
(``load``, ``prefill``, ``decode``, ``save``, ``restore``) the process sends itself the signal (``abort``, ``kill``,
``segv``, ``term``), or executes an illegal instruction (``ill``). With ``DS4_LSP_FAULT_ONCE=FILE`` the file is created
first and the fault is off while it exists, so that the next engine lives.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from pathlib import Path

SIGNALS = {
    "abort": signal.SIGABRT,
    "kill": signal.SIGKILL,
    "segv": signal.SIGSEGV,
    "term": signal.SIGTERM,
    "ill": signal.SIGILL,
}
_ILLEGAL = {"x86_64": b"\x0f\x0b", "AMD64": b"\x0f\x0b", "aarch64": b"\0\0\0\0", "arm64": b"\0\0\0\0"}
"""Instructions that are defined to be none, by machine."""


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
        if self._signal is signal.SIGILL:
            _execute(_ILLEGAL[os.uname().machine])
        os.kill(os.getpid(), self._signal)


def _execute(code: bytes) -> None:
    """Run machine code: what the CPU itself does with an instruction that it lacks."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


faults = Faults(os.environ.get("DS4_LSP_FAULT"), os.environ.get("DS4_LSP_FAULT_ONCE"))
