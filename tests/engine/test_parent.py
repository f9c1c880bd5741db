"""The engine dies within two seconds of its parent, however that ends."""

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
    subprocess.Popen(["sleep", "6"], close_fds=False, stdout=subprocess.DEVNULL)
    engine = EngineClient()
    where = sys.argv[2]
    def progress(done, total):
        if where == "load" and done < total:
            print(engine.status.pid, flush=True)
    settings = ModelSettings(path=sys.argv[1], context_size=1024, threads=2)
    await engine.load(settings, context_is_default=False, on_progress=progress, cancel=Cancel())
    print(engine.status.pid, flush=True)
    await engine.sync(list(range(100, 1000)), on_progress=lambda d, t: print("prefill", flush=True), cancel=Cancel())

asyncio.run(main())
"""


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
            assert time.monotonic() - begun < 2
            time.sleep(0.01)
