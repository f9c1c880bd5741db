"""What an edit broke is told with its result."""

import pytest

GOOD = {
    "a.py": "def f(x):\n    return x\n",
    "a.json": '{"a": 1}\n',
    "a.toml": "a = 1\n",
    "a.yaml": "a:\n  - 1\n",
}
BROKEN = {
    "a.py": ("return x", "return (x", "line 2: '(' was never closed (Python 3."),
    "a.json": ("1", "1,", "line 1: "),
    "a.toml": ("1", "", "(TOML)"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_file_is_told_of_and_a_sound_one_is_not(room, name):
    path = room.write(name, GOOD[name])
    old, new, said = BROKEN[name]
    await room.run("read", path=name)
    done = await room.run("edit", path=name, old=old, new=new)
    assert done.ok
    assert path.read_text() == GOOD[name].replace(old, new)
    assert "Broken by this edit: " in done.text
    assert said in done.text
    assert done.data["problems"][0] in done.text
    mended = await room.run("write", path=name, content=GOOD[name])
    assert "Broken" not in mended.text


async def test_what_was_broken_before_is_not_told_of(room):
    room.write("a.py", "print 'old'\nx = 1\n")
    await room.run("read", path="a.py")
    assert "Broken" not in (await room.run("edit", path="a.py", old="x = 1", new="x = (")).text


async def test_a_new_file_is_checked_too(room):
    assert "Broken by this edit: line 1: " in (await room.run("write", path="new.json", content="{")).text
    assert "Broken" not in (await room.run("write", path="new.txt", content="{")).text


async def test_nothing_of_the_file_or_of_its_folder_runs(room, monkeypatch):
    room.write("json.py", "open('ran', 'w')\n")
    monkeypatch.chdir(room.root)
    await room.run("write", path="a.py", content="open('ran', 'w')\nimport json\n")
    assert not (room.root / "ran").exists()


@pytest.mark.parametrize("text", ["(" * 5000, "-" * 200_000 + "1", "[" * 100_000])
async def test_a_text_that_no_parser_survives_is_written_all_the_same(room, text):
    path = room.write("a.py", "x = 1\n")
    await room.run("read", path="a.py")
    assert (await room.run("edit", path="a.py", old="1", new=text)).ok
    assert path.read_text() == f"x = {text}\n"
