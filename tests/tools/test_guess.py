"""Paths that a model guessed."""

import pytest

from ds4_lsp.protocol.errors import NotFound, OutsideWorkspace


async def test_the_only_file_of_that_name_is_taken_and_it_is_said(room):
    path = room.write("lib/greet.js", "let a = 1\n")
    result = await room.run("read", path="src/greet.js")
    assert result.text.splitlines()[0] == "[src/greet.js does not exist; lib/greet.js is the only one of that name]"
    assert "1 let a = 1" in result.text
    done = await room.run("edit", path="src/greet.js", old="a = 1", new="a = 2")
    assert "lib/greet.js is the only one" in done.text
    assert path.read_text() == "let a = 2\n"
    assert "lib/greet.js" in (await room.run("search", path="greet.js", query="let")).text
    assert "greet.js" in (await room.run("list", path="src/lib")).text


async def test_of_several_none_is_taken_and_they_are_named(room):
    room.write("a/config.json", "{}")
    room.write("b/config.json", "{}")
    with pytest.raises(NotFound, match=r"There is a/config\.json and b/config\.json\."):
        await room.run("read", path="config.json")


async def test_the_nearest_names_are_in_the_refusal(room):
    for name in ("src/parser.py", "src/printer.py", "docs/guide.md", "Makefile"):
        room.write(name, "x\n")
    with pytest.raises(NotFound, match=r"src/parsers\.py does not exist\. There is src/parser\.py"):
        await room.run("read", path="src/parsers.py")


async def test_nothing_is_written_by_guess(room):
    path = room.write("lib/greet.js", "let a = 1\n")
    await room.run("write", path="src/greet.js", content="new\n")
    assert path.read_text() == "let a = 1\n"
    assert (room.root / "src/greet.js").read_text() == "new\n"


async def test_what_ignore_files_leave_out_and_what_is_outside_is_not_guessed(room):
    room.write(".gitignore", "build/\n")
    room.write("build/out.js", "x\n")
    (room.root.parent / "secret.txt").write_text("x\n")
    with pytest.raises(NotFound):
        await room.run("read", path="out.js")
    with pytest.raises(NotFound):
        await room.run("read", path="secret.txt")
    with pytest.raises(OutsideWorkspace):
        await room.run("read", path="../secret.txt")
    (room.root / "link.txt").symlink_to(room.root.parent / "secret.txt")
    with pytest.raises(NotFound):
        await room.run("read", path="src/link.txt")


async def test_a_file_that_was_shown_and_is_gone_is_told_of_as_gone(room):
    path = room.write("a.py", "x\n")
    room.write("b/a.py", "x\n")
    await room.run("read", path="a.py")
    path.unlink()
    with pytest.raises(NotFound, match=r"a\.py does not exist"):
        await room.run("read", path="a.py")
