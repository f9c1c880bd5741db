"""One job, as its session keeps it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ds4_lsp.protocol.commands import JobInfo
from ds4_lsp.tools.supervisor_link import Link

State = Literal["running", "exited", "killed", "timeout", "lost", "elsewhere"]


@dataclass(eq=False)
class Job:
    """One command. ``leftovers``: its background processes when it ended; ``dropped``: bytes of output not kept;
    ``trouble``: why output was lost, if any was."""

    number: int
    command: str
    path: Path
    call_id: str = ""
    pid: int | None = None
    state: State = "running"
    recorded: bool = False
    """Whether the log has its start."""
    exit_status: int | None = None
    started: float = field(default_factory=time.monotonic)
    elapsed: float | None = None
    leftovers: int = 0
    total: int = 0
    dropped: int = 0
    trouble: str = ""
    seen: int = 0
    """Bytes of output that looks have covered."""
    link: Link | None = None
    """While any process of the job is left."""
    timer: asyncio.TimerHandle | None = None
    expires: float = 0.0
    """When the timer kills what is left of the job, by ``time.monotonic``."""
    marker: str = field(default_factory=lambda: secrets.token_hex(8))
    verdict: State | None = None
    """What the job's state becomes when the command ends, where that was decided here."""
    watchers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def info(self) -> JobInfo:
        elapsed = time.monotonic() - self.started if self.elapsed is None else self.elapsed
        return JobInfo(
            job=self.number,
            pid=self.pid,
            command=self.command,
            state=self.state,
            exit_status=self.exit_status,
            elapsed=round(elapsed, 3),
        )
