"""A KV snapshot restored against a prefill of the same tokens, on a real model."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Row, spread
from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import Cancel, Segment
from ds4_lsp.protocol.settings import ModelSettings

LEAST = 20


def rows(model: Path, tokens: int, rounds: int) -> list[Row]:
    return asyncio.run(compare(model, tokens, rounds))


async def compare(model: Path, count: int, rounds: int) -> list[Row]:
    engine = EngineClient()
    settings = ModelSettings(path=str(model), context_size=count + 512)
    await engine.load(settings, context_is_default=False, on_progress=_ignore, cancel=Cancel())
    try:
        tokens = (await engine.tokenize([Segment("The quick brown fox jumps over the lazy dog. " * count)]))[:count]
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "kv"
            quotients = [await _faster(engine, tokens, path) for _ in range(rounds)]
            return [_row(count, path, quotients)]
    finally:
        await engine.close()


async def _faster(engine: EngineClient, tokens: list[int], path: Path) -> float:
    """How many times faster a restore is than the prefill before it."""
    await engine.sync(tokens[:1], on_progress=_ignore, cancel=Cancel())
    began = time.perf_counter()
    await engine.sync(tokens, on_progress=_ignore, cancel=Cancel())
    prefill = time.perf_counter() - began
    await engine.save(path)
    await engine.sync(tokens[:1], on_progress=_ignore, cancel=Cancel())
    began = time.perf_counter()
    if not await engine.restore(path, tokens):
        raise RuntimeError("the snapshot was not taken")
    return prefill / (time.perf_counter() - began)


def _row(count: int, path: Path, quotients: list[float]) -> Row:
    faster = spread(quotients)
    return Row(
        f"restore of {count:,} tokens ({path.stat().st_size / 1e6:.0f} MB)",
        f"{faster.text()} × faster",
        f"≥ {LEAST}",
        "a prefill of the same tokens",
        faster.median >= LEAST,
        figures={"quotients": quotients},
    )


def _ignore(_done: int, _total: int) -> None:
    return
