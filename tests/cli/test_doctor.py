from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ds4_lsp.cli import doctor
from ds4_lsp.cli.speed import Speed
from ds4_lsp.engine import build

CPU = {
    "binding": "0.3.36",
    "version": "1",
    "gpuOffload": False,
    "rpc": False,
    "devices": [{"name": "CPU", "description": "x", "kind": "cpu", "free": 1, "total": 1}],
}
GPU = {"name": "CUDA0", "description": "a GPU", "kind": "gpu", "free": 8 * 10**9, "total": 8 * 10**9}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from ds4_lsp.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "doctor", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def test_a_whole_installation_passes_with_one_line_for_each_check(small_model: Path, tmp_path: Path) -> None:
    done = run("--model", str(small_model), XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line[8:].split(":")[0] for line in done.stdout.splitlines()]
    assert names == [
        "Python",
        "llama.cpp",
        "decoding",
        "GPU",
        "model",
        "sampling",
        "context memory",
        "speed",
        "sessions",
        "ripgrep",
        "editors",
    ]


def test_the_configured_model_is_timed_and_the_build_proved(small_model: Path, tmp_path: Path) -> None:
    done = run("--model", str(small_model), "--context", "1024", XDG_STATE_HOME=str(tmp_path))
    lines = {line[8:].split(": ")[0]: line for line in done.stdout.splitlines()}
    assert re.search(r"reads [\d.e+]+, writes [\d.e+]+ tokens/s \(\w+", lines["speed"])
    assert re.search(r"right in F16, Q8_0, Q4_0, Q4_K, within \d\.\d%", lines["decoding"])


def test_an_engine_that_dies_on_the_model_fails_with_what_mends_it(small_model: Path, tmp_path: Path) -> None:
    done = run("--model", str(small_model), XDG_STATE_HOME=str(tmp_path), DS4_LSP_FAULT="prefill:ill")
    assert done.returncode == 1
    [line] = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    assert "SIGILL" in line
    assert "install LLAMA_CPP_NATIVE=off" in line
    assert len(done.stderr.splitlines()) <= 1


def test_a_build_for_another_cpu_is_told_before_anything_of_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.write(tmp_path, build.Record("a build", ("avx9000",), ()))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    found = doctor.check_llama(doctor.probe_unless_unfit())
    assert found.state == "failed"
    assert "another CPU, one with avx9000" in found.detail
    assert found.detail.endswith(" install")


@pytest.mark.parametrize(
    "layers, words", [(0, "reads 512, writes 20 tokens/s (CUDA0)"), (12, "(12 of 29 layers on CUDA0)")]
)
def test_a_gpus_share_is_told_where_there_is_one(layers: int, words: str) -> None:
    speed = Speed(256, 0.5, 24, 1.2, layers=29, gpu_layers=layers, devices=("CUDA0",))
    assert words in speed.in_words()


def test_a_missing_model_fails_and_names_the_remedy(tmp_path: Path) -> None:
    done = run("--model", str(tmp_path / "no.gguf"), XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 1
    [line] = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    assert "no.gguf" in line and "DS4_MODEL" in line


def test_without_any_model_the_fetch_command_is_named(tmp_path: Path) -> None:
    done = run(XDG_CACHE_HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path), DS4_MODEL="")
    assert done.returncode == 1
    assert "ds4-lsp model fetch" in done.stdout


def test_a_context_beyond_the_trained_length_fails_with_both_numbers(small_model: Path) -> None:
    found = doctor.check_memory(str(small_model), 100_000, CPU)
    assert found.state == "failed"
    assert "100000" in found.detail and "8192" in found.detail


def test_memory_is_compared_with_the_gpus_where_there_are_some(small_model: Path) -> None:
    assert doctor.check_memory(str(small_model), 8192, {**CPU, "devices": [GPU]}).state == "ok"
    tiny = doctor.check_memory(str(small_model), 8192, {**CPU, "devices": [{**GPU, "free": 1000}]})
    assert tiny.state == "failed" and "contextSize" in tiny.remedy


def test_how_a_model_is_sampled_is_said_with_its_source(small_model: Path, tmp_path: Path) -> None:
    found = doctor.check_sampling(str(small_model))
    assert (found.state, found.detail) == (
        "ok",
        "temperature 0.2, topP 1, minP 0.05, topK 0, repeatPenalty 1 (default)",
    )
    assert doctor.check_sampling(None).state == doctor.check_sampling(str(tmp_path / "no.gguf")).state == "warning"


def test_a_file_that_is_no_model_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"not a model at all")
    assert doctor.check_model(str(path)).state == "failed"


@pytest.mark.parametrize(
    "probed, state",
    [
        (CPU, "warning"),
        ({**CPU, "gpuOffload": True}, "warning"),
        ({**CPU, "devices": [GPU]}, "ok"),
        ("it crashed", "warning"),
    ],
    ids=["CPU build", "no device", "GPU", "no probe"],
)
def test_the_gpu_line_never_fails_the_check(probed: dict[str, object] | str, state: str) -> None:
    found = doctor.check_gpu(probed)
    assert found.state == state
    assert state == "ok" or found.remedy


def test_a_probe_that_crashes_is_told_with_its_last_words() -> None:
    code = "import sys; print('no such library', file=sys.stderr); sys.exit(3)"
    assert doctor.probe((sys.executable, "-c", code)) == "no such library"
    assert doctor.check_llama("no such library").state == "failed"


def test_a_session_directory_that_cannot_be_made_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = doctor.check_sessions(tmp_path / "file" / "sessions")
    assert found.state == "failed" and "ds4.sessions.directory" in found.remedy


def test_editors_are_found_on_path_and_none_is_only_a_warning(tmp_path: Path) -> None:
    assert doctor.check_editors(str(tmp_path)).state == "warning"
    nvim = tmp_path / "nvim"
    nvim.touch(mode=0o755)
    assert doctor.check_editors(str(tmp_path)) == doctor.Check("editors", "ok", "nvim")
