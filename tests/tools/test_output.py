from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.tools import output_file
from ds4_lsp.tools.output import (
    DONE_TAIL_LINES,
    HEAD_BYTES,
    HEAD_LINES,
    RUNNING_TAIL_LINES,
    STREAM_BYTES,
    TAIL_BYTES,
    Stream,
    clean,
    cut_head,
    cut_tail,
    first_look,
    later_look,
)

PATH = "jobs/job-1.txt"

noisy = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.text(max_size=20).map(lambda text: text.encode(errors="replace")),
        st.sampled_from([b"\r", b"\n", b"\r\n", b"\b", b"\x1b[31m", b"\x1b]0;title\x07", b"\x1b[", b"\x1b", b"\xff"]),
    ),
    max_size=20,
).map(b"".join)


def sample(tmp_path: Path, raw: bytes, start: int = 0) -> output_file.Sample:
    path = tmp_path / "output"
    path.write_bytes(raw)
    return output_file.sample(path, start)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain\n", "plain\n"),
        ("grün 😀\n".encode(), "grün 😀\n"),
        (b"bad \xff\xc3 bytes", "bad \ufffd\ufffd bytes"),
        (b"\x1b[1;31mred\x1b[0m and \x1b[38:2::1:2:3mtrue\x1b[m", "red and true"),
        (b"\x1b]0;window title\x07text", "text"),
        (b"\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]unfinished\nnext line", "\nnext line"),
        (b"\x1bPstring\x1b\\after", "after"),
        (b"\x1b(B\x1b=\x1b7\x1b[?25lx\x1b[2K\x1b8", "x"),
        ("\x9b31mred\x9b0m".encode(), "red"),
        (b"cut off \x1b[3", "cut off "),
        (b"dos\r\nlines\r\n", "dos\nlines\n"),
        (b" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        (b" 10%\r 50%\r100%\r\n", "100%\n"),
        (b"\rwaiting\r       \r\ndone", "waiting\ndone"),
        (b"N\bNA\bAM\bME\bE", "NAME"),
        (b"\b\bx\n\b\by", "x\ny"),
        (b"nul\0bell\x07vt\x0bdel\x7f\ttab", "nulbellvtdel\ttab"),
        ("\x85 next line, \u2028 separator".encode(), " next line, \u2028 separator"),
    ],
)
def test_output_reads_as_a_terminal_would_show_it(raw: bytes, text: str) -> None:
    assert clean(raw) == text


@given(noisy)
@settings(deadline=None)
def test_clean_output_is_printable_and_stays_as_it_is(raw: bytes) -> None:
    text = clean(raw)
    assert not [c for c in text if (ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160]
    assert clean(text.encode()) == text
    assert text.count("\n") == len(raw.split(b"\n")) - 1 or b"\x1b" in raw or b"\x9b" in raw


def test_many_backspaces_take_linear_time() -> None:
    assert clean(b"x" * 200_000 + b"\b" * 199_999) == "x"


@given(st.text(alphabet="ab\nü😀", max_size=200), st.integers(1, 5), st.integers(4, 40))
@settings(deadline=None)
def test_cuts_are_ends_of_the_text_within_both_limits(text: str, lines: int, size: int) -> None:
    head, tail = cut_head(text, lines, size), cut_tail(text, lines, size)
    assert text.startswith(head)
    assert text.endswith(tail)
    for cut in (head, tail):
        assert len(cut.encode()) <= size
        assert len(cut.rstrip("\n").split("\n")) <= lines or not cut.strip("\n")
        assert cut or not text


def test_short_output_is_shown_whole_at_the_first_look(tmp_path: Path) -> None:
    raw = b"".join(b"line %d\n" % i for i in range(HEAD_LINES))
    assert first_look(sample(tmp_path, raw), done=True, path=PATH) == raw.decode().rstrip("\n")


@pytest.mark.parametrize("count", [1_000, 100_000])
def test_a_first_look_at_long_output_shows_the_head_and_once_done_the_tail(tmp_path: Path, count: int) -> None:
    raw = b"".join(b"line %d\n" % i for i in range(count))
    running = first_look(sample(tmp_path, raw), done=False, path=PATH).split("\n")
    assert running[:HEAD_LINES] == [f"line {i}" for i in range(HEAD_LINES)]
    assert running[HEAD_LINES:] == [f"[cut: {count:,} lines, {len(raw):,} bytes so far; all of it is in {PATH}]"]
    done = first_look(sample(tmp_path, raw), done=True, path=PATH).split("\n")
    assert done[:HEAD_LINES] == running[:HEAD_LINES]
    assert f"{count:,} lines, {len(raw):,} bytes in all" in done[HEAD_LINES]
    assert done[HEAD_LINES + 1 :] == [f"line {i}" for i in range(count - DONE_TAIL_LINES, count)]


@pytest.mark.parametrize("raw", [b"x" * 300_000, b"10%\r" * 100_000, b"\x1b[31m" * 50_000, "ü".encode() * 150_000])
def test_output_without_lines_stays_within_the_limits(tmp_path: Path, raw: bytes) -> None:
    for done in (True, False):
        assert len(first_look(sample(tmp_path, raw), done=done, path=PATH).encode()) < HEAD_BYTES + TAIL_BYTES + 200
        assert len(later_look(sample(tmp_path, raw), done=done, path=PATH).encode()) < TAIL_BYTES + 200


@pytest.mark.parametrize(("done", "lines"), [(False, RUNNING_TAIL_LINES), (True, DONE_TAIL_LINES)])
def test_a_later_look_shows_the_end_of_what_is_new(tmp_path: Path, done: bool, lines: int) -> None:
    raw = b"".join(b"line %d\n" % i for i in range(100_000))
    start = raw.index(b"line 40000\n")
    text = later_look(sample(tmp_path, raw, start), done=done, path=PATH).split("\n")
    assert f"60,000 lines, {len(raw) - start:,} bytes since the last look" in text[0]
    assert PATH in text[0]
    assert text[1:] == [f"line {i}" for i in range(100_000 - lines, 100_000)]
    assert later_look(sample(tmp_path, raw, len(raw)), done=done, path=PATH) == ""
    assert later_look(sample(tmp_path, raw, len(raw) - 11), done=done, path=PATH) == "line 99999"


@given(raw=noisy, cuts=st.lists(st.integers(0, 400), max_size=5))
@settings(deadline=None)
def test_a_stream_shows_what_the_whole_output_shows(raw: bytes, cuts: list[int]) -> None:
    stream = Stream()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    parts = [stream.feed(raw[a:b]) for a, b in itertools.pairwise(edges)]
    text = "".join(parts) + stream.feed(b"", last=True)
    assert text == "\n".join(clean(line) for line in raw.split(b"\n"))


def test_a_stream_ends_with_a_note_when_it_has_shown_enough() -> None:
    stream = Stream()
    shown = "".join(stream.feed(b"x" * 99 + b"\n") for _ in range(1000))
    assert len(shown) < STREAM_BYTES + 100
    assert shown.endswith("[more output is not shown here]\n")
    assert stream.full


@pytest.mark.parametrize("before", [0, 300_000])
def test_a_code_point_that_is_still_being_written_waits_for_the_next_look(tmp_path: Path, before: int) -> None:
    raw = b"x" * before + "aü€😀".encode()
    (tmp_path / "output").write_bytes(raw)
    for cut in range(len(raw) - 10, len(raw) + 1):
        (tmp_path / "output").write_bytes(raw[:cut])
        seen = output_file.sample(tmp_path / "output", growing=True).size
        assert raw[:seen].decode() == raw[:cut].decode(errors="ignore")
    (tmp_path / "output").write_bytes(b"\xff\xbf\xbf\xbf\xbf")
    assert output_file.sample(tmp_path / "output", growing=True).size == 5


def test_a_file_that_is_gone_reads_as_empty(tmp_path: Path) -> None:
    assert first_look(output_file.sample(tmp_path / "none"), done=True, path=PATH) == ""
    assert output_file.read(tmp_path / "none", 0, 10) == b""
