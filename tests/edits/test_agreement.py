"""What counts and searches in place decides as what splits whole texts into lists of lines does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_guard import PlainIndex
from plain_guard import resolve as plainly

from ds4_lsp.edits import common
from ds4_lsp.edits import text as text_module
from ds4_lsp.edits.blocks import block_starts, places_after
from ds4_lsp.edits.common import common_prefix, common_suffix
from ds4_lsp.edits.guard import Lines, OldText, Refusal, Resolution, Whole, resolve
from ds4_lsp.edits.text import LineIndex, file_tag, lines, unify
from ds4_lsp.edits.views import View, merge

often = settings(deadline=None, max_examples=200)
stretches = st.sampled_from([1, 2, 3, 7, 4096])
any_text = st.text(st.sampled_from("ab\r\n\r\n\x0c\u2028é😀"), max_size=30)
# Few characters and mostly line ends: their halves meet and part often.
ends_mostly = st.text(st.sampled_from("a\r\n"), max_size=9)


@pytest.fixture(scope="module")
def stretched():
    """Set the length of what is counted or compared at once, so that short texts have several such stretches."""
    patch = pytest.MonkeyPatch()

    def set_length(length):
        patch.setattr(text_module, "_STRETCH", length)
        patch.setattr(common, "_PIECE", length)

    yield set_length
    patch.undo()


@often
@given(any_text, stretches, st.data())
def test_the_index_is_the_list_of_lines(stretched, text, stretch, data):
    stretched(stretch)
    plain, count = PlainIndex(text), len(lines(text))
    known = data.draw(st.integers(1, max(count, 1)))
    index = LineIndex(text, (plain.start(known), known))
    # In any order: what has been counted before must not matter.
    for what in data.draw(st.permutations(["len", "start", "end", "at", "item", "slice", "rows", "has", "iter"])):
        number = data.draw(st.integers(0, count))
        other = data.draw(st.integers(-count - 2, count + 2))
        match what:
            case "len":
                assert len(index) == count
                assert bool(index) == bool(count)
            case "start":
                assert index.start(number + 1) == plain.start(number + 1)
            case "end":
                assert index.end(number) == plain.end(number)
            case "at":
                at = data.draw(st.integers(0, len(text)))
                assert index.line_at(at) == plain.line_at(at)
            case "item" if -count <= other < count:
                assert index[other] == plain.lines[other]
            case "item":
                with pytest.raises(IndexError):
                    index[other]
            case "slice":
                step = data.draw(st.sampled_from([None, 1, 2, -1]))
                assert index[other:number:step] == list(plain.lines[other:number:step])
            case "rows":
                end = data.draw(st.integers(number, count))
                assert index.rows(number + 1, end) == list(plain.lines[number:end])
            case "has":
                assert index.has(number + 1) == (number < count)
            case "iter":
                assert list(index) == list(plain.lines)
    assert index.is_ended == (not count or plain.lines[-1][-1] in "\r\n")
    with pytest.raises(IndexError):
        index.start(count + 2)


@often
@given(ends_mostly, ends_mostly, st.data())
def test_a_block_is_found_where_its_lines_stand_in_the_list_of_lines(text, other, data):
    source = lines(data.draw(st.sampled_from([text, other])))
    start = data.draw(st.integers(0, len(source)))
    block = source[start : data.draw(st.integers(start, len(source)))]
    rows, index = lines(text), PlainIndex(text)
    there = [at for at in range(len(rows)) if block and rows[at : at + len(block)] == block]
    found = block_starts(text, "".join(block))
    assert len(found) == min(len(there), 2)
    assert set(found) <= {index.start(at + 1) for at in there}


@often
@given(ends_mostly, ends_mostly, stretches)
def test_what_two_texts_have_in_common_at_their_ends_is_the_longest_such(stretched, one, other, stretch):
    stretched(stretch)
    size = common_prefix(one, other)
    assert one[:size] == other[:size]
    assert one[size : size + 1] != other[size : size + 1] or len(one) == len(other) == size
    backwards = common_prefix(one[::-1], other[::-1])
    assert common_suffix(one, other) == backwards
    assert common_suffix(one, other, backwards // 2) == backwards // 2


@often
@given(ends_mostly, ends_mostly, stretches, st.data())
def test_lines_that_stood_once_are_found_with_their_numbers_wherever_they_stand_now(
    stretched, seen, typed, stretch, data
):
    stretched(stretch)
    start = data.draw(st.integers(0, len(seen)))
    end = data.draw(st.integers(start, min(len(seen), start + 4)))
    current = seen[:start] + typed + seen[end:]
    count = len(lines(seen))
    if not count:
        return
    low = data.draw(st.integers(1, count))
    high = data.draw(st.integers(low, count))
    index, now = PlainIndex(seen), PlainIndex(current)
    block = seen[index.start(low) : index.end(high)]
    if len(block_starts(seen, block)) == 1:
        found = places_after(LineIndex(seen), current, low, high)
        wanted = block_starts(current, block)
        assert min(len(found), 2) == len(wanted)
        assert len(found) != 1 or [at for at, _line in found] == wanted
        assert all(now.start(line) == at for at, line in found)


@st.composite
def numbered(draw, name, least=0):
    """Lines of which no two are equal."""
    marks = draw(st.lists(st.sampled_from(["\n", "\r\n", "\r"]), min_size=least, max_size=6))
    rows = "".join(f"{name}{number}{mark}" for number, mark in enumerate(marks))
    return rows + draw(st.sampled_from(["", "", "end"]))


@often
@given(st.data(), stretches)
def test_lines_that_moved_are_replaced_as_by_the_plain_guard(random_documents, stretched, data, stretch):
    stretched(stretch)
    seen = data.draw(numbered("seen", 3))
    count = len(lines(seen))
    at = data.draw(st.integers(0, count))
    rows = lines(seen)
    current = "".join([*rows[:at], data.draw(numbered("typed ", 1)), *rows[at:], data.draw(numbered("more "))])
    start = data.draw(st.integers(1, count + 1))
    target = Lines(start, data.draw(st.integers(start - 1, min(start + 1, count))))
    view, new = View(seen, ((1, count),), ((1, count),)), data.draw(random_documents)
    how = {"tag": file_tag(seen), "current": current, "view": view}
    assert resolve(target, new, **how) == plainly(target, new, **how)


@st.composite
def cases(draw, documents):
    """A text as it was seen, as it is, what its author knows of it, and what they want of it."""
    seen = current = draw(st.one_of(numbered(""), documents))
    for _ in range(draw(st.integers(0, 2))):
        rows = lines(current)
        at = draw(st.integers(0, len(rows)))
        gone = draw(st.integers(0, 2))
        current = "".join([*rows[:at], draw(documents), *rows[at + gone :]])
    count = len(lines(seen))
    pairs = st.lists(st.tuples(st.integers(1, count + 1), st.integers(0, count + 1)), max_size=3)
    shown = st.one_of(st.just([(1, count)]), st.just([(1, count)]), pairs)
    known = merge(draw(shown))
    view = View(draw(st.sampled_from([seen, seen, None])), merge(draw(shown)), known)
    flat = unify(draw(st.sampled_from([seen, current])))
    start = draw(st.integers(0, len(flat)))
    target = draw(
        st.one_of(
            st.builds(Lines, st.integers(0, count + 2), st.integers(0, count + 2)),
            st.just(OldText(flat[start : draw(st.integers(start, min(len(flat), start + 12)))])),
            st.builds(Whole, st.sampled_from(["lines", "text", "exact"])),
        )
    )
    how = {
        "tag": draw(st.sampled_from([file_tag(seen), file_tag(seen), "00000001"])),
        "current": current,
        "view": view,
        "mode": draw(st.sampled_from(["rebase", "rebase", "strict"])),
        "require_shown": draw(st.booleans()),
    }
    if how["tag"] != file_tag(seen):
        how["view"] = None
    return target, draw(documents), how


@often
@given(st.data(), stretches)
def test_the_guard_decides_as_the_plain_one(random_documents, stretched, data, stretch):
    stretched(stretch)
    target, new, how = data.draw(cases(random_documents))
    assert resolve(target, new, **how) == plainly(target, new, **how)


def test_two_texts_with_one_tag_are_not_taken_for_each_other():
    seen, current = "plumless\n", "buckeroo\n"
    assert file_tag(seen) == file_tag(current)
    view = View(seen, ((1, 1),), ((1, 1),))
    found = resolve(Lines(1, 1), "x", tag=file_tag(seen), current=current, view=view)
    assert isinstance(found, Refusal)
    moved = resolve(Lines(1, 1), "x", tag=file_tag(seen), current="typed\n" + seen, view=view)
    assert isinstance(moved, Resolution)
    assert moved.start_line == 2
