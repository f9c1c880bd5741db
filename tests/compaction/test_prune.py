from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ds4_lsp.compaction import graphemes, prune
from ds4_lsp.compaction.model import Item, Speeds
from ds4_lsp.compaction.prune import Shrunk, shrink
from ds4_lsp.compaction.triggers import limits
from ds4_lsp.protocol.settings import CompactionSettings

CLUSTERS = [
    "a",
    "\n",
    "\r\n",
    "e\u0301\u0323",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd",
    "\U0001f1e9\U0001f1ea",
    "\u1100\u1161\u11a8",
    "\uac00\u11a8",
    "\u0915\u094d\u0937\u093f",
    "\ud83d\ude00",
    "\u2764\ufe0f",
    "1\ufe0f\u20e3",
]
LIMITS = limits(CompactionSettings(), 12000)
FAST = Speeds(prefill=100.0, decode=10.0)


@settings(deadline=None)
@given(st.lists(st.sampled_from(CLUSTERS), max_size=30), st.integers(-1, 90))
def test_a_cut_never_falls_inside_a_grapheme(clusters: list[str], length: int) -> None:
    text = "".join(clusters)
    borders = {0, *accumulate(len(cluster) for cluster in clusters)}
    first, last = graphemes.head(text, length), graphemes.tail(text, length)
    assert text.startswith(first)
    assert text.endswith(last)
    assert max(len(first), len(last)) <= max(length, 0)
    assert len(first) in borders
    assert len(text) - len(last) in borders


@settings(deadline=None)
@given(st.text(max_size=60), st.integers(1, 30))
def test_a_ledger_line_is_one_line_of_bounded_length(text: str, length: int) -> None:
    line = graphemes.one_line(text, length)
    assert len(line) <= length
    assert len(line.splitlines()) <= 1


@settings(deadline=None, max_examples=40)
@example(clusters=["🇩🇪"], times=4097)
@given(st.lists(st.sampled_from(CLUSTERS), min_size=1, max_size=12), st.integers(1, 9000))
def test_shrinking_is_idempotent_bounded_and_keeps_head_and_tail(clusters: list[str], times: int) -> None:
    text = "".join(clusters) * times
    once = shrink(text, 7)
    assert shrink(once, 8) == once
    if len(text) <= prune.PRUNE_ABOVE:
        assert once == text
        return
    assert len(once) <= prune.PRUNE_ABOVE
    first, last = once.split("\n[… ")[0], once.rsplit(" …]\n", 1)[1]
    assert text.startswith(first)
    assert text.endswith(last)
    assert prune.HEAD - 40 <= len(first) <= prune.HEAD
    assert prune.TAIL - 40 <= len(last) <= prune.TAIL
    assert f"{len(text) - len(first) - len(last)} characters" in once
    assert "event=7" in once


def items_of(*sizes: int) -> list[Item]:
    return [Item(i, i, "tool", "result", size, "x" * 9000, result_for=f"c{i}") for i, size in enumerate(sizes)]


def test_only_long_results_older_than_the_tail_are_candidates() -> None:
    items = [
        Item(0, 0, "user", "prompt", 10, "x" * 9000),
        Item(1, 1, "tool", "result", 10, "x" * 8192),
        Item(2, 2, "tool", "result", 10, "x" * 8193),
        Item(3, 3, "tool", "result", 10, "x" * 9000),
        Item(4, 4, "assistant", "reply", 10, "x"),
    ]
    assert prune.candidates(items, 3) == [2]


def test_a_result_that_the_model_has_yet_to_read_is_no_candidate() -> None:
    items = [
        Item(0, 0, "tool", "result", 10, "x" * 9000),
        Item(1, 1, "assistant", "reply", 10, "x"),
        Item(2, 2, "tool", "result", 10, "x" * 9000),
    ]
    assert prune.candidates(items, 3) == [0]


def chosen(needed: int, cost: float | None, speeds: Speeds = FAST) -> list[int]:
    items = items_of(3000, 3000, 3000)
    shrunk = [Shrunk(index, "", 1000) for index in range(3)]
    picked = prune.choose(items, shrunk, needed=needed, limits=LIMITS, speeds=speeds, summary_cost=cost)
    return [one.index for one in picked]


def test_as_few_results_shrink_as_suffice_and_the_newest_first() -> None:
    assert chosen(LIMITS.soft_at - LIMITS.step + 2000, 1000.0) == [2]
    assert chosen(LIMITS.soft_at - LIMITS.step + 2001, 1000.0) == [1, 2]


def test_pruning_must_take_the_session_a_tenth_below_the_threshold() -> None:
    assert chosen(LIMITS.soft_at - LIMITS.step + 6000, 1000.0) == [0, 1, 2]
    assert chosen(LIMITS.soft_at - LIMITS.step + 6001, 1000.0) == []


def test_pruning_must_cost_less_engine_time_than_a_summary() -> None:
    # One result of 1000 tokens is evaluated again: ten seconds.
    assert chosen(LIMITS.soft_at, 10.1) == [2]
    assert chosen(LIMITS.soft_at, 10.0) == []


@pytest.mark.parametrize("speeds", [Speeds(), Speeds(prefill=100.0), Speeds(decode=10.0)])
def test_without_measured_speeds_nothing_is_pruned(speeds: Speeds) -> None:
    assert chosen(LIMITS.soft_at, prune.summary_seconds(400, 1000, 3000, speeds), speeds) == []


def test_a_summary_costs_its_request_its_decoding_and_the_rebuild() -> None:
    assert prune.summary_seconds(400, 1000, 3600, FAST) == pytest.approx(40 + 100)
