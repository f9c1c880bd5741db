"""Run as a program in place of ``python -m ds4_lsp``: the same server, killed at a chosen step of writing a file.

``DYING`` names a file. While it exists, what ``disk.write`` asks of the operating system is counted. The file holds a
number: before that step the process gets SIGKILL. Every step is noted in the file ``DYING.passed``, one name a line.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from ds4_lsp.edits import disk
from ds4_lsp.server.run import main

order = Path(os.environ["DYING"])
passed = Path(f"{order}.passed")
steps = ("open", "write", "fchmod", "fsync", "replace", "link", "unlink", "mkdir")
real = {name: getattr(os, name) for name in steps}
write = disk.write
writing = threading.local()


def stepping(name: str) -> Any:
    def step(*arguments: Any, **options: Any) -> Any:
        if getattr(writing, "now", False):
            writing.now = False
            pass_by(name)
            writing.now = True
        return real[name](*arguments, **options)

    return step


def pass_by(name: str) -> None:
    if not order.exists():
        return
    count = len(passed.read_text().splitlines()) if passed.exists() else 0
    with passed.open("a") as file:
        file.write(name + "\n")
    if count == int(order.read_text()):
        os.kill(os.getpid(), signal.SIGKILL)


def write_step_by_step(*arguments: Any) -> None:
    writing.now = True
    try:
        write(*arguments)
    finally:
        writing.now = False


for name in steps:
    setattr(os, name, stepping(name))
disk.write = write_step_by_step
sys.exit(main())
