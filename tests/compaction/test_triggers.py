from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.compaction import triggers
from ds4_lsp.compaction.triggers import Backoff, Limits
from ds4_lsp.protocol.settings import CompactionSettings

DEFAULTS = CompactionSettings()
contexts = st.integers(512, 1_000_000)


def limits(context: int, **changes: int | bool) -> Limits:
    return triggers.limits(CompactionSettings(**changes), context)


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        (12000, (9000, 1024, 1500, 1200, 3000, 750)),
        (32768, (24576, 1024, 4096, 3276, 8192, 2000)),
        (100_000, (85_000, 1024, 8192, 10_000, 25_000, 2000)),
        (1_000_000, (850_000, 1024, 8192, 50_000, 250_000, 2000)),
    ],
)
def test_the_numbers_of_the_specification(context: int, wanted: tuple[int, ...]) -> None:
    got = limits(context)
    assert (got.soft_at, got.answer_room, got.reserve, got.tail, got.checkpoint, got.part) == wanted


@settings(deadline=None)
@given(contexts, st.integers(0, 1_200_000))
def test_soft_is_85_percent_or_too_few_tokens_left(context: int, needed: int) -> None:
    few_left = context - needed <= min(8192, context // 4)
    assert triggers.soft(needed, limits(context)) == (needed * 100 >= 85 * context or few_left)


@settings(deadline=None)
@given(contexts, st.integers(0, 1_200_000), st.integers(100, 2000))
def test_a_reply_always_leaves_room_to_ask_for_and_receive_a_summary(context: int, bottom: int, request: int) -> None:
    room = triggers.generation_room(bottom, limits(context), request)
    assert room >= 0
    if room:
        assert bottom + room + request + 256 <= context
        assert bottom + room + min(8192, context // 8) <= context


@settings(deadline=None)
@given(contexts, st.integers(0, 1_200_000), st.integers(100, 2000), st.booleans())
def test_a_result_leaves_room_to_answer_and_after_that_for_a_summary(
    context: int, used: int, request: int, auto: bool
) -> None:
    got = limits(context, auto=auto)
    room = triggers.result_room(used, got, request)
    assert used + room + got.answer_room <= context
    if auto:
        assert triggers.generation_room(used + room, got, request) == got.answer_room


def test_the_error_for_a_result_that_is_too_large_names_both_sizes() -> None:
    text = triggers.too_large("read", 20_000, 2000, limits(12000))
    assert "20000" in text
    assert "only 2000 fit into the context of 12000" in text


def test_the_floor_check_speaks_up_with_the_numbers_exactly_when_a_compacted_session_is_over_the_threshold() -> None:
    got = limits(12000)
    floor = got.reserve + got.tail + got.largest_checkpoint
    assert triggers.cannot_help(got.soft_at - floor - 1, got) is None
    message = triggers.cannot_help(got.soft_at - floor, got)
    assert message is not None
    assert "12000" in message
    assert str(got.soft_at) in message


def test_soft_does_nothing_when_compaction_is_not_automatic() -> None:
    assert triggers.decide_soft(11_999, 11_999, 100, limits(12000, auto=False), Backoff()).action == "go on"


@settings(deadline=None)
@given(contexts, st.data())
def test_a_pass_that_frees_too_little_holds_soft_back_until_the_surface_has_grown_by_a_tenth(
    context: int, data: st.DataObject
) -> None:
    got = limits(context)
    before = data.draw(st.integers(0, context))
    after = data.draw(st.none() | st.integers(0, before))
    backoff = Backoff().after(before, after, got)
    left = before if after is None else after
    if before - left >= got.step:
        assert backoff.allows(0)
    else:
        assert not backoff.allows(left + got.step - 1)
        assert backoff.allows(left + got.step)


def test_the_documented_limits_are_the_real_ones() -> None:
    sizes = (4096, 12000, 32768, 131072)
    rows = [
        "| context | `soft` from | to answer a result | a reply leaves | tail | checkpoint | of it your requests | "
        "ledger | summary | least gain |",
        "|---" * 10 + "|",
    ]
    for size in sizes:
        got = limits(size)
        free = (got.soft_at, got.answer_room, got.reserve)
        kept = (got.tail, got.checkpoint, got.prompts, got.part, got.summary, got.least_gain)
        rows.append(f"| {size} | " + " | ".join(map(str, free + kept)) + " |")
    table = "\n".join(rows)
    document = Path(__file__).parents[2] / "docs" / "compaction.md"
    assert table in document.read_text("utf-8"), f"put this into {document.name}:\n{table}"
