"""Snapshots: proved by what the next prompt evaluates; anything else than the right file is a miss."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.ports import Forced
from ds4_lsp.protocol.errors import Ds4Error, StorageFailed

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_after_a_restore_the_next_prompt_evaluates_only_its_suffix_and_says_the_same(
    real: Any, fresh: Any, small_model: Path, tmp_path: Path
) -> None:
    prompt = await real.tokens("A short list of colours: red, green,")
    await real.sync(prompt)
    path = tmp_path / "new" / "kv.bin"
    saved = await real.client.save(path)
    assert list(saved) == prompt
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["kv.bin"]
    suffix = await real.tokens(" blue,")
    straight = await real.generate([*prompt, *suffix], 8)
    other = await fresh()
    await other.load(small_model)
    assert await other.client.restore(path, saved)
    await other.agrees()
    resumed = await other.generate([*prompt, *suffix], 8)
    assert (resumed.prefill.cached, resumed.prefill.evaluated) == (len(prompt), len(suffix))
    assert resumed.tokens == straight.tokens


async def test_the_transcript_itself_can_be_sampled_from_after_a_restore(engine: Any, tmp_path: Path) -> None:
    prompt = list(range(300, 420))
    straight = await engine.generate(prompt, 6)
    await engine.sync(prompt)
    await engine.client.save(tmp_path / "kv")
    await engine.sync([])
    assert await engine.client.restore(tmp_path / "kv", prompt)
    resumed = await engine.generate(prompt, 6)
    assert resumed.prefill.evaluated == 1
    assert resumed.tokens == straight.tokens


def _flip(position: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:20],
        lambda _data: b"",
        lambda _data: b"GGUF" * 100,
        _flip(0),
        _flip(9),
        _flip(40),
        _flip(-100),
        _flip(-1),
    ],
)
async def test_a_damaged_snapshot_is_a_logged_miss_and_the_kv_is_empty(
    engine: Any, tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    tokens = list(range(100, 150))
    await engine.sync(tokens)
    path = tmp_path / "kv"
    await engine.client.save(path)
    await asyncio.to_thread(lambda: path.write_bytes(damage(path.read_bytes())))
    with caplog.at_level(logging.WARNING, "ds4_lsp.engine"):
        assert not await engine.client.restore(path, tokens)
        await engine.agrees()
    assert list(engine.client.kv) == []
    assert "is not used" in caplog.text
    assert (await engine.sync(tokens)).evaluated == len(tokens)


async def test_another_transcript_or_no_file_is_a_miss(engine: Any, tmp_path: Path) -> None:
    tokens = list(range(100, 150))
    await engine.sync(tokens)
    await engine.client.save(tmp_path / "kv")
    assert not await engine.client.restore(tmp_path / "kv", tokens[:-1])
    assert not await engine.client.restore(tmp_path / "none", tokens)
    assert await engine.client.restore(tmp_path / "kv", tokens)


async def test_a_snapshot_of_another_context_size_is_a_miss(
    engine: Any, fresh: Any, tiny_model: Path, tmp_path: Path
) -> None:
    tokens = list(range(100, 150))
    await engine.sync(tokens)
    await engine.client.save(tmp_path / "kv")
    other = await fresh()
    await other.load(tiny_model, context_size=512)
    assert not await other.client.restore(tmp_path / "kv", tokens)
    assert (await other.generate(tokens, 2)).prefill.evaluated == len(tokens)


async def test_an_empty_kv_can_be_saved_and_is_never_restored_as_something(engine: Any, tmp_path: Path) -> None:
    assert list(await engine.client.save(tmp_path / "kv")) == []
    assert not await engine.client.restore(tmp_path / "kv", [1])


async def test_a_save_that_cannot_be_written_is_an_error_and_the_engine_goes_on(engine: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    await engine.sync([1, 2, 3])
    with pytest.raises(StorageFailed):
        await engine.client.save(tmp_path / "file" / "kv")
    assert (await engine.sync([1, 2, 3])).cached == 3


async def test_the_engine_is_free_while_a_save_is_written(engine: Any, tmp_path: Path) -> None:
    await engine.sync(list(range(100, 900)))
    saving = asyncio.ensure_future(engine.client.save(tmp_path / "kv"))
    await asyncio.sleep(0)
    # Served after the copy, whether or not the file is there yet.
    await engine.truth()
    reply = await engine.generate(list(range(100, 900)), 3, forced=Forced("yes"))
    assert reply.text == "yes"
    assert list(await saving) == list(range(100, 900))
    await engine.agrees()


async def test_saves_at_the_same_time_as_other_work_are_refused(engine: Any, tmp_path: Path) -> None:
    running = asyncio.ensure_future(engine.generate([1, 2], 50, forced=Forced("a b c", delay=0.05)))
    await engine.progressed()
    with pytest.raises(Ds4Error):
        await engine.client.save(tmp_path / "kv")
    await running
