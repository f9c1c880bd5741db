import pytest

from ds4_lsp.protocol.errors import NotFound


async def test_without_anything_before_there_is_nothing_to_show(room):
    with pytest.raises(NotFound, match="Nothing is left"):
        await room.run("more")


async def test_a_complete_read_ends_what_an_earlier_one_left(room):
    room.write("long", "1\n2\n3\n")
    room.write("short", "1\n")
    await room.run("read", path="long", max_lines=1)
    await room.run("read", path="short")
    with pytest.raises(NotFound, match="Nothing is left"):
        await room.run("more")


async def test_an_edit_in_between_leaves_the_place_as_it_was(room):
    room.write("long", "1\n2\n3\n")
    other = room.write("other", "x\n")
    await room.run("edit", path="other", file_tag=await room.tag("other"), line=1, new="y")
    await room.run("read", path="long", max_lines=1)
    await room.run("edit", path="other", file_tag=room.edits[-1].edit.after_tag, line=1, new="z")
    assert other.read_text() == "z\n"
    assert (await room.run("more", count=1)).text.splitlines()[1] == "2 2"
    assert (await room.run("more", count=1)).text.splitlines()[1] == "3 3"
