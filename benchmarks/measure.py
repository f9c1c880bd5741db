"""Timing two ways of doing a thing against each other, interleaved, so that a busy machine slows both."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the report. ``value`` as it is to be read; ``target`` what is to be reached, empty where none is.

    ``met`` None: nothing to reach, or not known; see ``report.verdict``. ``figures``: what the value was made from.
    """

    what: str
    value: str
    target: str = ""
    against: str = ""
    met: bool | None = None
    missing: bool = False
    """What this is to be compared with is not installed: nothing was measured."""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """Of repeated measurements: the median and the quartiles around it."""

    median: float
    low: float
    high: float

    def text(self, digits: int = 3) -> str:
        return f"{self.median:.{digits}g} ({self.low:.{digits}g}–{self.high:.{digits}g})"


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles; of one or two values, their range."""
    if len(values) < 3:
        return Spread(statistics.median(values), min(values), max(values))
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(statistics.median(values), low, high)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that ``percent`` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


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
