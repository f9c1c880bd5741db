from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.compaction.boundary import aligned, balanced_cuts, choose, choose_maximal
from ds4_lsp.compaction.model import Item
from ds4_lsp.protocol.errors import CorruptSession


def item(index: int, role: str, tokens: int, kind: str = "", *, calls: tuple[str, ...] = (), answers: str = "") -> Item:
    kind = kind or {"user": "prompt", "assistant": "reply", "tool": "result"}[role]
    return Item(index, index, role, kind, tokens, "", frozenset(calls), answers or None)


@st.composite
def surfaces(draw: st.DrawFn) -> list[Item]:
    """Prior checkpoints, notices anywhere, multi-call messages, results in any order, calls still waiting, giants."""
    sizes = st.integers(1, 60) | st.sampled_from([500, 5000])
    items: list[Item] = []
    waiting: list[str] = []
    made = 0
    if draw(st.booleans()):
        items.append(item(0, "user", draw(sizes), "checkpoint"))
    kinds = st.sampled_from(["prompt", "notice", "reply", "calls", "result", "result"])
    for what in draw(st.lists(kinds, max_size=25)):
        at = len(items)
        if what in ("prompt", "notice"):
            items.append(item(at, "user", draw(sizes), what))
        elif what == "reply":
            items.append(item(at, "assistant", draw(sizes)))
        elif what == "calls":
            count = draw(st.integers(1, 3))
            ids = tuple(f"c{made + number}" for number in range(count))
            made += count
            waiting += ids
            items.append(item(at, "assistant", draw(sizes), calls=ids))
        elif waiting:
            answered = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            items.append(item(at, "tool", draw(sizes), answers=answered))
    return items


budgets = st.integers(0, 800)


def open_calls(items: list[Item]) -> set[str]:
    calls = {call for one in items for call in one.calls}
    return calls - {one.result_for for one in items if one.result_for}


def starts(items: list[Item]) -> list[int]:
    return [0, *accumulate(one.tokens for one in items)]


@settings(deadline=None)
@given(surfaces(), budgets)
def test_the_cut_never_separates_a_call_from_its_result(items: list[Item], budget: int) -> None:
    for cut in (choose(items, budget), choose_maximal(items)):
        if cut is not None:
            assert not open_calls(items[:cut])


@settings(deadline=None)
@given(surfaces(), budgets)
def test_the_cut_never_moves_tailward_and_stops_at_the_first_balanced_place(items: list[Item], budget: int) -> None:
    cut = choose(items, budget)
    if cut is None:
        return
    target = starts(items)[-1] - budget
    border = aligned(items, starts(items), target)
    assert cut <= border
    assert all(open_calls(items[:between]) for between in range(cut + 1, border + 1))


@settings(deadline=None)
@given(surfaces(), budgets)
def test_the_border_is_the_first_user_message_within_the_budget_else_the_first_message(
    items: list[Item], budget: int
) -> None:
    offsets = starts(items)
    target = offsets[-1] - budget
    border = aligned(items, offsets, target)
    users = [i for i, one in enumerate(items) if one.kind in ("prompt", "checkpoint") and offsets[i] >= target]
    assert border == (users[0] if users else min(i for i, offset in enumerate(offsets) if offset >= target))


@settings(deadline=None)
@given(surfaces(), budgets)
def test_there_is_no_cut_only_when_nothing_can_go(items: list[Item], budget: int) -> None:
    if choose(items, budget) is not None:
        return
    offsets = starts(items)
    target = offsets[-1] - budget
    border = aligned(items, offsets, max(target, 0)) if target > 0 else 0
    movable = [k for k in range(1, border + 1) if not open_calls(items[:k])]
    assert all(one.kind == "checkpoint" for k in movable for one in items[:k])


@settings(deadline=None)
@given(surfaces(), budgets, st.integers(1, 60))
def test_what_one_pass_leaves_has_no_further_cut(items: list[Item], budget: int, checkpoint: int) -> None:
    cut = choose(items, budget)
    if cut is None:
        return
    # What stands for the head is smaller than it, as the transaction checks.
    size = min(checkpoint, sum(one.tokens for one in items[:cut]) - 1)
    if size < 1:
        return
    after = [item(-1, "user", size, "checkpoint"), *items[cut:]]
    assert choose(after, budget) is None


@settings(deadline=None)
@given(surfaces())
def test_the_maximal_cut_keeps_one_indivisible_unit(items: list[Item]) -> None:
    cut = choose_maximal(items)
    if cut is not None:
        assert cut < len(items)
        assert all(open_calls(items[:inside]) for inside in range(cut + 1, len(items)))


def test_a_waiting_call_stays_in_the_tail_for_its_delayed_result() -> None:
    items = [
        item(0, "user", 50),
        item(1, "assistant", 40, calls=("c1",)),
        item(2, "tool", 7000, answers="c1"),
        item(3, "assistant", 40, calls=("c2",)),
    ]
    assert choose(items, 1200) == 3


def test_ids_are_matched_not_counted() -> None:
    items = [
        item(0, "user", 50),
        item(1, "assistant", 40, calls=("c1", "c2")),
        item(2, "tool", 100, answers="c2"),
        item(3, "user", 10, "notice"),
        item(4, "tool", 100, answers="c1"),
        item(5, "user", 10),
    ]
    assert balanced_cuts(items) == [True, True, False, False, False, True, True]
    assert choose(items, 120) == 5
    assert choose(items, 9) == 6


def test_a_message_larger_than_the_tail_goes_as_well() -> None:
    items = [item(0, "user", 50), item(1, "assistant", 5000)]
    assert choose(items, 100) == 2


@pytest.mark.parametrize(
    "items",
    [
        [item(0, "user", 5), item(1, "tool", 5, answers="c9")],
        [item(0, "assistant", 5, calls=("c1",)), item(1, "tool", 5, answers="c1"), item(2, "tool", 5, answers="c1")],
        [item(0, "assistant", 5, calls=("c1",)), item(1, "assistant", 5, calls=("c1",))],
    ],
    ids=["orphan result", "second result", "id used twice"],
)
def test_a_result_without_its_call_is_corruption(items: list[Item]) -> None:
    with pytest.raises(CorruptSession):
        choose(items, 1)
    with pytest.raises(CorruptSession):
        choose_maximal(items)
