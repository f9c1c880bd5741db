from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.edits.text import file_tag
from ds4_lsp.edits.views import FileViews, Splice, clip, covers, merge

URI = "file:///w/a.py"
TEXT = "".join(f"{number}\n" for number in range(1, 21))


def test_lines_shown_of_one_text_add_up():
    views = FileViews()
    tag = views.show(URI, TEXT, [(1, 3)])
    assert views.show(URI, TEXT, [(4, 6), (10, 10)]) == tag == file_tag(TEXT)
    assert views.seen(URI, tag).numbered == ((1, 6), (10, 10))


def test_one_file_under_two_spellings_of_its_uri_is_one_file():
    views = FileViews()
    tag = views.show("file:///c%3A/a%20b", TEXT, [(1, 1)])
    assert views.seen("file:///C:/a b", tag) is not None
    assert views.any("file:///c:/a%20b")
    assert not views.any(URI)


def test_an_edit_that_moves_lines_makes_the_numbers_below_stale_but_keeps_their_text_known():
    views = FileViews()
    before = views.show(URI, TEXT, [(1, 20)])
    after = TEXT.replace("5\n", "five\nfive\n", 1)
    tag = views.edited(URI, before, after, Splice(5, 5, 1), [(3, 8)])
    view = views.seen(URI, tag)
    assert view.numbered == ((1, 8),)
    assert view.known == ((1, 21),)


def test_an_edit_that_moves_no_line_keeps_all_numbers():
    views = FileViews()
    before = views.show(URI, TEXT, [(1, 4), (12, 20)])
    tag = views.edited(URI, before, TEXT.replace("4\n", "four\n", 1), Splice(4, 4, 0), [(2, 6)])
    assert views.seen(URI, tag).numbered == ((1, 6), (12, 20))


def test_memory_is_bounded_and_a_dropped_text_leaves_what_was_shown_of_it():
    views = FileViews(text_bytes=3000)
    tags = [views.show(f"file:///{number}", f"{number}" * 1000, [(1, 1)]) for number in range(6)]
    texts = [views.seen(f"file:///{number}", tag).text for number, tag in enumerate(tags)]
    assert [text is not None for text in texts] == [False, False, False, False, True, True]
    assert views.seen("file:///0", tags[0]).numbered == ((1, 1),)


def test_a_text_larger_than_the_limit_is_kept_while_it_is_the_newest():
    views = FileViews(text_bytes=10)
    tag = views.show(URI, TEXT, [(1, 20)])
    assert views.seen(URI, tag).text == TEXT


def test_a_restored_view_without_text_gets_it_when_it_is_shown_again():
    views = FileViews()
    tag = file_tag(TEXT)
    views.restore(URI, tag, None, [(1, 5)])
    assert views.seen(URI, tag).text is None
    views.show(URI, TEXT, [(9, 9)])
    assert views.seen(URI, tag).text == TEXT
    assert views.seen(URI, tag).numbered == ((1, 5), (9, 9))


ranges = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=6)


@settings(deadline=None)
@given(ranges, st.integers(1, 30), st.integers(0, 30))
def test_ranges_are_sets_of_lines(pairs, start, end):
    merged = merge(pairs)
    members = {line for a, b in pairs for line in range(a, b + 1)}
    assert {line for a, b in merged for line in range(a, b + 1)} == members
    assert all(b + 1 < c for (_, b), (c, _) in pairwise(merged))
    inside = {line for a, b in clip(merged, start, end) for line in range(a, b + 1)}
    assert inside == {line for line in members if start <= line <= end}
    assert covers(merged, start, end) == (set(range(start, end + 1)) <= members)
