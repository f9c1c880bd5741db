import asyncio

import psutil
import pytest

from ds4_lsp.edits.pages import LONG_LINE
from ds4_lsp.edits.text import Encoding, file_tag
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import Cancelled, InvalidRequest, NotFound
from ds4_lsp.tools.search import Search, SearchArguments
from ds4_lsp.tools.search_rg import run


def found(result):
    """(file, line) of every line shown."""
    pairs, name = [], ""
    for row in result.text.splitlines():
        head, _, rest = row.partition(": file_tag=")
        if rest:
            name = head
        elif row[:1].isdigit():
            pairs.append((name, int(row.split(" ", 1)[0])))
    return pairs


async def test_matches_are_grouped_by_file_with_the_tag_and_count_as_shown(room):
    one, two = "needle\nNeedle\n", "x\nneedle one\ny\n"
    room.write("b.py", two)
    room.write("a.py", one)
    result = await room.run("search", query="needle")
    assert result.text == (
        f"a.py: file_tag={file_tag(one)} 2 matches in 2 lines\n1 needle\n2 Needle\n\n"
        f"b.py: file_tag={file_tag(two)} 1 match in 3 lines\n"
        "2 needle one\n\n[3 matches shown]"
    )
    assert [shown.ranges for shown in result.shown] == [((1, 2),), ((2, 2),)]
    await room.run("edit", path="b.py", file_tag=result.shown[1].file_tag, line=2, new="thread")
    assert (room.root / "b.py").read_text() == "x\nthread\ny\n"


async def test_case_mode_path_and_glob_narrow_the_search(room):
    for name in ("src/a.py", "src/deep/b.ts", "c.tsx", "top.py"):
        room.write(name, "Foo(1)\nfoo(2)\n")
    assert found(await room.run("search", query="Foo(", case_sensitive=True, path="top.py")) == [("top.py", 1)]
    assert found(await room.run("search", query=r"foo\(\d\)$", mode="regex", path="src/deep")) == [
        ("src/deep/b.ts", 1),
        ("src/deep/b.ts", 2),
    ]
    for glob, names in {
        "*.py": ["src/a.py", "top.py"],
        "*.{ts,tsx}": ["c.tsx", "src/deep/b.ts"],
        "src/**": ["src/a.py", "src/deep/b.ts"],
        "!*.py": ["c.tsx", "src/deep/b.ts"],
        "/top.py": ["top.py"],
    }.items():
        result = await room.run("search", query="foo(2)", glob=glob)
        assert [name for name, _line in found(result)] == names, glob


async def test_context_is_shown_once_and_marked_in_the_header(room):
    room.write("a", "".join(f"{number}\n" for number in range(10, 31)))
    result = await room.run("search", query="2", context=1, path="a", mode="literal")
    assert "(lines 3, 11, 12" in result.text
    assert [line for _name, line in found(result)] == [*range(2, 5), *range(10, 22)]


async def test_ignored_files_are_left_out_even_where_the_glob_names_them(room):
    room.write(".gitignore", "secret.py\nbuild/\n!kept.log\n")
    for name in ("secret.py", "build/x.py", "a.py", "sub/secret.py", ".github/ci.py", "kept.log"):
        room.write(name, "needle\n")
    room.write(".git/config.py", "needle\n")
    for glob in (None, "*.py"):
        names = [name for name, _line in found(await room.run("search", query="needle", glob=glob))]
        assert names == [".github/ci.py", "a.py", *(["kept.log"] if glob is None else [])]


async def test_open_documents_are_searched_as_they_are_in_the_editor(room):
    changed = room.write("a.py", "disk\n")
    gone = room.write("b.py", "needle\n")
    hidden = room.write("ignored/c.py", "needle\n")
    room.write(".gitignore", "ignored/\n")
    room.editor.open(changed, "x\rneedle\r\n")
    room.editor.open(gone, "thread\n")
    room.editor.open(hidden)
    room.editor.open(room.root / "unsaved.py", "needle\n")
    result = await room.run("search", query="needle")
    assert found(result) == [("a.py", 2), ("unsaved.py", 1)]
    assert result.shown[0].file_tag == file_tag("x\rneedle\r\n")


async def test_line_numbers_are_ours_where_ripgrep_counts_otherwise(room):
    room.write("cr", "a\rneedle\rb\rneedle 2\r")
    room.write("mixed", "1\r2\r\n3\x0c\u2028needle\n")
    room.write("utf16", "1\r\nnéedle needle\r\n", Encoding("utf-16-le", True))
    room.write("bom", "needle\n", Encoding("utf-8", True))
    result = await room.run("search", query="^.*needle", mode="regex")
    assert found(result) == [("bom", 1), ("cr", 2), ("cr", 4), ("mixed", 3), ("utf16", 2)]


async def test_more_goes_on_after_max_results(room):
    for name in ("a", "b"):
        room.write(name, "needle\n" * 60)
    first = await room.run("search", query="needle")
    assert len(found(first)) == 50
    assert first.text.endswith("[50 matches shown; 70 left: use `more`]")
    rest = await room.run("more", count=20)
    assert found(rest) == [("a", line) for line in range(51, 61)] + [("b", line) for line in range(1, 11)]
    last = await room.run("more")
    assert len(found(last)) == 50
    assert last.text.endswith("[50 matches shown]")
    with pytest.raises(NotFound):
        await room.run("more")


async def test_a_long_line_is_cut_around_the_match_and_does_not_count_as_shown(room):
    room.write("a", "x" * LONG_LINE + "needle" + "y" * LONG_LINE + "\n")
    result = await room.run("search", query="needle")
    assert "needle" in result.text
    assert len(result.text) < 1000
    assert result.shown[0].ranges == ()


async def test_binary_and_foreign_files_do_not_break_a_search(room):
    (room.root / "bin").write_bytes(b"needle\0\xff\n")
    (room.root / "latin").write_bytes(b"needle caf\xe9\n")
    room.write("ok", "needle\n")
    result = await room.run("search", query="needle")
    assert found(result) == [("ok", 1)]
    assert "latin: not shown: latin cannot be used as text" in result.text


async def test_bad_queries_say_why(room):
    room.write("a", "x\n")
    with pytest.raises(InvalidRequest, match="regex parse error"):
        await room.run("search", query="(", mode="regex")
    for query in ("", "a\nb"):
        with pytest.raises(InvalidRequest, match="one line"):
            await room.run("search", query=query)
    with pytest.raises(NotFound):
        await room.run("search", query="x", path="none")
    assert "no matches" in (await room.run("search", query="--files")).text


async def test_every_folder_of_the_workspace_is_searched(rooms, tmp_path):
    one, two = (tmp_path.resolve() / name for name in ("one", "two"))
    for folder in (one, two):
        folder.mkdir()
        (folder / "a").write_text("needle\n")
    assert found(await rooms(one, two).run("search", query="needle")) == [("a", 1), (str(two / "a"), 1)]


async def test_a_cancelled_search_ends_and_leaves_no_process(room):
    for number in range(20):
        room.write(f"{number}", "needle\n" * 200)
    before = set(psutil.Process().children())
    room.cancel.set()
    with pytest.raises(Cancelled):
        await room.run("search", query="needle")
    assert set(psutil.Process().children()) <= before


async def test_a_process_that_does_not_end_is_killed_when_time_is_up_or_the_user_stops_it():
    command, cancel = ["sleep", "600"], Cancel()
    before = set(psutil.Process().children())
    assert await run(command, None, b"", lambda _line: True, cancel=cancel, seconds=0.05) == "timeout"
    asyncio.get_running_loop().call_later(0.05, cancel.set)
    with pytest.raises(Cancelled):
        await run(command, None, b"", lambda _line: True, cancel=cancel, seconds=600)
    assert set(psutil.Process().children()) <= before


async def test_a_flood_of_matches_is_cut(room):
    room.write("a", "needle\n" * 5000)
    tool = Search(room.files)
    result = await tool.run(SearchArguments(query="needle", max_results=500), room.call)
    assert "stopped at 2000" in result.text
    assert "1500 or more left" in result.text
