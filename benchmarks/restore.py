"""A KV snapshot restored against a prefill of the same tokens, on a real model."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Row
from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import Cancel, Segment
from ds4_lsp.protocol.settings import ModelSettings


def rows(model: Path, tokens: int, rounds: int) -> list[Row]:
    return asyncio.run(_rows(model, tokens, rounds))


async def _rows(model: Path, count: int, rounds: int) -> list[Row]:
    engine = EngineClient()
    settings = ModelSettings(path=str(model), context_size=count + 512)
    await engine.load(settings, context_is_default=False, on_progress=_ignore, cancel=Cancel())
    try:
        tokens = (await engine.tokenize([Segment("The quick brown fox jumps over the lazy dog. " * count)]))[:count]
        with tempfile.TemporaryDirectory() as name:
            return [await _compare(engine, tokens, Path(name) / "kv", rounds)]
    finally:
        await engine.close()


async def _compare(engine: EngineClient, tokens: list[int], path: Path, rounds: int) -> Row:
    quotients = []
    for _ in range(rounds):
        await engine.sync(tokens[:1], on_progress=_ignore, cancel=Cancel())
        began = time.perf_counter()
        await engine.sync(tokens, on_progress=_ignore, cancel=Cancel())
        prefill = time.perf_counter() - began
        _remove(path)
        await engine.save(path)
        await engine.sync(tokens[:1], on_progress=_ignore, cancel=Cancel())
        began = time.perf_counter()
        assert await engine.restore(path, tokens)
        quotients.append(prefill / (time.perf_counter() - began))
    return Row(
        f"restore of {len(tokens):,} tokens ({_megabytes(path):.0f} MB)",
        f"{statistics.median(quotients):.0f} × faster than prefill ({min(quotients):.0f}–{max(quotients):.0f})",
        "≥ 20",
    )


def _ignore(_done: int, _total: int) -> None:
    return


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6
