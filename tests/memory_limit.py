"""A real memory limit around one process: the kernel ends it when it takes more. Needs a cgroup that may be written."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def limit(count: int) -> Iterator[Path]:
    """A cgroup whose processes may take ``count`` bytes together, over what they had when they joined. Yields the file
    that takes the ids of those who join."""
    folder, name = _make(f"ds4-lsp-test-{os.getpid()}-{time.monotonic_ns()}")
    try:
        (folder / name).write_text(str(count))
        yield folder / "cgroup.procs"
    finally:
        # Who was killed leaves the group a moment later.
        deadline = time.monotonic() + 20
        while True:
            try:
                folder.rmdir()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _make(name: str) -> tuple[Path, str]:
    """The new group, and the file of its limit. Version 1, or version 2 where it gives memory to this group's own."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = {controllers: path.lstrip("/") for _, controllers, path in groups}
    first = ROOT / "memory"
    tries = [(parent, "memory.limit_in_bytes") for parent in (first / own.get("memory", ""), first)]
    second = ROOT / own.get("", "")
    tries += [(parent, "memory.max") for parent in (second, second.parent, ROOT) if parent.is_relative_to(ROOT)]
    for parent, file in tries:
        with contextlib.suppress(OSError):
            (parent / name).mkdir()
            if (parent / name / file).exists():
                return parent / name, file
            (parent / name).rmdir()
    raise OSError(
        "this test makes a cgroup with a memory limit: run it as root, or in a cgroup that is delegated to you"
    )
