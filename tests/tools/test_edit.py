import asyncio

import pytest
from pydantic import ValidationError

from ds4_lsp.edits.guard import Lines, Whole
from ds4_lsp.edits.text import Encoding, encode, file_tag
from ds4_lsp.edits.views import FileViews
from ds4_lsp.ports import Applied
from ds4_lsp.protocol.errors import Ambiguous, Denied, InvalidRequest, NotApplied, NotFound, StaleFileTag
from ds4_lsp.tools.applying import EditRequest, apply_guarded
from ds4_lsp.tools.edit import NEXT, EditArguments

TEXT = "".join(f"line {number}\n" for number in range(1, 41))


async def test_each_kind_of_target_edits_what_it_names(room):
    path = room.write("a", "1\n2\n3\n4\n")
    for arguments, after in [
        ({"line": 2, "new": "two"}, "1\ntwo\n3\n4\n"),
        ({"range": "3-4", "new": "x"}, "1\ntwo\nx\n"),
        ({"start_line": 1, "end_line": 0, "new": "zero\n"}, "zero\n1\ntwo\nx\n"),
        ({"old": "two\nx", "new": "y"}, "zero\n1\ny\n"),
        ({"range": "2", "new": ""}, "zero\ny\n"),
        ({"range": "all", "new": "new\ntext"}, "new\ntext\n"),
    ]:
        result = await room.run("edit", path="a", file_tag=await room.tag("a"), **arguments)
        assert path.read_text() == after
        assert f"file_tag={file_tag(after)}" in result.text


async def test_the_result_shows_the_new_tag_the_shift_and_the_text_around(room):
    room.write("a", TEXT)
    result = await room.run("edit", path="a", file_tag=await room.tag("a"), line=20, new="x\ny\nz")
    rows = result.text.splitlines()
    after = TEXT.replace("line 20\n", "x\ny\nz\n")
    assert rows[:3] == [
        "Edited a: line 20 became lines 20-22.",
        "Lines below moved by +2: their old numbers are stale.",
        f"a: file_tag={file_tag(after)} lines 15-30 of 42",
    ]
    assert rows[-1] == NEXT
    assert rows[3:-1] == [f"{number} {text}" for number, text in enumerate(after.splitlines(), 1) if 15 <= number <= 30]
    assert result.shown[0].ranges == ((15, 30),)
    assert room.edits[0].edit.after == after
    assert (room.edits[0].start_line, room.edits[0].end_line, room.edits[0].saved) == (20, 22, True)


async def test_a_long_edit_is_shown_by_its_head_and_tail(room):
    room.write("a", TEXT)
    new = "\n".join(f"new {number}" for number in range(100))
    result = await room.run("edit", path="a", file_tag=await room.tag("a"), line=20, new=new)
    assert result.shown[0].ranges == ((15, 37), (102, 127))
    assert "… [lines 38-101 not shown]" in result.text


async def test_after_an_edit_the_new_tag_works_at_once_and_old_numbers_below_are_refused(room):
    path = room.write("a", TEXT)
    await room.run("edit", path="a", file_tag=await room.tag("a"), line=5, new="five\nfive and a half")
    tag = room.edits[-1].edit.after_tag
    with pytest.raises(StaleFileTag, match="line 35 was not shown"):
        await room.run("edit", path="a", file_tag=tag, line=35, new="x")
    await room.run("edit", path="a", file_tag=tag, line=7, new="six")
    assert path.read_text() == TEXT.replace("line 5\n", "five\nfive and a half\n").replace("line 6\n", "six\n")
    # Its text is still known, so that it can be named by what it says.
    tag = room.edits[-1].edit.after_tag
    await room.run("edit", path="a", file_tag=tag, old="line 35", new="x")
    assert "x\nline 36" in path.read_text()


async def test_an_edit_of_lines_that_the_user_moved_is_rebased_and_says_so(room):
    path = room.write("a", TEXT)
    tag = await room.tag("a")
    room.editor.open(path)
    room.editor.type(path, "typed\n" + TEXT)
    result = await room.run("edit", path="a", file_tag=tag, line=20, new="x")
    assert room.editor.buffers[path].text == "typed\n" + TEXT.replace("line 20\n", "x\n")
    assert "your lines now were line 21" in result.text
    assert result.data["rebased"]
    assert result.data["startLine"] == 21


async def test_a_refused_edit_changes_nothing_and_the_named_recovery_works(room):
    path = room.write("a", TEXT)
    tag = await room.tag("a")
    changed = TEXT.replace("line 20\n", "line twenty\n")
    path.write_text(changed)
    with pytest.raises(StaleFileTag) as refused:
        await room.run("edit", path="a", file_tag=tag, line=20, new="x")
    assert f"Expected file_tag={tag}, current file_tag={file_tag(changed)}" in refused.value.message
    assert 'read path="a" start_line=15 max_lines=14' in refused.value.message
    assert path.read_text() == changed
    assert room.editor.edits == []
    result = await room.run("read", path="a", start_line=15, max_lines=14)
    await room.run("edit", path="a", file_tag=result.shown[0].file_tag, line=20, new="x")
    assert path.read_text() == TEXT.replace("line 20\n", "x\n")


async def test_strict_refuses_every_changed_text(room):
    path = room.write("a", TEXT)
    tag = await room.tag("a")
    path.write_text("typed\n" + TEXT)
    room.settings["edits"] = {"guard": "strict"}
    with pytest.raises(StaleFileTag, match="has changed since"):
        await room.run("edit", path="a", file_tag=tag, line=20, new="x")


async def test_the_other_refusals_name_their_cause(room):
    path = room.write("a", "x\nx\n")
    await room.run("read", path="a", max_lines=1)
    tag = file_tag("x\nx\n")
    with pytest.raises(StaleFileTag, match="line 2 was not shown"):
        await room.run("edit", path="a", file_tag=tag, line=2, new="y")
    with pytest.raises(Ambiguous, match="more than once"):
        await room.run("edit", path="a", file_tag=tag, old="x", new="y")
    with pytest.raises(StaleFileTag, match="does not occur"):
        await room.run("edit", path="a", file_tag=tag, old="z", new="y")
    with pytest.raises(StaleFileTag, match="no text with that file_tag"):
        await room.run("edit", path="a", file_tag="12345678", line=1, new="y")
    with pytest.raises(InvalidRequest, match='range="first"'):
        await room.run("edit", path="a", file_tag=tag, range="first", new="y")
    with pytest.raises(NotFound, match="none does not exist"):
        await room.run("edit", path="none", file_tag=tag, line=1, new="y")
    path.unlink()
    with pytest.raises(StaleFileTag, match="a was deleted"):
        await room.run("edit", path="a", file_tag=tag, line=1, new="y")


@pytest.mark.parametrize(
    "arguments", [{}, {"line": 1, "old": "x"}, {"start_line": 1}, {"end_line": 1}, {"range": "all", "line": 1}]
)
def test_exactly_one_target_must_be_named(arguments):
    with pytest.raises(ValidationError, match=r"exactly one target|go together"):
        EditArguments(path="a", file_tag="t", new="x", **arguments)


async def test_encoding_mark_and_endings_are_kept(room):
    encoding = Encoding("utf-16-be", True)
    path = room.write("a", "1\r\né\r\n3", encoding)
    await room.run("edit", path="a", file_tag=await room.tag("a"), range="2-3", new="😀\nx\n")
    assert path.read_bytes() == encode("1\r\n😀\r\nx", encoding)


async def test_an_open_document_that_the_client_does_not_save_is_reported_as_unsaved(room):
    path = room.write("a", "1\n2\n")
    room.editor.open(path)
    room.editor.saves_open_documents = False
    result = await room.run("edit", path="a", file_tag=await room.tag("a"), line=1, new="x")
    assert "not saved" in result.text
    assert path.read_text() == "1\n2\n"
    assert "1 x" in (await room.run("read", path="a")).text


async def test_what_the_editor_did_not_do_is_a_failed_edit(room):
    path = room.write("a", "1\n2\n")
    tag = await room.tag("a")
    room.editor.on_apply = lambda _edit: Applied(False, "the editor did not answer")
    with pytest.raises(NotApplied, match="did not answer"):
        await room.run("edit", path="a", file_tag=tag, line=1, new="x")
    room.editor.on_apply = lambda _edit: Applied(True)
    with pytest.raises(NotApplied, match="although the editor said so"):
        await room.run("edit", path="a", file_tag=tag, line=1, new="x")
    room.editor.on_apply = lambda _edit: Applied(False, None, rejected=True)
    with pytest.raises(Denied, match="rejected this edit"):
        await room.run("edit", path="a", file_tag=tag, line=1, new="x")
    assert path.read_text() == "1\n2\n"
    assert room.edits == []


async def test_a_formatter_that_runs_on_save_is_noticed(room):
    path = room.write("a", "1\n2\n")
    room.editor.open(path)
    tag = await room.tag("a")

    def formatting(edit):
        room.editor.type(edit.path, edit.after.replace("x", "X"))
        return Applied(True)

    room.editor.on_apply = formatting
    result = await room.run("edit", path="a", file_tag=tag, line=1, new="x")
    formatted = file_tag("X\n2\n")
    assert f"has changed again since (by the user, or a formatter on save), to file_tag={formatted}" in result.text


async def test_an_edit_that_changes_nothing_is_no_edit(room):
    room.write("a", "1\n2\n")
    result = await room.run("edit", path="a", file_tag=await room.tag("a"), line=1, new="1")
    assert "reads so already" in result.text
    assert room.editor.edits == []
    assert room.edits == []


async def test_the_second_edit_of_a_round_is_resolved_against_what_the_first_one_left(room):
    path = room.write("a", TEXT)
    tag = await room.tag("a")
    await asyncio.gather(
        room.run("edit", path="a", file_tag=tag, line=3, new="three\nand a half"),
        room.run("edit", path="a", file_tag=tag, line=30, new="thirty"),
    )
    assert path.read_text() == TEXT.replace("line 3\n", "three\nand a half\n").replace("line 30\n", "thirty\n")


async def test_permission_is_asked_before_a_change_and_denial_changes_nothing(room):
    path = room.write("a", "1\n")
    tag = await room.tag("a")
    room.settings["permissions"] = {"write": "ask"}
    room.editor.answer = "deny"
    with pytest.raises(Denied):
        await room.run("edit", path="a", file_tag=tag, line=1, new="x")
    assert path.read_text() == "1\n"
    room.editor.answer = "session"
    await room.run("edit", path="a", file_tag=tag, line=1, new="x")
    await room.run("edit", path="a", file_tag=file_tag("x\n"), line=1, new="y")
    assert path.read_text() == "y\n"
    assert len(room.editor.questions) == 2


async def test_a_client_edits_with_a_tag_alone_and_shows_the_model_nothing(room):
    path = room.write("a", "1\n2\n")
    views = FileViews()
    request = EditRequest(path, Lines(2, 2), "x", file_tag("1\n2\n"), "client", require_shown=False)
    done = await apply_guarded(room.files, request, room.call, views=views)
    assert path.read_text() == "1\nx\n"
    assert not room.files.views.any(path.as_uri())
    # What it made is known to it: its next edit can be rebased.
    path.write_text("typed\n1\nx\n")
    request = EditRequest(path, Lines(2, 2), "y", done.edit.after_tag, "client", require_shown=False)
    assert (await apply_guarded(room.files, request, room.call, views=views)).rebased
    assert path.read_text() == "typed\n1\ny\n"


async def test_undo_restores_the_text_to_the_byte_or_refuses(room):
    before = "a\r\nb\nc"
    path = room.write("a", before)
    await room.run("edit", path="a", file_tag=await room.tag("a"), line=2, new="x\ny")
    edit = room.edits[0].edit
    request = EditRequest(path, Whole("exact"), edit.before, edit.after_tag, "undo", require_shown=False)
    await apply_guarded(room.files, request, room.call)
    assert path.read_bytes() == before.encode()
    with pytest.raises(StaleFileTag):
        await apply_guarded(room.files, request, room.call)


async def test_two_sessions_in_one_file_wait_for_each_other(rooms, root):
    one, two = rooms(root), rooms(root)
    path = one.write("a", TEXT)
    tags = [await room.tag("a") for room in (one, two)]
    await asyncio.gather(
        one.run("edit", path="a", file_tag=tags[0], line=3, new="three"),
        two.run("edit", path="a", file_tag=tags[1], line=30, new="thirty"),
    )
    assert path.read_text() == TEXT.replace("line 3\n", "three\n").replace("line 30\n", "thirty\n")
