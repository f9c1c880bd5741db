"""Memories that cannot be cut: never a wrong state, at the price of evaluating again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio

pytestmark = pytest.mark.asyncio(loop_scope="session")

KINDS = [("gemma", False), ("gemma", True), ("mamba", True)]
TOKENS = [(7919 * i) % 40000 + 100 for i in range(700)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def drivers(
    tiny: ModuleType, small_model: Path, new_driver: Any, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, bool], Any]]:
    folder = tmp_path_factory.mktemp("kinds")
    made = {}
    for kind, full in KINDS:
        path = folder / f"{kind}.gguf"
        if not path.exists():
            getattr(tiny, kind)(path, small_model)
        driver = made[kind, full] = new_driver(swa_full=full)
        await driver.load(path)
    yield made
    for driver in made.values():
        await driver.client.close()


@pytest_asyncio.fixture(loop_scope="session", params=KINDS, ids=str)
async def driver(request: pytest.FixtureRequest, drivers: dict[tuple[str, bool], Any]) -> Any:
    """An engine of each kind, with an empty KV."""
    chosen = drivers[request.param]
    await chosen.sync([])
    return chosen


async def test_only_a_full_window_can_be_cut_anywhere(drivers: dict[tuple[str, bool], Any]) -> None:
    assert {kind: driver.client.info.truncatable for kind, driver in drivers.items()} == {
        ("gemma", False): False,
        ("gemma", True): True,
        ("mamba", True): False,
    }


async def test_rolling_back_gives_the_reply_of_a_fresh_engine(driver: Any) -> None:
    """Deep and shallow, into what the memory has forgotten and into what it still has."""
    for length, suffix in ((600, []), (300, [1234, 77, 4000]), (590, [99]), (64, []), (1, [5])):
        tokens = TOKENS[:length] + suffix
        await driver.sync(TOKENS)
        rolled = await driver.generate(tokens, 6)
        await driver.agrees()
        await driver.sync([])
        straight = await driver.generate(tokens, 6)
        assert straight.prefill.cached == 0
        assert rolled.tokens == straight.tokens


async def test_what_grows_at_its_end_is_never_evaluated_again(driver: Any) -> None:
    await driver.sync(TOKENS[:200])
    reply = await driver.generate(TOKENS[:210], 5)
    assert (reply.prefill.cached, reply.prefill.evaluated) == (200, 10)
    following = await driver.generate([*TOKENS[:210], *reply.tokens, 9, 8], 2)
    assert (following.prefill.cached, following.prefill.evaluated) == (214, 3)


async def test_sampling_again_from_the_same_transcript_drops_one_token_only(driver: Any) -> None:
    await driver.sync(TOKENS[:300])
    first = await driver.generate(TOKENS[:300], 5)
    again = await driver.generate(TOKENS[:300], 5)
    assert (first.prefill.evaluated, again.prefill.evaluated) == (1, 1)
    assert first.tokens == again.tokens


async def test_a_restored_snapshot_goes_on_as_if_nothing_had_happened(driver: Any, tmp_path: Path) -> None:
    await driver.sync(TOKENS[:400])
    saved = await driver.client.save(tmp_path / "kv")
    straight = await driver.generate([*saved, 42, 43], 6)
    await driver.sync([])
    assert await driver.client.restore(tmp_path / "kv", saved)
    resumed = await driver.generate([*saved, 42, 43], 6)
    assert (resumed.prefill.cached, resumed.prefill.evaluated) == (400, 2)
    assert resumed.tokens == straight.tokens
    # Deeper than what a snapshot of a sliding window holds.
    await driver.client.restore(tmp_path / "kv", saved)
    rolled = await driver.generate(TOKENS[:100], 6)
    await driver.sync([])
    assert rolled.tokens == (await driver.generate(TOKENS[:100], 6)).tokens
