"""File names that no line of text can hold, or that a tool would read as something else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.edits.uris import from_path

ODD = [
    b"not-\xff-utf8",
    b"two\nlines",
    b"file    12 forged\nfile    12 forged too",
    b"carriage\rreturn",
    b"escape\x1b[2J",
    b"c1-\xc2\x9b2J",
    "line\u2028separator".encode(),
    "right\u202eto left".encode(),
    b" before",
    b"after ",
    b"untitled:x",
    b"file:x",
    b"c:x",
]
PLAIN = ["a b", "ü", "日本語", "it's", "100%", "a:b", "-x", "#1", "~"]


def make(folder: Path, name: bytes, text: str = "needle\n") -> Path:
    path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_name_is_listed_on_one_line_as_what_read_takes(room: Any, name: bytes) -> None:
    path = make(room.root, name)
    head, *rows = (await room.run("list")).text.split("\n")
    assert head == ".: 1 entry"
    [row] = rows
    shown = row.removeprefix("file  7 ")
    assert shown == (name.decode() if name == b"c:x" else from_path(path))
    assert row.isprintable()
    assert "needle" in (await room.run("read", path=shown)).text


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_name_is_one_line_of_a_header_as_what_read_takes(room: Any, name: bytes) -> None:
    make(room.root, name)
    for tool, arguments in (("search", {"query": "needle"}), ("read", {"path": from_path(room.root) + "/%s"})):
        quoted = {key: value.replace("%s", quote(name)) for key, value in arguments.items()}
        first, _, rest = (await room.run(tool, **quoted)).text.partition("\n")
        shown, tag, _ = first.partition(": file_tag=")
        assert tag
        assert first.isprintable()
        assert "needle" in rest
        assert "needle" in (await room.run("read", path=shown)).text


def quote(name: bytes) -> str:
    return "".join(f"%{byte:02X}" for byte in name)


async def test_an_odd_folder_is_listed_as_what_list_takes(room: Any) -> None:
    for name in ("~", "two\nlines", " ", "untitled:"):
        folder = room.root / name
        folder.mkdir()
        make(folder, b"inside")
    _, *rows = (await room.run("list")).text.split("\n")
    assert len(rows) == 4
    for row in rows:
        assert row.isprintable()
        listed = (await room.run("list", path=row.removeprefix("dir   - "))).text
        assert listed.count("\n") == 1
        assert "inside" in listed


async def test_a_links_odd_target_stays_on_its_line(room: Any) -> None:
    (room.root / "link").symlink_to("two\nlines\x1b")
    (room.root / "bytes").symlink_to(os.fsdecode(b"\xff"))
    (room.root / "plain").symlink_to("elsewhere")
    _, *rows = (await room.run("list")).text.split("\n")
    assert rows == [
        f"link  - bytes -> {from_path(room.root)}/%FF",
        f"link  - link -> {from_path(room.root)}/two%0Alines%1B",
        "link  - plain -> elsewhere",
    ]


@pytest.mark.parametrize("name", PLAIN)
async def test_an_ordinary_name_is_listed_as_it_is(room: Any, name: str) -> None:
    make(room.root, name.encode())
    assert (await room.run("list")).text.split("\n")[1] == f"file  7 {name}"
    assert "needle" in (await room.run("read", path=name)).text


async def test_an_odd_path_outside_is_asked_for_on_one_line(room: Any) -> None:
    path = make(room.root.parent, b"two\nlines\xff")
    room.settings["permissions"] = {"outsideWorkspace": "ask"}
    await room.run("read", path=from_path(path))
    assert [question.detail for question in room.editor.questions] == [from_path(path)]
