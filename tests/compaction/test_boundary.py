from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.compaction.boundary import LEAST_GAIN, Cut, Trim, balanced_cuts, choose, choose_maximal, first_unread
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


def size(items: Sequence[Item]) -> int:
    return sum(one.tokens for one in items)


def kept(items: list[Item], cut: Cut) -> list[int]:
    """Tokens of each message of the tail, of a shortened one those of its end."""
    ends = {trim.index: trim.tail for trim in cut.trims}
    return [ends.get(index, items[index].tokens) for index in range(cut.at, len(items))]


@settings(deadline=None)
@given(surfaces(), budgets, budgets)
def test_the_cut_never_separates_a_call_from_its_result(items: list[Item], budget: int, prompts: int) -> None:
    for cut in (choose(items, budget, prompts), choose_maximal(items)):
        if cut is not None:
            assert not open_calls(items[: cut.at])


@settings(deadline=None)
@given(surfaces(), budgets, budgets)
def test_what_the_model_has_not_read_is_never_cut_off_nor_shortened(
    items: list[Item], budget: int, prompts: int
) -> None:
    last_reply = max((index for index, one in enumerate(items) if one.role == "assistant"), default=-1)
    results = [index for index in range(last_reply + 1, len(items)) if items[index].role == "tool"]
    unread = [index for index in range(last_reply + 1, len(items)) if items[index].kind in ("prompt", "result")]
    cut = choose(items, budget, prompts)
    if cut is not None:
        assert all(index >= cut.at for index in unread)
        assert not {trim.index for trim in cut.trims} & set(unread)
    least = choose_maximal(items)
    if least is not None:
        assert all(index >= least.at for index in results)
        assert least.trims == ()


@settings(deadline=None)
@given(surfaces(), budgets, budgets)
def test_the_tail_is_never_below_its_budget_token_for_token_also_inside_one_giant_message(
    items: list[Item], budget: int, prompts: int
) -> None:
    cut = choose(items, budget, prompts)
    if cut is None:
        return
    assert sum(kept(items, cut)) + cut.ending >= budget
    if cut.ending:
        # Inside a prompt, of which the checkpoint has as many words, and this end.
        assert items[cut.at - 1].kind == "prompt"
        assert cut.ending <= items[cut.at - 1].tokens > prompts


@settings(deadline=None)
@given(surfaces(), budgets, budgets)
def test_the_tail_has_little_more_than_its_budget_where_that_can_be_had(
    items: list[Item], budget: int, prompts: int
) -> None:
    cut = choose(items, budget, prompts)
    if cut is None:
        return
    slack, unread = budget // 4, first_unread(items)
    read = [number for index, number in enumerate(kept(items, cut), cut.at) if index < unread]
    over = sum(read) - max(0, budget - size(items[unread:]))
    # A prompt before the cut, the messages that reach over the target and are not shortened, for each of those little.
    users = sum(one.tokens for one in items[cut.at : unread] if one.role == "user")
    spanned = len([one for one in items[cut.at : unread] if one.role != "user"])
    assert over <= slack + users + spanned * max(slack, LEAST_GAIN) + prompts


@settings(deadline=None)
@given(surfaces(), budgets, budgets)
def test_there_is_no_cut_only_when_nothing_can_go(items: list[Item], budget: int, prompts: int) -> None:
    if choose(items, budget, prompts) is not None:
        return
    offsets = starts(items)
    limit = min(first_unread(items), max(0, bisect_right(offsets, offsets[-1] - budget) - 1))
    movable = [k for k in range(1, limit + 1) if not open_calls(items[:k])]
    older = [one for one in items[: max(movable, default=0)] if one.kind != "checkpoint"]
    # A prompt that the tail may as well begin with is not worth a checkpoint of its own.
    assert offsets[-1] <= budget or size(older) <= (budget // 4 if older and older[0].kind == "prompt" else 0)


@settings(deadline=None)
@given(surfaces(), budgets, budgets, st.integers(1, 60))
def test_what_one_pass_leaves_has_no_further_cut(items: list[Item], budget: int, prompts: int, checkpoint: int) -> None:
    cut = choose(items, budget, prompts)
    if cut is None:
        return
    # What stands for the head is smaller than it, as the transaction checks.
    room = min(checkpoint, size(items[: cut.at]) - 1)
    if room < 1:
        return
    ends = {trim.index: replace(items[trim.index], tokens=trim.tail + 8) for trim in cut.trims}
    tail = [ends.get(index, one) for index, one in enumerate(items)][cut.at :]
    assert choose([item(-1, "user", room, "checkpoint"), *tail], budget, prompts) is None


@settings(deadline=None)
@given(surfaces())
def test_the_maximal_cut_keeps_one_indivisible_unit_and_what_was_not_read(items: list[Item]) -> None:
    cut = choose_maximal(items)
    if cut is None:
        return
    assert cut.at < len(items)
    limit = min(len(items), first_unread(items, results_only=True) + 1)
    assert all(open_calls(items[:inside]) for inside in range(cut.at + 1, limit))


def test_a_giant_result_that_was_not_read_stays_whole_and_the_one_that_was_is_shortened() -> None:
    items = [
        item(0, "user", 50),
        item(1, "assistant", 40, calls=("c1",)),
        item(2, "tool", 9000, answers="c1"),
    ]
    assert choose(items, 1200, 500) is None
    assert choose([*items, item(3, "assistant", 200)], 1200, 500) == Cut(1, (Trim(2, 1000),))


def test_a_prompt_that_begins_shortly_before_is_the_border() -> None:
    items = [item(0, "user", 500), item(1, "assistant", 500), item(2, "user", 20), *(item(3, "assistant", 30),) * 4]
    assert choose(items, 100, 500) == Cut(2)


def test_a_large_prompt_in_which_the_budget_ends_goes_since_the_checkpoint_has_its_words() -> None:
    items = [item(0, "user", 50), item(1, "assistant", 500), item(2, "user", 5000), item(3, "assistant", 100)]
    assert choose(items, 400, 1000) == Cut(3, ending=300)
    assert choose(items, 400, 5000) == Cut(2)


def test_a_waiting_call_stays_in_the_tail_for_its_delayed_result() -> None:
    items = [
        item(0, "user", 50),
        item(1, "assistant", 40, calls=("c1",)),
        item(2, "tool", 7000, answers="c1"),
        item(3, "assistant", 40, calls=("c2",)),
    ]
    assert choose(items, 1200, 500) == Cut(1, (Trim(2, 1160),))


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
    items.append(item(6, "assistant", 120))
    assert choose(items, 130, 500) == Cut(5)
    below = choose(items, 160, 500)
    assert below is not None and below.at == 1


def test_of_a_message_larger_than_the_tail_the_end_stays() -> None:
    items = [item(0, "user", 50), item(1, "assistant", 5000)]
    assert choose(items, 100, 500) == Cut(1, (Trim(1, 100),))


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
        choose(items, 1, 1)
    with pytest.raises(CorruptSession):
        choose_maximal(items)
