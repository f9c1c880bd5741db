from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bare import Setup


@pytest.fixture(scope="session")
def setup(tiny_chat_model: Path) -> Setup:
    """Both sides on a model of random weights: what they evaluate is real, and takes milliseconds."""
    return Setup(tiny_chat_model, 8192, threads=1)
