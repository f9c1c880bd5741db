"""How fast the configured model reads and writes here, measured in a real engine; for ``ds4-lsp doctor``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import Cancel, Forced, Generated, GenerateRequest, Segment
from ds4_lsp.protocol.settings import ModelSettings

READ, WRITTEN = 256, 24
"""Tokens."""
PATIENCE = 120.0
"""Seconds. What a large model does in that time is measure enough."""
TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. "


@dataclass(frozen=True)
class Speed:
    """``read`` and ``written``: tokens; ``reading`` and ``writing``: seconds. ``gpu_layers`` of ``layers`` are on
    ``devices``."""

    read: int
    reading: float
    written: int
    writing: float
    layers: int
    gpu_layers: int
    devices: tuple[str, ...]

    def in_words(self) -> str:
        where = ", ".join(self.devices)
        if self.gpu_layers:
            where = f"{self.gpu_layers} of {self.layers} layers on {where}"
        return f"reads {_rate(self.read, self.reading)}, writes {_rate(self.written, self.writing)} tokens/s ({where})"


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:.3g}" if count and seconds else "less than measurable"


async def measure(model: str, context: int | None) -> Speed:
    """Load ``model`` with default settings (``context``: tokens) and let it read and write. Raises ``Ds4Error``."""
    settings = ModelSettings(path=model) if context is None else ModelSettings(path=model, context_size=context)
    engine = EngineClient()
    try:
        info = await engine.load(settings, context_is_default=context is None, on_progress=_ignore, cancel=Cancel())
        planned = engine.planned
        text = await engine.tokenize([Segment(TEXT * (READ // 8), False)])
        tokens = text[: min(READ, info.context_size // 2)]
        # The first batch also pays for what is made on demand.
        await _generate(engine, tokens[:8], 1)
        done = await _generate(engine, tokens[::-1], WRITTEN)
    finally:
        await engine.close()
    return Speed(
        read=done.prefill.evaluated,
        reading=done.prefill.seconds,
        written=len(done.tokens),
        writing=done.seconds,
        layers=planned.layers if planned is not None else 0,
        gpu_layers=planned.gpu_layers if planned is not None else 0,
        devices=info.devices,
    )


async def _generate(engine: EngineClient, tokens: list[int], count: int) -> Generated:
    cancel = Cancel()
    timer = asyncio.get_running_loop().call_later(PATIENCE, cancel.set)
    try:
        # Forced: a model that has nothing to say would stop at once.
        request = GenerateRequest(tokens, count, forced=Forced(TEXT * (count // 8 + 1)))
        return await engine.generate(request, on_progress=_ignore, on_tokens=lambda _ids, _text: None, cancel=cancel)
    finally:
        timer.cancel()


def _ignore(_done: int, _total: int) -> None:
    pass
