"""."""

from __future__ import annotations

from evals.job import Builder

JOBS: tuple[Builder, ...] = ()
