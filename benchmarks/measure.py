"""Timing two ways of doing a thing against each other, interleaved, so that a busy machine slows both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the report. ``value`` as it is to be read; ``target`` what is to be reached, empty where none is."""

    what: str
    value: str
    target: str = ""


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process: other processes on the machine do not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


def ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median and spread (half the range between the quartiles) of ours over theirs."""
    quotients = [seconds(ours) / max(seconds(theirs), 1e-9) for _ in range(rounds)]
    low, _, high = statistics.quantiles(quotients, n=4)
    return statistics.median(quotients), (high - low) / 2


def shown(measured: tuple[float, float]) -> str:
    return f"{measured[0]:.3g} × (± {measured[1]:.2g})"
