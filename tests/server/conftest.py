from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client

SCRIPTED = Path(__file__).with_name("scripted_server.py")

Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
def server_command() -> tuple[str, ...]:
    """Starts a server whose agent is scripted."""
    return (sys.executable, str(SCRIPTED))


@pytest.fixture
async def start(server_command: tuple[str, ...]) -> AsyncIterator[Connect]:
    """Start a server; it is not initialised. Options go to its command line."""
    clients: list[Client] = []

    async def start(*options: str, env: dict[str, str] | None = None) -> Client:
        client = Client(*server_command, *options, env=env)
        clients.append(client)
        await client.start()
        return client

    yield start
    for client in clients:
        await client.close()


@pytest.fixture
def connect(start: Connect) -> Connect:
    """Start a server and shake hands: ``connect(capabilities, **initialize_params)``."""

    async def connect(capabilities: dict[str, Any] | None = None, **params: Any) -> Client:
        client = await start()
        await client.initialize(capabilities, **params)
        return client

    return connect
