"""Run as a program: ``killed_at_each_step.py DIRECTORY STEPS``. For each step number, a child process compacts the
session in ``DIRECTORY/NUMBER`` and is killed just before that step."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from conftest import LogHost

from ds4_lsp.compaction import compact
from ds4_lsp.ports import Cancel


def victim(directory: Path, step: int) -> None:
    host = LogHost.create(directory)
    for number in range(4):
        host.exchange(f"request {number}", 40 if number == 3 else 300)
    host.sync()
    seen = -1

    def kill(_step: str) -> None:
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)

    host.before_step = kill
    asyncio.run(compact(host, "soft", cancel=Cancel()))


for number in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        victim(Path(sys.argv[1]) / str(number), number)
        os._exit(0)
    _pid, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        sys.exit(f"step {number} was never reached")
