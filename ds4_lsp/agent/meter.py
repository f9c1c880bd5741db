"""What ``ds4.status`` reports of the engine's work, kept as numbers and computed when asked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ds4_lsp.ports import Generated
from ds4_lsp.protocol.commands import GenerationStatus, PrefillStatus, State

LEAST_MEASURED = 16
"""Tokens below which a speed is mostly overhead."""


@dataclass
class Meter:
    """Owned by the worker. ``state`` changes are told to ``on_state``."""

    state: State = "noModel"
    error: str | None = None
    prefill: PrefillStatus = field(default_factory=lambda: PrefillStatus(done=0, total=0))
    used: int = 0
    """Tokens of the transcript that the engine was given last, the reply being generated included."""
    used_by: str = ""
    """The session whose transcript that is."""
    prefill_speed: float | None = None
    decode_speed: float | None = None
    """Tokens per second, smoothed over the last operations; None while nothing was measured."""
    _tokens: int = 0
    _began: float = 0.0
    _last: float = 0.0

    def uses(self, session_id: str, tokens: int) -> None:
        """The engine works on that session's transcript, of ``tokens`` tokens."""
        self.used_by, self.used = session_id, tokens

    def prefilled(self, done: int, total: int) -> None:
        self.prefill = PrefillStatus(done=done, total=total)

    def generation_begins(self) -> None:
        self._tokens, self._began, self._last = 0, time.monotonic(), time.monotonic()

    def generated(self, count: int) -> None:
        self._tokens += count
        self.used += count
        self._last = time.monotonic()

    @property
    def generation(self) -> GenerationStatus:
        """Speed of the reply being generated, or of the last one."""
        elapsed = self._last - self._began
        speed = self._tokens / elapsed if elapsed > 0 else 0.0
        return GenerationStatus(tokens=self._tokens, tokens_per_second=round(speed, 2))

    def measured(self, generated: Generated) -> None:
        """Learn the engine's speeds from an operation that was long enough to tell."""
        prefill = generated.prefill
        if prefill.evaluated >= LEAST_MEASURED and prefill.seconds > 0:
            self.prefill_speed = _smooth(self.prefill_speed, prefill.evaluated / prefill.seconds)
        if len(generated.tokens) >= LEAST_MEASURED and generated.seconds > 0:
            self.decode_speed = _smooth(self.decode_speed, len(generated.tokens) / generated.seconds)


def _smooth(old: float | None, new: float) -> float:
    return new if old is None else 0.7 * old + 0.3 * new
