"""The engine process dies, or its parent does: what is said, what is left, what works afterwards."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from ds4_lsp.engine import build
from ds4_lsp.ports import Cancel, Forced
from ds4_lsp.protocol.errors import Cancelled, EngineDied, ModelLoadFailed, NoModel

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("fault", ["load:abort", "load:segv", "load:kill"])
async def test_a_death_in_load_is_told_and_the_next_load_works(
    fresh: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("DS4_LSP_FAULT", fault)
    monkeypatch.setenv("DS4_LSP_FAULT_ONCE", str(tmp_path / "fired"))
    driver = await fresh()
    name = {"abort": "SIGABRT", "segv": "SIGSEGV", "kill": "SIGKILL"}[fault.partition(":")[2]]
    with pytest.raises(EngineDied, match=name):
        await driver.load(tiny_model)
    assert driver.client.info is None
    assert driver.client.status.pid is None
    await driver.load(tiny_model)
    assert (await driver.generate([1, 2, 3], 2)).tokens


@pytest.mark.parametrize("fault", ["prefill:kill@2", "decode:abort@3", "save:segv"])
async def test_a_death_at_work_is_told_with_its_last_lines_and_the_next_load_works(
    fresh: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("DS4_LSP_FAULT", fault)
    monkeypatch.setenv("DS4_LSP_FAULT_ONCE", str(tmp_path / "fired"))
    driver = await fresh()
    await driver.load(tiny_model)
    with pytest.raises(EngineDied) as caught:
        await driver.generate(list(range(100, 300)), 10, forced=Forced("a b c d e f g h"))
        await driver.client.save(tmp_path / "snapshot")
    assert "SIG" in caught.value.message
    assert len(caught.value.message.splitlines()) <= 3
    assert "The next prompt starts a new engine." in caught.value.message
    assert list(driver.client.kv) == []
    with pytest.raises(NoModel):
        await driver.sync([1])
    await driver.load(tiny_model)
    assert (await driver.generate([1, 2, 3], 2)).prefill.evaluated == 3


async def test_every_waiting_request_hears_of_a_kill_in_the_middle_of_llama_cpp(fresh: Any, tiny_model: Path) -> None:
    driver = await fresh()
    await driver.load(tiny_model)
    running = asyncio.ensure_future(driver.generate([1, 2, 3], 900, forced=Forced("a " * 800)))
    await driver.progressed()
    os.kill(driver.client.status.pid, signal.SIGKILL)
    with pytest.raises(EngineDied, match="SIGKILL"):
        await running


async def test_close_ends_the_process_at_once_in_the_middle_of_a_prefill(fresh: Any, small_model: Path) -> None:
    driver = await fresh()
    await driver.load(small_model)
    pid = driver.client.status.pid
    running = asyncio.ensure_future(driver.sync(list(range(100, 1000))))
    await driver.progressed()
    await driver.client.close()
    assert not psutil.pid_exists(pid)
    # It did not come to its end.
    with pytest.raises(EngineDied):
        await running
    await driver.client.close()


async def test_close_while_the_process_starts_leaves_none_behind(fresh: Any, tiny_model: Path) -> None:
    driver = await fresh()
    loading = asyncio.ensure_future(driver.load(tiny_model))
    await asyncio.sleep(0)
    await driver.client.close()
    with pytest.raises(EngineDied, match="stopped"):
        await loading
    assert driver.client.status.pid is None


async def test_unload_frees_the_process_and_load_starts_another(fresh: Any, tiny_model: Path) -> None:
    driver = await fresh()
    await driver.load(tiny_model)
    first = driver.client.status.pid
    await driver.client.unload()
    assert (driver.client.info, driver.client.status.pid) == (None, None)
    await driver.load(tiny_model)
    assert driver.client.status.pid != first


async def test_a_cancelled_load_says_so_and_leaves_no_process(fresh: Any, small_model: Path) -> None:
    driver = await fresh()
    cancel = Cancel()
    loading = asyncio.ensure_future(driver.load(small_model, cancel=cancel))
    await driver.progressed()
    cancel.set()
    with pytest.raises(Cancelled):
        await loading
    assert driver.client.status.pid is None
    cancelled = Cancel()
    cancelled.set()
    with pytest.raises(Cancelled):
        await driver.load(small_model, cancel=cancelled)


async def dies(driver: Any, model: Path, **options: Any) -> str:
    with pytest.raises(EngineDied) as caught:
        await driver.load(model, **options)
        await driver.generate(list(range(100, 300)), 4)
    lines = caught.value.message.splitlines()
    assert len(lines) <= 3
    return str(caught.value.message)


def read_private(path: str) -> tuple[str, int]:
    return Path(path).read_text(), Path(path).stat().st_mode & 0o777


async def test_what_the_engine_said_is_in_a_file_that_is_named_and_private(
    fresh: Any, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS4_LSP_FAULT", "prefill:abort")
    message = await dies(await fresh(), tiny_model)
    found = re.search(r"Its log: (\S+)$", message)
    assert found is not None
    text, mode = read_private(found[1])
    assert mode == 0o600
    assert "llama_model_loader" in text
    assert "Fatal Python error: Aborted" in text


async def test_an_illegal_instruction_names_the_command_that_mends_it(
    fresh: Any, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS4_LSP_FAULT", "prefill:ill")
    what, remedy, _ = (await dies(await fresh(), tiny_model)).splitlines()
    assert "(SIGILL): the installed llama.cpp does not fit this CPU" in what
    assert re.search(r": make -C \S+ install LLAMA_CPP_NATIVE=off$", remedy)


async def test_after_two_deaths_of_one_cause_nothing_is_loaded_by_itself_until_something_is_changed(
    fresh: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await fresh()
    model = tmp_path / "model.gguf"
    shutil.copyfile(tiny_model, model)
    monkeypatch.setenv("DS4_LSP_FAULT", "prefill:abort")
    assert "next prompt" in await dies(driver, model, by_itself=True)
    assert "second such death" in await dies(driver, model, by_itself=True)
    # The fault is gone, but nobody can know that.
    monkeypatch.delenv("DS4_LSP_FAULT")
    with pytest.raises(EngineDied, match="second such death"):
        await driver.load(model, by_itself=True)
    assert driver.client.status.pid is None
    await driver.load(model, by_itself=True, batch_size=32)
    os.utime(model, (1, 1))
    await driver.load(model, by_itself=True)
    await driver.load(model)
    assert (await driver.generate([1, 2, 3], 2)).tokens
    await driver.load(model, by_itself=True)


async def test_a_reply_between_two_deaths_and_another_cause_begin_the_count_anew(
    fresh: Any, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = await fresh()
    for fault, answered in (("prefill:abort", True), ("prefill:abort", False), ("prefill:kill", False)):
        monkeypatch.setenv("DS4_LSP_FAULT", fault)
        assert "next prompt" in await dies(driver, tiny_model, by_itself=True)
        if answered:
            monkeypatch.delenv("DS4_LSP_FAULT")
            await driver.load(tiny_model, by_itself=True)
            assert (await driver.generate([1, 2, 3], 2)).tokens


async def test_a_build_for_another_cpu_is_not_started(
    fresh: Any, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.write(tmp_path, build.Record("a build", ("avx9000",), ("avx9000",)))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    driver = await fresh()
    with pytest.raises(ModelLoadFailed, match="another CPU, one with avx9000") as caught:
        await driver.load(tiny_model)
    assert re.search(r"make -C \S+ install$", caught.value.message)
    assert driver.client.status.pid is None
