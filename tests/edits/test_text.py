import re
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.edits.text import UTF8, Encoding, LineIndex, Text, content, decode, encode, ending, file_tag, lines, unify
from ds4_lsp.protocol.errors import InvalidRequest

quick = settings(deadline=None, max_examples=80)
any_text = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\r\n\x0c\u2028😀"), max_size=60)


def test_tags_are_those_of_the_vectors(vectors):
    assert [file_tag(case["text"]) for case in vectors["tags"]] == [case["fileTag"] for case in vectors["tags"]]


def test_lines_are_those_of_the_vectors(vectors):
    assert [lines(case["text"]) for case in vectors["lines"]] == [case["lines"] for case in vectors["lines"]]


@quick
@given(any_text)
def test_lines_end_at_lf_crlf_and_cr_only_and_join_to_the_text(text):
    found = lines(text)
    assert found == re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)
    assert "".join(found) == text
    assert all(content(line) + ending(line) == line for line in found)


@quick
@given(any_text)
def test_the_tag_of_a_utf8_file_is_the_crc_of_its_bytes(text):
    assert file_tag(text) == f"{zlib.crc32(text.encode()):08x}"


def test_a_lone_surrogate_in_a_buffer_has_a_tag_but_no_bytes():
    assert re.fullmatch("[0-9a-f]{8}", file_tag("\ud83d"))
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        encode("\ud83d", UTF8)


@quick
@given(
    any_text.filter(lambda text: "\0" not in text),
    st.sampled_from([Encoding("utf-8", True), Encoding("utf-16-le", True), Encoding("utf-16-be", True)]),
)
def test_bytes_round_trip_in_every_encoding_with_a_mark(text, encoding):
    assert decode(encode(text, encoding)) == Text(text, encoding)


@quick
@given(any_text.filter(lambda text: "\0" not in text and not text.startswith("\ufeff")))
def test_bytes_round_trip_without_a_mark(text):
    assert decode(encode(text, UTF8)) == Text(text, UTF8)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\0\xff\xfe", "binary"),
        (b"text with a \0 in it", "binary"),
        (b"caf\xe9", "not valid UTF-8"),
        (b"\xff\xfe\x00\xd8", "not valid UTF-16-LE"),
        (b"\xff\xfea", "not valid UTF-16-LE"),
        (b"\xff\xfe\0\0a\0\0\0", "UTF-32"),
    ],
)
def test_other_contents_are_refused_with_the_reason(data, reason):
    with pytest.raises(InvalidRequest, match=reason):
        decode(data)


@quick
@given(any_text)
def test_the_index_finds_the_line_of_every_offset(text):
    index = LineIndex(text)
    for offset in range(len(text)):
        line = index.line_at(offset)
        assert index.start(line) <= offset < index.end(line)
    assert index.line_at(len(text)) == max(1, len(index))
    assert index.end(len(index)) == len(text)


@quick
@given(any_text)
def test_unifying_changes_endings_only(text):
    assert list(map(content, lines(unify(text)))) == list(map(content, lines(text)))
    assert "\r" not in unify(text)
