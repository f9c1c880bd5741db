"""Where a run was made: what a figure must be read with."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.bare import Setup
from ds4_lsp.engine.child import command, environment


def probe() -> dict[str, Any]:
    """llama.cpp's build and devices, as the engine sees them."""
    found = subprocess.run(
        command("--probe"), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    )
    described: dict[str, Any] = json.loads(found.stdout)
    return described


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe(found: dict[str, Any], setup: Setup, size: str) -> dict[str, Any]:
    devices = [device["description"] for device in found["devices"] if device["kind"] in ("gpu", "igpu")]
    return {
        "cpu": _cpu(),
        "cores": cores(),
        "gpu": setup.gpu,
        "devices": devices,
        "threads": setup.threads,
        "model": setup.model.name,
        "binding": found["binding"],
        "llama": found["version"],
        "python": platform.python_version(),
        "system": sys.platform,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "size": size,
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
