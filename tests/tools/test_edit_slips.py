"""What models slip at, through the tool box as the agent uses it."""

import pytest

from ds4_lsp.edits.text import file_tag
from ds4_lsp.tools.dispatch import Toolbox
from ds4_lsp.tools.edit import Edit
from ds4_lsp.tools.read import Read
from ds4_lsp.tools.write import Write

TEXT = "a = 1\nb = 2\nc = 3\n"
LONG = "".join(f"line {number}\n" for number in range(1, 201))


@pytest.fixture
def call(room):
    box = Toolbox(
        [
            Read(room.files),
            Write(room.files, room.gate, room.edits.append),
            Edit(room.files, room.gate, room.edits.append),
        ]
    )

    async def run(name, **arguments):
        return await box.run(name, arguments, room.call)

    return run


async def test_without_a_tag_the_text_that_was_shown_last_is_meant(room, call):
    path = room.write("a.py", TEXT)
    await call("read", path="a.py")
    assert (await call("edit", path="a.py", old="b = 2", new="b = 20")).ok
    assert (await call("edit", path="a.py", old="c = 3", new="c = 30")).ok
    assert path.read_text() == "a = 1\nb = 20\nc = 30\n"


async def test_without_a_tag_the_guard_is_as_strict_as_with_one(room, call):
    path = room.write("a.py", LONG)
    await call("read", path="a.py", max_lines=10)
    refused = await call("edit", path="a.py", old="line 100\n", new="x")
    assert not refused.ok
    assert refused.data["code"] == "staleFileTag"
    assert path.read_text() == LONG
    path.write_text(LONG.replace("line 9\n", "line nine\n"))
    assert not (await call("edit", path="a.py", old="line 9\n", new="x")).ok
    await call("read", path="a.py")
    path.write_text("typed\n" + LONG)
    room.settings["edits"] = {"guard": "strict"}
    assert not (await call("edit", path="a.py", old="line 20\n", new="x")).ok
    assert path.read_text() == "typed\n" + LONG


async def test_a_named_tag_is_as_strict_as_ever(room, call):
    path = room.write("a.py", TEXT)
    await call("read", path="a.py")
    refused = await call("edit", path="a.py", file_tag="12345678", old="b = 2", new="x")
    assert not refused.ok
    assert path.read_text() == TEXT


async def test_a_refusal_shows_the_lines_and_the_next_call_is_right(room, call):
    path = room.write("a.py", TEXT)
    refused = await call("edit", path="a.py", old="b = 2", new="b = 20")
    assert refused.text == (
        "a.py was not changed: none of it was shown in this session. It reads:\n"
        f"a.py: file_tag={file_tag(TEXT)} lines 1-3 of 3\n1 a = 1\n2 b = 2\n3 c = 3"
    )
    assert refused.shown[0].ranges == ((1, 3),)
    assert (await call("edit", path="a.py", old="b = 2", new="b = 20")).ok
    assert path.read_text() == "a = 1\nb = 20\nc = 3\n"


async def test_a_refusal_shows_of_a_long_file_the_lines_that_were_meant(room, call):
    room.write("a.py", LONG.replace("line 100\n", "the total of it\n"))
    await call("read", path="a.py", max_lines=10)
    unseen = await call("edit", path="a.py", old="line 150", new="x")
    assert unseen.shown[0].ranges == ((145, 158),)
    alike = await call("edit", path="a.py", old="the total of them", new="x")
    assert "100 the total of it" in alike.text
    double = await call("edit", path="a.py", old="ine 3", new="x")
    assert "occurs more than once" in double.text
    assert "3 line 3" in double.text


async def test_the_number_of_the_view_is_not_written_into_the_file(room, call):
    path = room.write("a.py", TEXT)
    await call("read", path="a.py")
    done = await call("edit", path="a.py", line=2, new="2 b = 20")
    assert "line numbers of the view were taken off" in done.text
    assert path.read_text() == "a = 1\nb = 20\nc = 3\n"
    assert (await call("edit", path="a.py", old="3 c = 3", new="3 c = 30")).ok
    assert path.read_text() == "a = 1\nb = 20\nc = 30\n"


async def test_a_file_that_was_shown_can_be_written_without_its_tag_and_without_the_views_numbers(room, call):
    path = room.write("a.py", TEXT)
    refused = await call("write", path="a.py", content="a = 7\n")
    assert not refused.ok
    assert "2 b = 2" in refused.text
    assert (await call("write", path="a.py", content="1 a = 7\n2 b = 8\n")).ok
    assert path.read_text() == "a = 7\nb = 8\n"
    path.write_text("typed\n")
    assert not (await call("write", path="a.py", content="x\n")).ok
    assert path.read_text() == "typed\n"


async def test_all_occurrences_at_once(room, call):
    path = room.write("a.py", "max = 1\r\nprint(max)\r\nmaximum = max\r\n")
    await call("read", path="a.py")
    done = await call("edit", path="a.py", old="max", new="top", all=True)
    assert path.read_bytes() == b"top = 1\r\nprint(top)\r\nmaximum = top\r\n"
    assert "3 places changed." in done.text
    assert "1 more were left" in done.text


async def test_rarely_needed_parameters_are_taken_but_not_taught(room):
    spec = Edit(room.files, room.gate, room.edits.append).spec()
    assert {"file_tag", "line", "range"} <= {parameter.name for parameter in spec.parameters}
    taught = spec.taught()
    assert [(p.name, p.required) for p in taught.parameters] == [
        ("path", True),
        ("old", True),
        ("new", True),
        ("all", False),
    ]
    assert taught.one_of == ()


async def test_where_a_replaced_name_still_stands_is_told(room, call):
    room.write("a.py", "def calc(a):\n    return a\n\n\nprint(calc(1), calculus)\nprint(calc(2))\n")
    await call("read", path="a.py")
    done = await call("edit", path="a.py", old="def calc(a):", new="def area(a):")
    assert "[calc still stands in lines 5, 6." in done.text
    assert "still stands" not in (await call("edit", path="a.py", old="calc", new="area", all=True)).text


async def test_the_same_text_as_old_and_new_is_no_edit(room, call):
    room.write("a.py", TEXT)
    await call("read", path="a.py")
    refused = await call("edit", path="a.py", old="b = 2", new="b = 2")
    assert not refused.ok
    assert "are the same" in refused.text
