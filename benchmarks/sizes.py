"""How much of everything a run measures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Counts of repetitions, tokens, lines and events; seconds where it says so."""

    rounds: int
    """Of decoding, prefill and follow-ups, each side once a round."""
    decode: int
    """Tokens of a reply, at most."""
    prefill: int
    """Tokens of a long prompt."""
    history: int
    """Tokens before a follow-up."""
    calls: int
    """Rounds of the tool loop."""
    turns: int
    """Of the session after which memory is measured."""
    probes: int
    """Unrelated requests while idle, while prefilling and while decoding, at least."""
    cancels: int
    starts: int
    """Of the process, for the time to ``initialize``."""
    restores: int
    restored: int
    """Tokens of the snapshot that is restored."""
    events: tuple[int, ...]
    lines: tuple[int, ...]
    edits: int
    """Repetitions of each edit."""
    context: int = 8192


FULL = Sizes(
    rounds=7,
    decode=192,
    prefill=1024,
    history=4096,
    calls=20,
    turns=100,
    probes=400,
    cancels=8,
    starts=11,
    restores=3,
    restored=4096,
    events=(1_000, 10_000, 100_000),
    lines=(1_000, 10_000, 100_000),
    edits=9,
)
QUICK = Sizes(
    rounds=2,
    decode=48,
    prefill=256,
    history=2048,
    calls=20,
    turns=100,
    probes=40,
    cancels=2,
    starts=3,
    restores=1,
    restored=1024,
    events=(1_000, 5_000),
    lines=(1_000, 10_000),
    edits=3,
)
TINY = Sizes(
    rounds=2,
    decode=24,
    prefill=300,
    history=400,
    calls=3,
    turns=3,
    probes=12,
    cancels=1,
    starts=2,
    restores=1,
    restored=256,
    events=(100, 200),
    lines=(100,),
    edits=3,
)
"""For the tests of the benchmark itself."""
