import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4_lsp.edits.guard import Lines, OldText, Refusal, Whole
from ds4_lsp.edits.slips import INDENTED, NUMBERS_OFF, Mended, mend

TEXT = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n"


def after(target, new, text=TEXT, **options):
    """The text that a mended edit makes of ``text``."""
    mended = mend(target, new, text, **options)
    assert isinstance(mended, Mended), mended
    rows = text.split("\n")
    match mended.target:
        case OldText(old):
            assert text.count(old) == 1
            return text.replace(old, mended.new)
        case Lines(start, end):
            fresh = [] if not mended.new else mended.new.removesuffix("\n").split("\n")
            return "\n".join([*rows[: start - 1], *fresh, *rows[end:]])
        case _:
            return mended.new


def changed(old, new):
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2     result = 0", "2     result = 1"),
        ("2     result = 0", "    result = 1"),
        ("2     result = 0\n", "2     result = 1\n"),
        ("2: result = 0", "2: result = 1"),
        ("2 result = 0", "2 result = 1"),
        ("2 result = 0", "result = 1"),
        ("a.py: file_tag=0a1b2c3d lines 2-2 of 5\n2     result = 0", "2     result = 1"),
        ("    result = 0", "2     result = 1"),
        ("result = 0", "2     result = 1"),
    ],
)
def test_numbers_of_the_view_are_taken_off(old, new):
    assert after(OldText(old), new) == changed("result = 0", "result = 1")


def test_numbers_over_several_lines_are_taken_off_and_it_is_said():
    old = "3     for value in values:\n4         result += value"
    new = "3     for value in values:\n4         if value:\n5             result += value"
    mended = mend(OldText(old), new, TEXT)
    assert mended.notes == (NUMBERS_OFF,)
    assert after(OldText(old), new) == changed(
        "        result += value", "        if value:\n            result += value"
    )


@pytest.mark.parametrize(
    ("target", "new"),
    [
        (Lines(2, 2), "2     result = 1"),
        (Lines(2, 2), "2     result = 1\n"),
        (Whole("text"), "1 def f():\n2     pass\n"),
    ],
)
def test_numbers_in_new_are_taken_off_whatever_names_the_place(target, new):
    expected = "def f():\n    pass\n" if isinstance(target, Whole) else changed("result = 0", "result = 1")
    assert after(target, new) == expected


@pytest.mark.parametrize(
    ("target", "new"),
    [
        (Lines(2, 3), "7     result = 1\n8     x = 2"),
        (OldText("    result = 0"), "7     result = 1\n8     x = 2"),
        (OldText("2     result = 0\n3     for value in values:"), "2     result = 1\n    for value in values:"),
    ],
)
def test_new_that_is_numbered_otherwise_is_refused(target, new):
    refused = mend(target, new, TEXT)
    assert isinstance(refused, Refusal)
    assert "`new` begin with line numbers" in refused.message


def test_numbers_of_other_lines_are_refused():
    refused = mend(OldText("4     result = 0"), "x", TEXT)
    assert isinstance(refused, Refusal)
    assert refused.read == (4, 4)
    assert isinstance(mend(OldText("9     result = 0"), "x", TEXT), Refusal)


def test_numbers_that_are_the_files_own_stay():
    text = "1 apple\n2 pears\n3 plums\n"
    assert after(OldText("2 pears"), "2 figs", text) == "1 apple\n2 figs\n3 plums\n"
    assert after(Lines(2, 2), "2 figs", text) == "1 apple\n2 figs\n3 plums\n"
    assert after(OldText("2 2 pears"), "2 2 figs", text) == "1 apple\n2 figs\n3 plums\n"
    assert after(OldText("2 2 pears"), "2 figs", text) == "1 apple\n2 figs\n3 plums\n"
    assert after(OldText("pears"), "12 figs", text) == "1 apple\n2 12 figs\n3 plums\n"


@pytest.mark.parametrize(
    "old", ["result += value", "  result += value", "\tresult += value", "            result += value"]
)
def test_other_indentation_is_matched_and_new_shifted_alike(old):
    indent = old[: len(old) - len(old.lstrip())]
    assert after(OldText(old), f"{indent}result -= value") == changed("result += value", "result -= value")


def test_a_block_is_shifted_as_a_whole():
    old = "for value in values:\n    result += value"
    new = "for value in values:\n    if value:\n        result += value"
    expected = changed("        result += value", "        if value:\n            result += value")
    assert after(OldText(old), new) == expected
    assert INDENTED in mend(OldText(old), new, TEXT).notes


def test_spaces_become_the_tabs_of_the_file():
    text = TEXT.replace("    ", "\t")
    old = "    for value in values:\n        result += value"
    new = "    for value in values:\n        if value:\n            result += value"
    expected = text.replace("\t\tresult += value", "\t\tif value:\n\t\t\tresult += value")
    assert after(OldText(old), new, text) == expected


def test_a_shape_that_occurs_twice_or_cannot_be_shifted_is_not_guessed():
    text = "if a:\n    x()\nif b:\n        x()\n"
    assert mend(OldText("\tx()"), "y()", text) == Mended(OldText("\tx()"), "y()")
    refused = mend(OldText("        for value in values:\n            result += value"), "x", TEXT)
    assert isinstance(refused, Refusal)
    assert "indent" in refused.message


def test_trailing_space_does_not_matter():
    text = "a  \nb\t\nc\n"
    assert after(OldText("a\nb"), "x", text) == "x\nc\n"
    assert after(OldText("c   "), "x", text) == "a  \nb\t\nx\n"


def test_a_whole_line_wins_over_pieces_of_others():
    assert after(OldText("x = 1"), "x = 2", "max = 1\nx = 1\nx = 10\n") == "max = 1\nx = 2\nx = 10\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    result = 0\n", "    result = 1", ("result = 0", "result = 1")),
        ("    result = 0", "    result = 1\n", ("result = 0", "result = 1")),
        ("result = 0", "    result = 1", ("result = 0", "result = 1")),
        ("    result = 0", "", ("    result = 0\n", "")),
        ("result = 0", "", ("    result = 0\n", "")),
        ("    return result\n", "    return -result", ("return result", "return -result")),
        ("result = 0", "result = 1\n    count = 0", ("result = 0", "result = 1\n    count = 0")),
        ("for value", "    for number", ("for value", "for number")),
        ("value in", "number in", ("value in", "number in")),
        ("  result = 0", "  result = 1", ("result = 0", "result = 1")),
        ("    result = 0", "        result = 0", ("    result = 0", "        result = 0")),
    ],
)
def test_whole_lines_are_whole_lines(old, new, expected):
    assert after(OldText(old), new) == changed(*expected)


def test_every_occurrence_of_a_word_leaves_longer_words():
    text = "max = 1\nmaximum = max\n# max_len\nprint(max)\n"
    assert after(OldText("max"), "top", text, every=True) == "top = 1\nmaximum = top\n# max_len\nprint(top)\n"
    assert mend(OldText("max"), "top", text, every=True).notes[0] == "3 places changed."
    assert isinstance(mend(OldText("maxi"), "x", text, every=True), Refusal)


@pytest.mark.parametrize(("old", "new"), [("a\n", "b\n"), ("a\n", ""), (" = ", " == "), ("x", "y\nz")])
def test_every_occurrence_is_what_replace_does(old, new):
    text = "a\nx = a\nq\na\n"
    assert after(OldText(old), new, text, every=True) == text.replace(old, new)


lines = st.text("ab \t1", max_size=6)


@given(st.lists(lines, min_size=1, max_size=8), st.data())
def test_a_piece_of_a_line_that_stands_there_once_is_replaced_and_nothing_else(rows, data):
    text = "\n".join(rows)
    start = data.draw(st.integers(0, len(text)))
    old = text[start : data.draw(st.integers(start, len(text)))]
    new = data.draw(st.text("xyz", max_size=8))
    mended = mend(OldText(old), new, text)
    if old and text.count(old) == 1:
        assert isinstance(mended, Mended)
    if old.strip() and text.count(old) == 1 and "\n" not in old:
        whole = next(row for row in rows if old in row)
        exact = text.replace(old, new)
        assert after(OldText(old), new, text) in (
            exact,
            exact if new else "\n".join(row for row in rows if row is not whole),
        )


@given(st.lists(lines, min_size=1, max_size=8), lines, lines)
def test_mending_never_fails(rows, old, new):
    for every in (False, True):
        assert isinstance(mend(OldText(old), new, "\n".join(rows), every=every), Mended | Refusal)


JSON = '{\n    "name": "x",\n    "level": "info",\n    "rotate": {"megabytes": 10, "keep": 5}\n}\n'


def test_a_block_that_was_laid_out_anew_is_matched_by_the_lines_that_change() -> None:
    old = '{\n  "name": "x",\n  "level": "info",\n  "rotate": {\n    "megabytes": 10,\n    "keep": 5\n  }\n}'
    assert after(OldText(old), old.replace("info", "debug"), JSON) == JSON.replace("info", "debug")
    grown = old.replace('"level": "info",', '"level": "info",\n  "more": 1,')
    assert after(OldText(old), grown, JSON) == JSON.replace('"info",', '"info",\n    "more": 1,')


def test_a_block_that_says_something_else_is_not_matched() -> None:
    old = '{\n  "name": "y",\n  "level": "info",\n  "rotate": {\n    "megabytes": 10,\n    "keep": 5\n  }\n}'
    assert mend(OldText(old), old.replace("info", "debug"), JSON) == Mended(OldText(old), old.replace("info", "debug"))
