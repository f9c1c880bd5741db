"""What is done to the logits before llama.cpp chooses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.engine.sampler import penalise

LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=8, max_size=8)


@settings(deadline=None, max_examples=100)
@given(LOGITS, st.lists(st.integers(0, 7)), st.floats(1, 3))
def test_a_penalty_makes_what_was_said_less_likely_once_and_nothing_else(
    logits: list[float], recent: list[int], penalty: float
) -> None:
    changed = np.array(logits, dtype=np.float32)
    penalise(changed, recent, penalty)
    for token, before in enumerate(logits):
        expected = before if token not in recent else before / penalty if before > 0 else before * penalty
        assert changed[token] == pytest.approx(expected, rel=1e-5)
