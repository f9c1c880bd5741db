from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.edits.plan import plan, trim
from ds4_lsp.edits.positions import offset_of, position_of
from ds4_lsp.edits.text import file_tag

quick = settings(deadline=None, max_examples=80)


@quick
@given(st.data())
def test_the_splice_gives_the_same_text_and_its_ends_are_positions(random_documents, data):
    before = data.draw(random_documents)
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, len(before)))
    new = data.draw(random_documents)
    edit = plan(
        uri="file:///x", path=Path("/x"), version=1, before=before, start=start, end=end, new_text=new, label="edit"
    )
    wanted = before[:start] + new + before[end:]
    assert edit.after == wanted
    assert (edit.before_tag, edit.after_tag) == (file_tag(before), file_tag(wanted))
    for encoding in ("utf-8", "utf-16", "utf-32"):
        for offset in (edit.start, edit.end):
            assert offset_of(before, *position_of(before, offset, encoding), encoding) == offset
    for offset in (edit.start, edit.start + len(edit.new_text)):
        assert wanted[max(0, offset - 1) : offset + 1] != "\r\n"


@quick
@given(st.text("ab\r\n", max_size=12), st.text("ab\r\n", max_size=12))
def test_a_splice_of_everything_is_cut_to_what_differs(before, after):
    low, high, text = trim(before, 0, len(before), after)
    assert before[:low] + text + before[high:] == after
    if "\r" not in before + after and before != after:
        # Minimal: neither end of the splice could be drawn further in.
        assert not (text and low < high and (before[low] == text[0] or before[high - 1] == text[-1]))


def test_changing_crlf_to_lf_replaces_the_whole_ending():
    assert trim("a\r\nb", 0, 4, "a\nb") == (1, 3, "\n")


def test_an_lf_that_would_join_a_cr_replaces_it_too():
    assert trim("a\rb", 2, 2, "\n") == (1, 2, "\r\n")
    assert trim("a\nb", 1, 1, "\r") == (1, 2, "\r\n")
