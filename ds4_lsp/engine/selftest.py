"""Whether a build of llama.cpp works on this CPU: it evaluates batches on a tiny model, in a process that may die.

Standard library only: ``scripts/install.py`` asks before anything is installed, ``ds4-lsp doctor`` afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("selftest_child.py")
TIMEOUT = 300.0
"""Seconds. It takes one or two; a GPU's driver may compile its kernels first."""
_SIGNALS = {"SIGILL": "of an illegal instruction (SIGILL)", "SIGSEGV": "of a bad memory access (SIGSEGV)"}


@dataclass(frozen=True)
class Outcome:
    """``problem``: what does not work, to follow "llama.cpp"; None when all does. ``errors``: how far each type's
    logits were from the exact ones, as a share of their length. ``died``: the signal's name, where one ended it."""

    problem: str | None
    seconds: float
    errors: Mapping[str, float] = field(default_factory=dict)
    died: str | None = None


def run(python: Path | str, environment: Mapping[str, str] | None = None, timeout: float = TIMEOUT) -> Outcome:
    """Test the llama_cpp that ``python`` imports. ``environment`` is added to this process's own."""
    begun = time.monotonic()
    # As in the engine: spinning threads starve each other on a busy machine.
    added = {"GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "1000"), "GGML_NO_BACKTRACE": "1"}
    try:
        done = subprocess.run(
            [str(python), "-P", str(CHILD)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **added, **(environment or {})},
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        step = _step(said.decode("utf-8", "replace") if isinstance(said, bytes) else said)
        return Outcome(f"did not come to an end in {timeout:.0f} s, {step}", time.monotonic() - begun)
    except OSError as error:
        return Outcome(f"cannot be started: {error}", time.monotonic() - begun)
    return _judge(done, time.monotonic() - begun)


def _judge(done: subprocess.CompletedProcess[str], seconds: float) -> Outcome:
    last = (_lines(done.stdout) or [{}])[-1]
    if done.returncode == 0 and isinstance(last.get("done"), dict):
        return Outcome(None, seconds, last["done"])
    if "error" in last:
        return Outcome(f"computes wrongly: {last['error']}", seconds)
    if done.returncode < 0:
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = f"signal {-done.returncode}"
        return Outcome(f"dies {_SIGNALS.get(name, f'({name})')}, {_step(done.stdout)}", seconds, died=name)
    words = done.stderr.strip().splitlines()
    reason = words[-1] if words else f"it ends with status {done.returncode} and says nothing"
    return Outcome(f"does not start: {reason}", seconds)


def _lines(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def _step(text: str) -> str:
    """How far it came."""
    steps = [line["step"] for line in _lines(text) if "step" in line]
    return f"at this step: {steps[-1]}" if steps else "while it was imported"
