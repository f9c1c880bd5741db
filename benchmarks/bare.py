"""The bare loop as the benchmarks drive it, and the settings that both sides are given."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BATCH = 512
SAMPLING = {"temperature": 1.0, "minP": 0.05}
OFF = {"topP": 1.0, "topK": 0, "repeatPenalty": 1.0}
"""What the makers of a model may recommend besides, and the others do not do."""
"""The server's defaults, said aloud: the bare loop's chain is min-p, temperature, draw."""
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Setup:
    """What every side of a comparison has in common."""

    model: Path
    context: int
    threads: int
    gpu: bool = False
    prompts: Path | None = None
    """Where servers leave their snapshots of the system prompt for the next: each one's prefill would be the same."""

    def settings(self, max_tokens: int) -> dict[str, Any]:
        """The server's ``ds4`` section."""
        model = {"contextSize": self.context, "threads": self.threads, "batchSize": BATCH}
        return {"model": model, "sampling": {**SAMPLING, **OFF, "maxTokens": max_tokens}}


def environment() -> dict[str, str]:
    """As the engine's: spinning threads would slow the other side down too."""
    return os.environ | {"GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "1000"), "PYTHONPATH": str(ROOT)}


class Bare:
    """A running bare loop; see ``bare_loop``. ``grown``: bytes that model, KV and work space take."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.before = 0

    async def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the bare loop ended; its error is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def load(self, setup: Setup) -> None:
        answer = await self._ask(
            op="load",
            model=str(setup.model),
            context=setup.context,
            batch=BATCH,
            threads=setup.threads,
            gpu=setup.gpu,
        )
        self.before = answer["before"]

    async def grown(self) -> int:
        """Bytes resident beyond those before the model was loaded."""
        return int((await self._ask(op="memory"))["rss"]) - self.before

    async def tokenize(self, text: str) -> list[int]:
        """Tokens of a plain text."""
        return list((await self._ask(op="tokenize", text=text))["tokens"])

    async def prefill(self, start: int, count: int) -> float:
        """Seconds to evaluate ``count`` tokens behind ``start``."""
        return float((await self._ask(op="prefill", start=start, count=count))["seconds"])

    async def decode(self, start: int, count: int) -> float:
        """Seconds to sample ``count`` tokens behind ``start``."""
        return float((await self._ask(op="decode", start=start, count=count, sampling=SAMPLING))["seconds"])


@asynccontextmanager
async def bare(setup: Setup) -> AsyncIterator[Bare]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.bare_loop",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    loop = Bare(process)
    try:
        await loop.load(setup)
        yield loop
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
