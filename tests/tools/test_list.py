import pytest

from ds4_lsp.protocol.errors import NotFound, OutsideWorkspace


async def test_entries_have_type_size_and_name(room):
    room.write("b.py", "12345")
    room.write("src/x", "")
    room.write("ü", "x" * 1000)
    (room.root / "link").symlink_to("b.py")
    (room.root / "broken").symlink_to("nowhere")
    assert (await room.run("list")).text.splitlines() == [
        ".: 5 entries",
        "file     5 b.py",
        "link     - broken -> nowhere",
        "link     - link -> b.py",
        "dir      - src/",
        "file  1000 ü",
    ]


async def test_ignored_entries_are_counted_not_shown(room):
    room.write(".gitignore", "*.log\n/build/\n!kept.log\n")
    room.write("sub/.gitignore", "!inner.log\n")
    for name in ("a.log", "kept.log", "build/x", "sub/build/x", "sub/inner.log", "sub/b.log", ".git/config"):
        room.write(name, "")
    assert [row.split()[-1] for row in (await room.run("list")).text.splitlines()[1:]] == [
        ".gitignore",
        "kept.log",
        "sub/",
    ]
    assert "3 entries, 3 more ignored" in (await room.run("list")).text
    assert [row.split()[-1] for row in (await room.run("list", path="sub")).text.splitlines()[1:]] == [
        ".gitignore",
        "build/",
        "inner.log",
    ]


async def test_open_documents_are_listed_with_the_size_of_their_buffer(room):
    path = room.write("a", "12")
    room.editor.open(path, "é23")
    room.editor.open(room.root / "new", "x")
    rows = (await room.run("list")).text.splitlines()
    assert rows[1:] == ["file  4 a (open in the editor)", "file  1 new (open in the editor)"]


async def test_three_hundred_entries_are_shown(room):
    for number in range(310):
        (room.root / f"{number:03}").touch()
    rows = (await room.run("list")).text.splitlines()
    assert rows[0] == ".: 310 entries"
    assert len(rows) == 302
    assert rows[-1].startswith("[10 more")


async def test_a_file_is_listed_alone_and_what_is_not_there_is_an_error(room):
    room.write("a", "123")
    assert (await room.run("list", path="a")).text.splitlines() == ["a: 1 entry", "file  3 a"]
    with pytest.raises(NotFound, match="none does not exist"):
        await room.run("list", path="none")
    with pytest.raises(OutsideWorkspace):
        await room.run("list", path="..")
