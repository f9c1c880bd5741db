from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bare import Setup
from benchmarks.tiny_model import build


@pytest.fixture(scope="session")
def setup(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """Both sides on a model of random weights: what they evaluate is real, and takes milliseconds."""
    return Setup(build(small_model, tmp_path_factory.mktemp("tiny") / "tiny.gguf", context=8192), 8192, threads=2)
