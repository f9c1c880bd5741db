import os

import pytest

from ds4_lsp.edits.text import file_tag
from ds4_lsp.protocol.errors import Denied, InvalidRequest, NotApplied, OutsideWorkspace


@pytest.fixture
def outside(root):
    path = root.parent / "outside"
    path.mkdir()
    (path / "secret").write_text("x\n")
    return path


async def resolve(room, name):
    return await room.files.workspace.resolve(str(name), room.call)


async def test_relative_absolute_and_uri_spellings_name_the_same_file(room):
    path = room.write("src/a b.py", "")
    for name in ("src/a b.py", "./src/../src/a b.py", path, path.as_uri(), f"FILE://localhost{path}"):
        assert await resolve(room, name) == path


@pytest.mark.parametrize("name", ["../outside/secret", "link", "dir/secret", "dir/new", "src/../../outside/secret"])
async def test_no_spelling_leads_outside(room, outside, name):
    (room.root / "src").mkdir()
    (room.root / "link").symlink_to(outside / "secret")
    (room.root / "dir").symlink_to(outside, target_is_directory=True)
    with pytest.raises(OutsideWorkspace, match="outside the workspace folders"):
        await resolve(room, name)


async def test_absolute_and_encoded_paths_outside_are_refused(room, outside):
    for name in ("/etc/passwd", outside / "secret", f"file://{room.root}/%2E%2E/outside/secret", "~/x"):
        with pytest.raises(OutsideWorkspace):
            await resolve(room, name)


async def test_a_folder_whose_name_begins_like_the_workspace_is_outside(room):
    sibling = room.root.with_name(room.root.name + "-other")
    sibling.mkdir()
    with pytest.raises(OutsideWorkspace):
        await resolve(room, sibling / "x")


async def test_a_symlink_inside_is_followed_to_its_target(room):
    target = room.write("real/a", "1\n")
    (room.root / "link").symlink_to(target)
    await room.run("edit", path="link", file_tag=await room.tag("link"), line=1, new="x")
    assert target.read_text() == "x\n"
    assert (room.root / "link").is_symlink()


async def test_the_setting_decides_about_what_is_outside(room, outside):
    room.settings["permissions"] = {"outsideWorkspace": "ask"}
    assert await resolve(room, outside / "secret") == outside / "secret"
    assert room.editor.questions[0].detail == str(outside / "secret")
    room.editor.answer = "deny"
    with pytest.raises(Denied):
        await resolve(room, outside / "secret")
    room.settings["permissions"] = {"outsideWorkspace": "allow"}
    assert await resolve(room, "../outside/secret") == outside / "secret"
    assert len(room.editor.questions) == 2


async def test_relative_paths_are_tried_in_each_folder_the_current_one_first(rooms, tmp_path):
    one, two = (tmp_path.resolve() / name for name in ("one", "two"))
    one.mkdir()
    two.mkdir()
    room = rooms(one, two)
    (one / "both").write_text("")
    (two / "both").write_text("")
    (two / "only").write_text("")
    assert await resolve(room, "both") == one / "both"
    assert await resolve(room, "only") == two / "only"
    assert await resolve(room, "new") == one / "new"
    room.editor.current_root = two
    assert await resolve(room, "both") == two / "both"
    assert await resolve(room, "new") == two / "new"


async def test_every_displayed_name_leads_back_to_its_file(rooms, tmp_path):
    one, two = (tmp_path.resolve() / name for name in ("one", "two"))
    one.mkdir()
    two.mkdir()
    room = rooms(one, two)
    for path in (one / "a", two / "a", two / "b"):
        path.write_text("")
    workspace = room.files.workspace
    for path in (one / "a", two / "a", two / "b", one / "new", two / "new"):
        assert workspace.locate(workspace.display(path)) == path
    assert workspace.display(one / "a") == "a"
    assert workspace.display(two / "a") == str(two / "a")


async def test_without_a_folder_nothing_is_inside(rooms, tmp_path):
    room = rooms()
    for name in ("a", tmp_path / "a"):
        with pytest.raises(OutsideWorkspace):
            await resolve(room, name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "NUL"),
        ("file:///a%00b", "NUL"),
        ("file://host/a", "another machine"),
        ("a\ud800b", r"a\\ud800b contains half of a surrogate pair"),
        ("file:///\udbff", "half of a surrogate pair"),
        ("untitled:Untitled-1", "no file"),
        ("ds4:/session/1", "no file"),
        ("https://example.org/a", "no file"),
        ("vscode-remote://ssh/a", "no file"),
        ("C:\\a.txt", "of Windows"),
        ("c:/a.txt", "of Windows"),
        (r"\\host\share\a", "of Windows"),
    ],
)
async def test_what_is_no_path_of_this_machine_is_invalid(room, name, reason):
    for tool, arguments in (
        ("read", {}),
        ("edit", {"file_tag": "00000000", "line": 1, "new": ""}),
        ("write", {"content": ""}),
    ):
        with pytest.raises(InvalidRequest, match=reason) as refused:
            await room.run(tool, path=name, **arguments)
        refused.value.message.encode()
    assert list(room.root.iterdir()) == []


async def test_a_colon_or_a_backslash_is_a_character_like_others(room):
    for name in ("a:b", "C:\\a", "x:y/z"):
        room.write(name, "1\n")
        assert "1 1" in (await room.run("read", path=name)).text


async def test_a_file_whose_name_is_not_unicode_is_called_by_its_uri(room):
    path = room.root / os.fsdecode(b"a\xff")
    path.write_text("1\n")
    result = await room.run("read", path=str(path))
    assert result.text.startswith(f"{room.root.as_uri()}/a%FF: file_tag=")
    await room.run("edit", path=f"{room.root.as_uri()}/a%FF", file_tag=file_tag("1\n"), line=1, new="x")
    assert path.read_text() == "x\n"
    with pytest.raises(OutsideWorkspace) as refused:
        await resolve(room, "file:///none/%FF")
    refused.value.message.encode()


async def test_a_name_that_is_too_long_is_refused(room):
    for name in ("x" * 300, "x/" * 3000 + "x"):
        with pytest.raises(InvalidRequest, match="cannot be read"):
            await room.run("read", path=name)
        with pytest.raises(NotApplied):
            await room.run("write", path=name, content="")
    assert list(room.root.iterdir()) == []


async def test_a_loop_of_links_is_an_error_not_a_hang(room):
    (room.root / "a").symlink_to(room.root / "b")
    (room.root / "b").symlink_to(room.root / "a")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        await room.run("read", path="a")
