from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.edits import context
from ds4_lsp.edits.guard import Refusal
from ds4_lsp.edits.pages import LONG_LINE, PAGE_LIMIT, excerpt, header, page
from ds4_lsp.edits.text import lines
from ds4_lsp.edits.views import covers

ROWS = lines("".join(f"l{number}\n" for number in range(1, 101)))


def test_a_page_shows_the_lines_asked_for_and_where_to_go_on():
    part = page(ROWS, 10, 3)
    assert part.body == "10 l10\n11 l11\n12 l12"
    assert (part.start, part.end, part.total, part.shown, part.more) == (10, 12, 100, ((10, 12),), 13)
    assert page(ROWS, 99, 50).more is None


def test_a_raw_page_is_the_text_itself():
    rows = lines("a\r\n\x0cb\rc")
    assert page(rows, raw=True).body == "a\r\n\x0cb\rc"


def test_a_page_ends_at_its_limit_and_the_rest_follows_from_there():
    rows = ["x" * 1000 + "\n"] * 500
    part = page(rows)
    assert len(part.body) <= PAGE_LIMIT + 500
    assert part.more == part.end + 1
    assert page(rows, part.more).more == part.more + part.end


def test_one_line_longer_than_the_limit_is_cut_and_not_shown():
    part = page(["x" * (PAGE_LIMIT + 9) + "\n", "y\n"], raw=True)
    assert "[cut: 10 more characters]" in part.body
    assert part.shown == ()
    assert part.more == 2


def test_the_header_of_an_empty_text_has_no_lines():
    assert header("a", "00000000", 1, 0, 0) == "a: file_tag=00000000 lines 0-0 of 0"


def test_an_excerpt_tells_of_its_gaps_and_leaves_cut_lines_out_of_what_was_shown():
    rows = ["1\n", "x" * (LONG_LINE + 1), "3\n", "4\n", "5\n"]
    text, shown = excerpt(rows, ((1, 3), (5, 5)))
    assert "… [lines 4-4 not shown]\n5 5" in text
    assert shown == ((1, 1), (3, 3), (5, 5))


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 201), st.integers(0, 200))
def test_the_text_around_an_edit_is_inside_the_file_and_holds_both_its_ends(total, start, size):
    start = min(start, total + 1)
    end = min(start + size - 1, total)
    ranges = context.around(start, end, total)
    assert all(1 <= a <= b <= total for a, b in ranges)
    if start <= end:
        assert covers(ranges, start, start)
        assert covers(ranges, end, end)
    assert covers(ranges, max(1, start - 5), start - 1)
    assert covers(ranges, end + 1, min(total, end + 8))
    assert sum(b - a + 1 for a, b in ranges) <= 5 + 36 + 8


def test_a_refusal_names_both_tags_and_a_recovery():
    stale = context.refusal("a.py", Refusal("staleFileTag", "it changed", (40, 42)), "11111111", "22222222")
    assert "Expected file_tag=11111111, current file_tag=22222222" in stale
    assert 'read path="a.py" start_line=35 max_lines=16' in stale
    whole = context.refusal("a.py", Refusal("staleFileTag", "it changed"), "11111111", "22222222")
    assert 'read path="a.py" whole=true' in whole
    twice = context.refusal("a.py", Refusal("ambiguous", "`old` occurs twice"), "11111111", "11111111")
    assert "Give more of the text around it" in twice
