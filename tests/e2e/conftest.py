from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rig import Rig


@pytest.fixture(scope="session")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prompts")


@pytest.fixture
async def rig(tmp_path: Path, small_model: Path, prompts: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path, small_model, prompts=prompts)
    yield made
    await made.close()


@pytest.fixture(scope="session")
def tiny_model(tiny_chat_model: Path) -> Path:
    """Random weights behind the small model's vocabulary and template: everything about it is real but the sense of
    what it says. Fifty times faster, and with any context."""
    return tiny_chat_model


@pytest.fixture
async def tiny(tmp_path: Path, tiny_model: Path, prompts: Path) -> AsyncIterator[Rig]:
    """For scripted replies: those say what they should, whatever the weights are."""
    made = Rig(tmp_path, tiny_model, prompts=prompts)
    yield made
    await made.close()
