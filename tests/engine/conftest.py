"""Engines for the tests of this folder: a shared one on a tiny model, one on the small real model, and fresh ones."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import Cancel, Generated, GenerateRequest, Segment, Synced
from ds4_lsp.protocol.settings import ModelSettings

CONTEXT = 1024


class Driver:
    """An ``EngineClient`` with the arguments that most tests do not care about filled in."""

    def __init__(self, client: EngineClient) -> None:
        self.client = client
        self.texts: list[str] = []
        self.ids: list[int] = []
        self.progress: list[tuple[int, int]] = []
        self._waiting: list[tuple[int, asyncio.Event]] = []

    async def load(
        self,
        path: Path,
        *,
        default: bool = False,
        cancel: Cancel | None = None,
        by_itself: bool = False,
        **settings: Any,
    ) -> Any:
        self.progress = []
        settings = {"context_size": CONTEXT, "threads": 1, "batch_size": 64} | settings
        return await self.client.load(
            ModelSettings(path=str(path), **settings),
            context_is_default=default,
            on_progress=self._progressed,
            cancel=cancel or Cancel(),
            by_itself=by_itself,
        )

    async def tokens(self, text: str, *, special: bool = False) -> list[int]:
        return await self.client.tokenize([Segment(text, special)])

    async def sync(self, tokens: Any, cancel: Cancel | None = None) -> Synced:
        self.progress = []
        return await self.client.sync(tokens, on_progress=self._progressed, cancel=cancel or Cancel())

    async def generate(
        self,
        tokens: Any,
        max_tokens: int = 16,
        cancel: Cancel | None = None,
        on_tokens: Callable[[Any, str], None] | None = None,
        **fields: Any,
    ) -> Generated:
        self.texts, self.ids, self.progress = [], [], []

        def heard(ids: Any, text: str) -> None:
            self.ids.extend(ids)
            self.texts.append(text)
            if on_tokens is not None:
                on_tokens(ids, text)

        return await self.client.generate(
            GenerateRequest(tokens, max_tokens, **fields),
            on_progress=self._progressed,
            on_tokens=heard,
            cancel=cancel or Cancel(),
        )

    def _progressed(self, done: int, total: int) -> None:
        self.progress.append((done, total))
        for least, event in self._waiting:
            if done >= least:
                event.set()

    async def progressed(self, least: int = 0) -> None:
        """Wait until a progress report of at least that many tokens comes."""
        event = asyncio.Event()
        self._waiting.append((least, event))
        await event.wait()
        self._waiting.remove((least, event))

    async def truth(self) -> list[int]:
        """What the engine's KV holds, read from the engine itself."""
        _, tokens = await self.client._exchange.ask("kv")
        return tokens.tolist()

    async def agrees(self) -> None:
        assert list(self.client.kv) == await self.truth()


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """The builders of tiny models."""
    spec = importlib.util.spec_from_file_location("ds4_test_tiny", Path(__file__).with_name("tiny.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny_model(tiny: ModuleType, small_model: Path, once: Callable[..., Path]) -> Path:
    """Random weights, the small model's vocabulary."""
    return once("llama.gguf", lambda path: tiny.llama(path, small_model))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(tiny_model: Path) -> AsyncIterator[Driver]:
    driver = Driver(EngineClient())
    await driver.load(tiny_model)
    yield driver
    await driver.client.close()


@pytest_asyncio.fixture(loop_scope="session")
async def engine(shared: Driver) -> Driver:
    """The shared engine on the tiny model, with an empty KV."""
    await shared.sync([])
    return shared


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_real(small_model: Path) -> AsyncIterator[Driver]:
    driver = Driver(EngineClient())
    await driver.load(small_model)
    yield driver
    await driver.client.close()


@pytest_asyncio.fixture(loop_scope="session")
async def real(shared_real: Driver) -> Driver:
    """The shared engine on the small real model, with an empty KV."""
    await shared_real.sync([])
    return shared_real


@pytest_asyncio.fixture(loop_scope="session")
async def fresh() -> AsyncIterator[Callable[..., Awaitable[Driver]]]:
    """Makes engines of a test's own; they are closed after it."""
    made: list[Driver] = []

    async def make(**options: Any) -> Driver:
        driver = Driver(EngineClient(**options))
        made.append(driver)
        return driver

    yield make
    for driver in made:
        await driver.client.close()


@pytest.fixture(scope="session")
def new_driver() -> Callable[..., Driver]:
    """For those who close what they make."""
    return lambda **options: Driver(EngineClient(**options))


@pytest.fixture(scope="session")
def long_text() -> str:
    return "".join(f"Line {number} of a text that takes several batches to evaluate.\n" for number in range(60))
