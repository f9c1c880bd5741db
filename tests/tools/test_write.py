import pytest

from ds4_lsp.edits.text import Encoding, encode, file_tag
from ds4_lsp.protocol.errors import InvalidRequest, NotFound, OutsideWorkspace, StaleFileTag


async def test_a_new_file_is_created_with_its_folders_exactly_as_given(room):
    result = await room.run("write", path="src/deep/a.txt", content="1\r\n2\nno end")
    assert (room.root / "src/deep/a.txt").read_bytes() == b"1\r\n2\nno end"
    assert result.text.startswith("Created src/deep/a.txt with 3 lines.")
    assert room.edits[0].created
    assert (room.edits[0].start_line, room.edits[0].end_line) == (1, 3)


async def test_what_was_just_written_can_be_edited_at_once(room):
    await room.run("write", path="a", content="".join(f"{number}\n" for number in range(100)))
    tag = room.edits[-1].edit.after_tag
    await room.run("edit", path="a", file_tag=tag, line=2, new="one")
    await room.run("edit", path="a", file_tag=room.edits[-1].edit.after_tag, old="\n50\n", new="\nfifty\n")
    assert (room.root / "a").read_text().splitlines()[50] == "fifty"


async def test_an_existing_file_needs_its_current_tag_and_to_have_been_read_in_full(room):
    path = room.write("a", "1\n2\n3\n")
    with pytest.raises(StaleFileTag, match=r'exists already. Read it \(read path="a"\)'):
        await room.run("write", path="a", content="x")
    part = await room.run("read", path="a", max_lines=2)
    with pytest.raises(StaleFileTag, match="lines 1-3 were not all shown"):
        await room.run("write", path="a", content="x", file_tag=part.shown[0].file_tag)
    tag = await room.tag("a")
    path.write_text("typed\n1\n2\n3\n")
    with pytest.raises(StaleFileTag, match="replacing all of it needs the current tag"):
        await room.run("write", path="a", content="x", file_tag=tag)
    await room.run("write", path="a", content="x\n", file_tag=await room.tag("a"))
    assert path.read_text() == "x\n"


async def test_a_replaced_file_keeps_encoding_endings_and_mode(room):
    encoding = Encoding("utf-8", True)
    path = room.write("a", "1\r\n2\r\n", encoding)
    path.chmod(0o750)
    await room.run("write", path="a", content="x\ny\nz\n", file_tag=await room.tag("a"))
    assert path.read_bytes() == encode("x\r\ny\r\nz\r\n", encoding)
    assert path.stat().st_mode & 0o777 == 0o750


async def test_a_file_that_is_not_there_needs_no_tag(room):
    with pytest.raises(NotFound, match="leave file_tag out"):
        await room.run("write", path="a", content="x", file_tag="12345678")
    path = room.write("b", "1\n")
    tag = await room.tag("b")
    path.unlink()
    with pytest.raises(StaleFileTag, match="was deleted"):
        await room.run("write", path="b", content="x", file_tag=tag)
    assert list(room.root.iterdir()) == []


async def test_folders_and_places_outside_are_not_written(room):
    (room.root / "dir").mkdir()
    with pytest.raises(StaleFileTag, match="exists already"):
        await room.run("write", path="dir", content="x")
    with pytest.raises(InvalidRequest, match="is a directory"):
        await room.run("write", path="dir", content="x", file_tag="12345678")
    with pytest.raises(OutsideWorkspace):
        await room.run("write", path="../x", content="x")
    assert not (room.root.parent / "x").exists()


async def test_an_empty_file_can_be_filled(room):
    path = room.write("a", "")
    await room.run("write", path="a", content="x\n", file_tag=await room.tag("a"))
    assert path.read_text() == "x\n"
    assert room.edits[0].edit.before_tag == file_tag("")
