"""Start to the answer of ``initialize``, and what the server weighs, against a bare pygls server."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

from benchmarks.bare import ROOT, Setup, bare
from benchmarks.measure import Row, spread
from benchmarks.served import serving
from benchmarks.sizes import Sizes
from ds4_lsp.cli.lsp_client import CAPABILITIES
from ds4_lsp.cli.rpc import Connection, RpcError

BARE_SERVER = "from pygls.lsp.server import LanguageServer; LanguageServer('bare', '1').start_io()"
LATER = 150.0
"""Milliseconds that our ``initialize`` may come after the bare server's."""
HEAVIER = 80.0
"""Megabytes that server and engine may weigh beyond the bare server, and beyond model, KV and work space."""
OURS = (sys.executable, "-m", "ds4_lsp", "--stdio")
THEIRS = (sys.executable, "-c", BARE_SERVER)


@dataclass(frozen=True)
class Started:
    """Milliseconds from the start of the process to the answer of ``initialize``, and to that of a request after it."""

    initialized: float
    served: float


async def initialize_rows(sizes: Sizes) -> list[Row]:
    environment = {name: value for name, value in os.environ.items() if name != "DS4_MODEL"}
    environment["PYTHONPATH"] = str(ROOT)
    ours, theirs = [], []
    await _start(OURS, environment)
    await _start(THEIRS, environment)
    for _ in range(sizes.starts):
        ours.append(await _start(OURS, environment))
        theirs.append(await _start(THEIRS, environment))
    return [
        _later(
            "start to the answer of `initialize`",
            [one.initialized for one in ours],
            [one.initialized for one in theirs],
            LATER,
        ),
        _later(
            "start to the answer of a request right after it",
            [one.served for one in ours],
            [one.served for one in theirs],
        ),
    ]


def _later(what: str, ours: Sequence[float], theirs: Sequence[float], most: float | None = None) -> Row:
    later = spread([mine - other for mine, other in zip(ours, theirs, strict=True)])
    return Row(
        what,
        f"{later.median:+.0f} ms ({later.low:+.0f} to {later.high:+.0f}): "
        f"{spread(ours).median:.0f} against {spread(theirs).median:.0f} ms",
        "" if most is None else f"≤ +{most:g} ms",
        "a bare pygls server",
        None if most is None else later.median <= most,
        figures={"ours": list(ours), "theirs": list(theirs)},
    )


async def _start(command: Sequence[str], environment: Mapping[str, str]) -> Started:
    began = time.perf_counter()
    async with _handshaken(command, environment) as connection:
        initialized = time.perf_counter()
        connection.notify("initialized", {})
        with suppress(RpcError):
            # Both servers refuse it: what is timed is that they are there.
            await connection.request("workspace/executeCommand", {"command": "nobody.knows"})
        return Started(1000 * (initialized - began), 1000 * (time.perf_counter() - began))


@asynccontextmanager
async def _handshaken(command: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[Connection]:
    async def refuse(_method: str, _params: dict[str, Any]) -> None:
        return None

    connection = await Connection.start(
        command, on_notification=lambda _method, _params: None, on_request=refuse, environment=environment
    )
    try:
        params = {"processId": os.getpid(), "rootUri": None, "capabilities": CAPABILITIES}
        await connection.request("initialize", params)
        yield connection
        await connection.request("shutdown", None)
        connection.notify("exit", None)
    finally:
        await connection.close()


async def memory_rows(setup: Setup, sizes: Sizes) -> list[Row]:
    """Resident memory after a session of many turns. What llama.cpp takes for model, KV and work space is what the
    bare loop's process grew by; the rest of the engine is Python and its libraries."""
    reply = {"purpose": "turn", "text": "All is well; the lamp is lit and the sea is calm."}
    async with serving(setup, setup.settings(64), script=[reply] * sizes.turns) as served:
        for number in range(sizes.turns):
            await served.prompt(f"How is the sea, hour {number}?")
        server = psutil.Process(served.pid)
        [engine] = server.children()
        sizes_of = {"server": server.memory_info().rss, "engine": engine.memory_info().rss}
        used = (await served.status())["context"]["used"]
    async with bare(setup) as loop:
        await loop.prefill(0, used)
        await loop.decode(used, 2)
        share = await loop.grown()
    async with _handshaken(THEIRS, os.environ) as connection:
        bare_server = psutil.Process(connection.process.pid).memory_info().rss
    server_mb, engine_mb = sizes_of["server"] / 1e6, (sizes_of["engine"] - share) / 1e6
    beyond = server_mb + engine_mb - bare_server / 1e6
    return [
        Row(
            f"memory after {sizes.turns} turns, beyond model, KV and work space",
            f"+ {beyond:.0f} MB: server {server_mb:.0f}, engine {engine_mb:.0f} without llama.cpp's "
            f"{share / 1e6:.0f}; bare server {bare_server / 1e6:.0f}",
            f"≤ + {HEAVIER:g} MB",
            "a bare pygls server",
            beyond <= HEAVIER,
            figures={**sizes_of, "llama": share, "bare": bare_server},
        )
    ]


async def rows(setup: Setup, sizes: Sizes) -> list[Row]:
    return [*await initialize_rows(sizes), *await memory_rows(setup, sizes)]
