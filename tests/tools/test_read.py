import os

import pytest

from ds4_lsp.edits.pages import LONG_LINE
from ds4_lsp.edits.text import Encoding, file_tag
from ds4_lsp.protocol.errors import InvalidRequest, NotFound


async def test_lines_are_numbered_under_a_header_with_the_tag(room):
    room.write("src/a.py", "one\n\nthree\n")
    result = await room.run("read", path="src/a.py")
    tag = file_tag("one\n\nthree\n")
    assert result.text == f"src/a.py: file_tag={tag} lines 1-3 of 3\n1 one\n2 \n3 three"
    assert result.shown[0].ranges == ((1, 3),)


async def test_five_hundred_lines_are_shown_and_more_goes_on(room):
    text = "".join(f"l{number}\n" for number in range(1, 1201))
    room.write("a", text)
    first = await room.run("read", path="a")
    assert first.text.splitlines()[0].endswith("lines 1-500 of 1200")
    assert first.text.splitlines()[-1].startswith("continue_offset=501")
    second = await room.run("more", count=600)
    assert second.text.splitlines()[1] == "501 l501"
    third = await room.run("more")
    assert third.text.splitlines()[-1] == "1200 l1200"
    assert room.files.views.seen(first.shown[0].uri, file_tag(text)).numbered == ((1, 1200),)
    with pytest.raises(NotFound, match="Nothing is left"):
        await room.run("more")


async def test_more_says_when_the_file_has_changed_meanwhile(room):
    room.write("a", "1\n2\n3\n")
    await room.run("read", path="a", max_lines=2)
    room.write("a", "0\n1\n2\n3\n")
    result = await room.run("more")
    assert "has changed" in result.text
    assert file_tag("0\n1\n2\n3\n") in result.text


async def test_start_line_and_max_lines_choose_a_window(room):
    room.write("a", "1\n2\n3\n4\n5\n")
    result = await room.run("read", path="a", start_line=2, max_lines=2)
    assert result.text.splitlines()[1:3] == ["2 2", "3 3"]
    assert result.shown[0].ranges == ((2, 3),)
    with pytest.raises(InvalidRequest, match="has 5 lines"):
        await room.run("read", path="a", start_line=6)


async def test_the_live_buffer_of_an_open_document_is_read_not_the_disk(room):
    path = room.write("a", "disk\n")
    room.editor.open(path)
    room.editor.type(path, "typed\n")
    result = await room.run("read", path="a")
    assert "1 typed" in result.text
    assert result.shown[0].file_tag == file_tag("typed\n")


async def test_lines_end_at_lf_crlf_and_cr_only(room):
    room.write("a", "a\x0cb\r\nc\u2028d\re\n")
    result = await room.run("read", path="a")
    assert result.text.split("\n")[1:] == ["1 a\x0cb", "2 c\u2028d", "3 e"]


async def test_utf16_and_marks_are_read_as_text(room):
    room.write("a", "né\n", Encoding("utf-16-le", True))
    room.write("b", "né\n", Encoding("utf-8", True))
    for name in ("a", "b"):
        result = await room.run("read", path=name)
        assert f"file_tag={file_tag('né' + chr(10))}" in result.text
        assert result.text.endswith("1 né")


async def test_a_cut_line_does_not_count_as_shown_until_it_is_read_raw(room):
    text = "x\n" + "y" * (LONG_LINE + 50) + "\nz\n"
    room.write("a", text)
    result = await room.run("read", path="a")
    assert "[cut: 50 more characters; read with raw=true shows them]" in result.text
    assert result.shown[0].ranges == ((1, 1), (3, 3))
    raw = await room.run("read", path="a", start_line=2, max_lines=1, raw=True)
    assert "y" * (LONG_LINE + 50) in raw.text
    assert raw.shown[0].ranges == ((2, 2),)


async def test_whole_shows_everything_and_raw_has_no_numbers(room):
    room.write("a", "".join(f"{number}\n" for number in range(700)))
    result = await room.run("read", path="a", whole=True, raw=True, start_line=600)
    assert result.text.splitlines()[1:] == [str(number) for number in range(700)]


async def test_an_empty_file_has_no_lines(room):
    room.write("a", "")
    result = await room.run("read", path="a")
    assert result.text == "a: file_tag=00000000 lines 0-0 of 0"


async def test_what_is_no_text_is_refused_with_the_reason(room):
    (room.root / "bin").write_bytes(b"\x7fELF\0\0")
    (room.root / "latin").write_bytes(b"caf\xe9")
    os.mkfifo(room.root / "pipe")
    with (room.root / "big").open("wb") as file:
        file.truncate(50_000_000)
    (room.root / "dir").mkdir()
    for name, reason in {
        "bin": "binary",
        "latin": "not valid UTF-8",
        "pipe": "is a pipe",
        "big": "too large",
        "dir": "is a directory: use `list`",
    }.items():
        with pytest.raises(InvalidRequest, match=reason):
            await room.run("read", path=name)
    with pytest.raises(NotFound, match="none does not exist"):
        await room.run("read", path="none")
