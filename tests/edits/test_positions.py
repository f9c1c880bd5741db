import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.edits.positions import offset_of, position_of
from ds4_lsp.edits.text import LineIndex

ENCODINGS = ("utf-8", "utf-16", "utf-32")
quick = settings(deadline=None, max_examples=80)
texts = st.text(st.sampled_from("ab\r\né😀\x0c\u2028e\u0301\ufeff"), max_size=30)


@quick
@given(texts, st.sampled_from(ENCODINGS))
def test_every_offset_round_trips_unless_it_is_inside_a_crlf(text, encoding):
    index = LineIndex(text)
    for offset in range(len(text) + 1):
        back = offset_of(index, *position_of(index, offset, encoding), encoding)
        inside = text[max(0, offset - 1) : offset + 1] == "\r\n"
        assert back == offset - inside


@quick
@given(texts, st.integers(0, 40), st.integers(0, 40), st.sampled_from(ENCODINGS))
def test_any_position_is_clamped_into_the_text_and_never_into_a_line_ending(text, line, character, encoding):
    offset = offset_of(text, line, character, encoding)
    assert 0 <= offset <= len(text)
    assert text[max(0, offset - 1) : offset + 1] != "\r\n"
    found = position_of(text, offset, encoding)
    assert found <= (line, character) or line >= len(LineIndex(text))


@pytest.mark.parametrize(
    ("encoding", "characters"), [("utf-8", [0, 1, 3, 7, 8]), ("utf-16", [0, 1, 2, 4, 5]), ("utf-32", [0, 1, 2, 3, 4])]
)
def test_characters_count_in_the_units_of_the_encoding(encoding, characters):
    assert [position_of("aé😀b", offset, encoding)[1] for offset in range(5)] == characters


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 2), ("utf-8", 4), ("utf-16", 2)])
def test_a_character_inside_a_code_point_means_its_start(encoding, character):
    assert offset_of("a😀b", 0, character, encoding) == 1


def test_lone_surrogates_count_as_one_unit_each():
    text = "\ud83dx\ude00"
    assert [offset_of(text, 0, character, "utf-16") for character in range(4)] == [0, 1, 2, 3]


def test_the_end_after_a_final_newline_is_a_line_of_its_own():
    assert position_of("a\n", 2, "utf-16") == (1, 0)
    assert offset_of("a\n", 1, 0, "utf-16") == 2
    assert position_of("", 0, "utf-16") == (0, 0)
    assert offset_of("", 0, 5, "utf-16") == 0
