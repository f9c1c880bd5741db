from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.compaction import checkpoint
from ds4_lsp.compaction.checkpoint import Parts
from ds4_lsp.compaction.chunks import excerpt, split
from ds4_lsp.compaction.fitting import fit_head, fit_head_tail
from ds4_lsp.compaction.ledger import Entry, Facts, Prompt
from ds4_lsp.compaction.model import Item
from ds4_lsp.compaction.prompts import NOTE_TOKENS, SEAM, TITLE, order, prompts_part
from ds4_lsp.compaction.request import HEADINGS, summary_request
from ds4_lsp.compaction.triggers import limits
from ds4_lsp.protocol.settings import CompactionSettings


def facts(*prompts: str) -> Facts:
    fold = Facts()
    fold.prompts = [Prompt(seq, text) for seq, text in enumerate(prompts, 1)]
    return fold


def test_the_prompts_of_a_checkpoint_are_those_that_are_not_in_the_tail() -> None:
    fold = facts("one", "two", "three")
    assert [prompt.text for prompt in checkpoint.older(fold, {3})] == ["one", "two"]


@settings(deadline=None)
@given(st.integers(0, 40))
def test_what_matters_most_is_the_oldest_and_the_newest_in_turn(count: int) -> None:
    found = order(count)
    assert sorted(found) == list(range(count))
    assert found[:4] == list(dict.fromkeys([0, count - 1, 1, count - 2]))[: min(4, count)]


@settings(deadline=None, max_examples=150)
@given(
    texts=st.lists(st.text(max_size=200) | st.integers(1, 900).map("please ".__mul__), min_size=1, max_size=12),
    cap=st.integers(0, 1500),
)
async def test_prompts_are_within_their_cap_verbatim_or_named(texts: list[str], cap: int) -> None:
    prompts = [Prompt(seq, text) for seq, text in enumerate(texts, 11)]
    part = await prompts_part(prompts, cap, _count)
    assert await _count(part) <= cap
    if not part:
        assert cap < NOTE_TOKENS + await _count(TITLE) + 2 * SEAM
        return
    whole = [f"## Event {one.seq}\n{one.text}" in part for one in prompts]
    assert all(there or str(one.seq) in part for there, one in zip(whole, prompts, strict=True))
    needed = await _count(TITLE) + SEAM
    for one in prompts:
        needed += await _count(f"## Event {one.seq}\n{one.text}") + SEAM
    if needed <= cap:
        assert all(whole)


async def test_a_long_specification_and_a_short_correction_are_both_there_to_the_letter() -> None:
    spec = "\n".join(f"REQ-{number:03}: the part {number} answers within {number} ms" for number in range(120))
    prompts = [Prompt(1, spec), Prompt(9, "From now on write log messages in German."), Prompt(20, "go on")]
    part = await prompts_part(prompts, 4096, _count)
    assert spec in part
    assert "## Event 9\nFrom now on write log messages in German." in part


async def test_what_is_beyond_the_budget_is_named_and_can_be_had() -> None:
    prompts = [Prompt(seq, f"{seq} " + "please " * 40) for seq in range(1, 9)]
    part = await prompts_part(prompts, 400, _count)
    there = [seq for seq in range(1, 9) if f"## Event {seq}\n" in part]
    assert {1, 8} <= set(there)
    missing = ", ".join(str(seq) for seq in range(1, 9) if seq not in there)
    assert f"requests are left out here: event {missing}. `recall` with event=NUMBER shows one." in part


async def test_of_a_prompt_larger_than_the_budget_beginning_and_end_stay_and_the_newest_has_its_share() -> None:
    prompts = [Prompt(1, "begin " + "please " * 3000 + "end"), Prompt(5, "newest " + "now " * 3000 + "last")]
    part = await prompts_part(prompts, 600, _count)
    for word in ("begin please", "please end", "newest now", "now last", "event=1 shows", "event=5 shows"):
        assert word in part


async def test_the_places_of_a_prompt_give_way_to_its_words() -> None:
    prompt = Prompt(1, "please " * 50, ("file:///a/rather/long/name.py:1-20",))
    roomy = await prompts_part([prompt], 1000, _count)
    assert roomy.splitlines()[2] == "## Event 1, about file:///a/rather/long/name.py:1-20"
    tight = await prompts_part([prompt], 160, _count)
    assert tight == f"{TITLE}\n\n## Event 1\n{prompt.text}"


async def _count(text: str) -> int:
    return len(text.split()) + text.count("\n") + len(text) // 7


@settings(deadline=None, max_examples=80)
@given(st.text(max_size=400), st.integers(0, 80))
async def test_fitted_text_is_within_its_cap(text: str, cap: int) -> None:
    first = await fit_head(text, cap, _count)
    assert await _count(first) <= cap
    assert text.startswith(first)
    both = await fit_head_tail(text, cap, _count, lambda count: f"[{count}]")
    assert await _count(both) <= cap


async def test_the_ledger_gives_up_details_of_old_entries_before_it_leaves_entries_out() -> None:
    entries = [Entry(seq, False, f"file {seq}: read 1-500; edited", f"file {seq}") for seq in range(100, 0, -1)]
    assert await checkpoint.ledger_part(entries[:3], 60, _count) == "\n".join(f"- {one.text}" for one in entries[:3])
    text = await checkpoint.ledger_part(entries[:12], 80, _count)
    assert await _count(text) <= 80
    *full, short = text.splitlines()
    assert full
    assert full == [f"- {one.text}" for one in entries[: len(full)]]
    assert short == "- before that: " + "; ".join(one.short for one in entries[len(full) : 12])
    text = await checkpoint.ledger_part(entries, 80, _count)
    assert await _count(text) <= 80
    short, left_out = text.splitlines()
    known = short.count("file")
    assert known > 12
    assert short == "- before that: " + "; ".join(one.short for one in entries[:known])
    assert left_out == f"- {100 - known} older entries are left out"


@settings(deadline=None, max_examples=60)
@given(
    context=st.integers(512, 40_000),
    shadowed=st.integers(0, 40_000),
    prompts=st.lists(st.integers(0, 4000), max_size=3),
    files=st.integers(0, 200),
    summary=st.integers(1, 30_000),
)
async def test_a_checkpoint_is_under_its_cap_and_smaller_than_what_it_shadows(
    context: int, shadowed: int, prompts: list[int], files: int, summary: int
) -> None:
    fold = facts(*("please " * words for words in prompts))
    for number in range(files):
        fold._file({"path": f"src/module_{number}.py"}, number + 10).edits = 1
    got = limits(CompactionSettings(), context)
    draft = await checkpoint.draft(fold, set(), got, shadowed=shadowed, frame_tokens=6, count=_count)
    if draft is None:
        return
    assert draft.summary_room >= checkpoint.MIN_SUMMARY
    cap = min(got.checkpoint, shadowed - 1)
    parts, size = await checkpoint.finish(draft, "done\n" * summary, cap, 6, _count)
    assert parts.summary
    assert size == await _count(checkpoint.frame(parts)) + 6
    assert size <= cap


async def test_a_summary_that_does_not_fit_after_all_is_cut_once_more() -> None:
    draft = checkpoint.Draft("task", "", fixed=60, summary_room=500)
    parts, size = await checkpoint.finish(draft, "done\n" * 1000, 200, 6, _count)
    assert parts.summary
    assert size == await _count(checkpoint.frame(parts)) + 6 <= 200


async def test_a_small_span_is_not_worth_a_checkpoint() -> None:
    got = limits(CompactionSettings(), 12_000)
    assert await checkpoint.draft(facts("hi"), set(), got, shadowed=120, frame_tokens=6, count=_count) is None


@pytest.mark.parametrize(
    "marker",
    [
        "</think>",
        '<｜DSML｜invoke name="read">',
        "<DSML｜tool_calls>",
        "</｜DSML｜parameter>",
        "<｜｜DSML｜x",
        "< ｜DSML｜",
    ],
)
def test_markup_never_gets_into_a_summary(marker: str) -> None:
    assert checkpoint.clean(f"kept\n{marker} dropped", True) == "kept"
    assert checkpoint.clean(marker, True) == ""


def test_nothing_but_thinking_is_no_summary() -> None:
    assert checkpoint.clean("<think>hm", True) == ""
    assert checkpoint.clean("about `<think>` tags", True) == "about `<think>` tags"


def test_a_summary_that_was_cut_short_ends_at_a_whole_line() -> None:
    assert checkpoint.clean("one whole line\nhalf a li", False) == "one whole line"
    assert checkpoint.clean("one", False) == "one"


def test_the_frame_holds_the_parts_in_order() -> None:
    text = checkpoint.frame(Parts("T", "S", "L"))
    assert text.startswith("[Automatic checkpoint]")
    assert text.index("T\n") < text.index("# Summary\nS") < text.index("\nL")
    assert "Ledger" not in checkpoint.frame(Parts("T", "S", ""))


def test_the_request_has_the_eight_headings_in_order_and_the_users_words() -> None:
    text = summary_request(instructions="keep the port number")
    places = [text.index(f"## {heading}") for heading in HEADINGS]
    assert len(places) == 8
    assert places == sorted(places)
    assert text.endswith("The user asks to keep in mind: keep the port number")


def _items(*sizes: int) -> list[Item]:
    return [Item(i, i, "assistant", "reply", size, f"text {i} " * size) for i, size in enumerate(sizes)]


@settings(deadline=None)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=20), st.integers(1, 150), st.integers(1, 150))
def test_chunks_cover_the_span_once_in_order_and_fit(sizes: list[int], first: int, room: int) -> None:
    items = _items(*sizes)
    chunks = split(items, len(items), first, room)
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:-1])]
    assert chunks[-1].stop == len(items)
    for number, chunk in enumerate(chunks):
        size = sum(sizes[chunk.start : chunk.stop])
        limit = room if number else first
        assert chunk.whole == (size <= limit)
        assert chunk.whole or chunk.stop == chunk.start + 1


def test_chunks_do_not_separate_a_call_from_its_result() -> None:
    items = [
        Item(0, 0, "user", "prompt", 10, ""),
        Item(1, 1, "assistant", "reply", 10, "", frozenset({"c1"})),
        Item(2, 2, "tool", "result", 90, "", result_for="c1"),
        Item(3, 3, "assistant", "reply", 10, ""),
    ]
    assert [(chunk.start, chunk.stop, chunk.whole) for chunk in split(items, 4, 50, 50)] == [
        (0, 1, True),
        (1, 3, False),
        (3, 4, True),
    ]


async def test_an_excerpt_of_a_giant_keeps_its_head_and_tail_within_the_cap() -> None:
    giant = Item(0, 0, "tool", "result", 9000, "begin " + "x " * 9000 + "end", name="read")
    text = await excerpt([giant], 200, _count)
    assert await _count(text) <= 200
    assert text.startswith("[result of read]\nbegin")
    assert text.endswith("end")
