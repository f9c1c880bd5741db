"""A model that another process computes, over llama.cpp's RPC."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")
PATIENCE = 60.0


@pytest.fixture
def rpc_server() -> Iterator[str]:
    """The address of a running one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("rpc_server.py")
    process = subprocess.Popen([sys.executable, script, f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        time.sleep(0.02)  # between two looks at a port that nothing announces
    assert process.poll() is None, "the RPC server ended"
    yield f"127.0.0.1:{port}"
    process.kill()
    process.wait()


async def test_a_model_shared_with_an_rpc_server_says_the_same(fresh: Any, tiny_model: Path, rpc_server: str) -> None:
    engine = await fresh()
    info = await engine.load(tiny_model)
    prompt = await engine.tokens("Once upon a time")
    alone = await engine.generate(prompt, 16)
    assert not any("RPC" in device for device in info.devices)
    await engine.client.unload()
    info = await engine.load(tiny_model, rpc_servers=[rpc_server])
    assert any("RPC" in device for device in info.devices)
    shared = await engine.generate(prompt, 16)
    assert shared.tokens == alone.tokens
    await engine.agrees()
