"""The engine dies with its parent, however that ends and whatever it does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

PARENT = """
import asyncio, subprocess, sys
from pathlib import Path
from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.settings import ModelSettings

async def main():
    subprocess.Popen(["sleep", "30"], close_fds=False, stdout=subprocess.DEVNULL)
    engine = EngineClient()
    where = sys.argv[2]
    def progress(done, total):
        if where == "load" and done < total:
            print(engine.status.pid, flush=True)
    settings = ModelSettings(path=sys.argv[1], context_size=8192, threads=1)
    await engine.load(settings, context_is_default=False, on_progress=progress, cancel=Cancel())
    print(engine.status.pid, flush=True)
    def read(done, total):
        print("prefill", flush=True)
    await engine.sync([100 + number % 900 for number in range(8000)], on_progress=read, cancel=Cancel())

asyncio.run(main())
"""


PATIENCE = 20.0
"""Seconds: less than the prefill takes, and far more than a death."""


def alive(process: psutil.Process) -> bool:
    """A zombie is dead: when init collects it is not our affair."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("where", ["load", "prefill"])
def test_the_engine_dies_with_its_parent_however_that_dies(small_model: Path, where: str) -> None:
    """And a command that the parent started does not keep the engine's socket open."""
    root = str(Path(__file__).resolve().parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(small_model), where],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root},
    ) as parent:
        assert parent.stdout is not None
        engine = psutil.Process(int(parent.stdout.readline()))
        if where == "prefill":
            assert parent.stdout.readline() == b"prefill\n"
        parent.kill()
        begun = time.monotonic()
        while alive(engine):
            assert time.monotonic() - begun < PATIENCE
            time.sleep(0.01)
