"""Loading in the engine process: what fails there leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.engine.child import command, environment
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import ModelLoadFailed, NoModel
from ds4_lsp.protocol.settings import ModelSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_truncated_model_is_refused_with_llama_cpp_s_reason_and_the_next_load_works(
    fresh: Any, tiny_model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "truncated.gguf"
    data = await asyncio.to_thread(tiny_model.read_bytes)
    path.write_bytes(data[: len(data) // 2])
    driver = await fresh()
    with pytest.raises(ModelLoadFailed, match="corrupted or incomplete"):
        await driver.load(path)
    assert driver.client.info is None
    with pytest.raises(ModelLoadFailed, match="no model file"):
        await driver.load(tmp_path / "missing.gguf")
    assert driver.client.status.pid is None
    info = await driver.load(tiny_model, gpu_layers=7)
    assert info.gpu or "CMAKE_ARGS" in driver.client.notes[0]
    assert driver.progress[-1] == (1000, 1000)
    assert driver.progress == sorted(driver.progress)


async def test_what_the_file_says_of_sampling_is_known_and_what_cannot_be_used_is_told(
    fresh: Any, tiny: Any, small_model: Path, tmp_path: Path
) -> None:
    sampling = {"temp": 0.35, "top_p": 1.5, "penalty_repeat": 1.1}
    driver = await fresh()
    info = await driver.load(tiny.llama(tmp_path / "advised.gguf", small_model, sampling=sampling))
    assert [(one.name, one.value, one.source) for one in info.recommended] == [
        ("temperature", 0.35, "the model file"),
        ("repeatPenalty", 1.1, "the model file"),
    ]
    [note] = [note for note in driver.client.notes if "sampling" in note]
    assert "general.sampling.top_p is not valid" in note


async def test_no_path_is_no_model(fresh: Any) -> None:
    driver = await fresh()
    with pytest.raises(NoModel):
        await driver.client.load(
            ModelSettings(), context_is_default=True, on_progress=lambda _d, _t: None, cancel=Cancel()
        )


async def test_a_quantised_kv_works(fresh: Any, tiny_model: Path) -> None:
    # Values of 16 per head are too short for a block of 32: llama.cpp's reason comes through.
    driver = await fresh()
    with pytest.raises(ModelLoadFailed, match="context"):
        await driver.load(tiny_model, kv_cache_type="q8_0")


async def test_the_probe_describes_llama_cpp_and_nothing_else_reaches_stdout() -> None:
    done = await asyncio.to_thread(
        subprocess.run, command("--probe"), env=environment(), capture_output=True, check=True, cwd="/"
    )
    report = json.loads(done.stdout)
    assert report["version"]
    assert any(device["kind"] == "cpu" for device in report["devices"])
    assert report["gpuOffload"] in (True, False)
