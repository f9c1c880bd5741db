"""A path that cannot be used is refused, and the engine is free for the next request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.engine.plan import plan
from ds4_lsp.ports import Cancel, GenerateRequest
from ds4_lsp.protocol.errors import Ds4Error, ModelLoadFailed
from ds4_lsp.protocol.settings import ModelSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")

UNUSABLE = ["~nosuchuser/x.gguf", "~a\0b/x.gguf", "/a\0b.gguf"]


@pytest.mark.parametrize("path", UNUSABLE, ids=ascii)
async def test_a_model_path_that_cannot_be_used_is_refused_with_the_remedy(
    fresh: Callable[..., Awaitable[Any]], path: str
) -> None:
    driver = await fresh()
    for _ in range(2):
        with pytest.raises(ModelLoadFailed, match=r"model\.path"):
            await driver.load(Path(path))
    await driver.client.unload()


async def test_a_home_folder_that_is_not_known_is_told_of(
    fresh: Callable[..., Awaitable[Any]], tiny_model: Path
) -> None:
    driver = await fresh()
    with pytest.raises(ModelLoadFailed, match="nosuchuser"):
        await driver.load(Path("~nosuchuser/x.gguf"))
    await driver.load(tiny_model)
    assert await driver.tokens("free") != []


async def test_the_plan_refuses_it_too() -> None:
    settings = ModelSettings(path="~nosuchuser/x.gguf").model_dump(by_alias=True)
    with pytest.raises(ModelLoadFailed, match=r"nosuchuser.*model\.path|model\.path.*nosuchuser"):
        plan(settings, context_is_default=False, full_window=True)


async def test_an_operation_whose_request_cannot_be_made_leaves_the_engine_free(engine: Any) -> None:
    """Whatever it is that raises between taking the engine and sending the request."""
    client, tokens = engine.client, await engine.tokens("one two three")
    broken: Any = object()
    for attempt in (
        lambda: client.save(Path("~nosuchuser/x.kv")),
        lambda: client.restore(Path("~nosuchuser/x.kv"), tokens),
        lambda: client.restore(Path("/x.kv"), broken),
        lambda: client.sync(broken, on_progress=lambda *_: None, cancel=Cancel()),
        lambda: client.generate(
            GenerateRequest(tokens, 1, sampling=broken),
            on_progress=lambda *_: None,
            on_tokens=lambda *_: None,
            cancel=Cancel(),
        ),
    ):
        with pytest.raises((Ds4Error, TypeError, AttributeError)):
            await attempt()
        assert (await engine.sync(tokens)).cancelled is False
    await engine.agrees()
