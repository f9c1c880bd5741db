from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tiny_model import build


@pytest.fixture(scope="session")
def tiny_model(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights: for scripted replies, which say what they should whatever the weights are."""
    return build(small_model, tmp_path_factory.mktemp("tiny") / "tiny.gguf", context=16384)
