"""Guarded edits as clients use them: ``ds4.readFile``, ``ds4.applyEdit``, ``ds4.undoTurn``, and where files may be."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from editor_model import tag_of
from lsp_client import GUARDED, MARK, PLAIN, Client, ResponseError
from rig import Rig, call, prompt

IDLE = {"model": {"preload": False}}
"""No model is loaded: files need none."""
INVALID_PARAMS = -32602
DOC = Path(__file__).parents[2] / "docs" / "guarded-edits.md"


NO_TEXT = str(INVALID_PARAMS)
"""InvalidParams: an argument with a lone surrogate is no text."""


async def code(client: Client, command: str, arguments: dict[str, Any]) -> str:
    """The code of the refusal, or its LSP error's number and message where it has none."""
    with pytest.raises(ResponseError) as refused:
        await client.run(command, arguments)
    if refused.value.data and "code" in refused.value.data:
        return str(refused.value.data["code"])
    return f"{refused.value.code} {refused.value.message}"


async def test_a_client_reads_and_edits_through_the_guard(rig: Rig) -> None:
    text = "one\r\ntwo 😀\r\n\x0cthree\u2028\rfour"
    path = rig.file("a b~.txt", text)
    client = await rig.start(settings=IDLE)
    read = await client.run("ds4.readFile", {"uri": rig.uri("a b~.txt"), "raw": True})
    assert read == {
        "uri": read["uri"],
        "fileTag": tag_of(text),
        "startLine": 1,
        "endLine": 4,
        "totalLines": 4,
        "text": text,
        "version": None,
        "source": "disk",
    }
    part = await client.run("ds4.readFile", {"uri": rig.uri("a b~.txt"), "startLine": 2, "maxLines": 1})
    assert (part["text"], part["startLine"], part["endLine"]) == ("2 two 😀", 2, 2)

    # From here on it is open, under another spelling of its URI, and the buffer is the truth.
    spelled = rig.uri("a b~.txt").replace("%7E", "~").replace("~", "%7e").replace("/ws/", "/w%73/")
    client.open(spelled, text, version=7)
    client.change(spelled, 0, 0, "zero\n")
    read = await client.run("ds4.readFile", {"uri": rig.uri("a b~.txt")})
    assert (read["uri"], read["version"], read["source"]) == (spelled, 8, "buffer")
    done = await client.run(
        "ds4.applyEdit",
        {"uri": rig.uri("a b~.txt"), "fileTag": tag_of(text), "startLine": 2, "endLine": 2, "newText": "2\n2½"},
    )
    after = "zero\n" + text.replace("two 😀", "2\r\n2½")
    assert client.buffers[spelled][1] == after
    assert path.read_bytes().decode() == after
    assert done == {
        "applied": True,
        "fileTag": tag_of(after),
        "rebased": True,
        "startLine": 3,
        "endLine": 4,
        "saved": True,
    }
    [sent] = client.notifications("ds4/applyGuardedEdit")
    assert sent["guards"] == [{"uri": spelled, "version": 8, "fileTag": tag_of("zero\n" + text)}]

    target = {"uri": spelled, "fileTag": tag_of(after)}
    assert await code(client, "ds4.applyEdit", {**target, "oldText": "none", "newText": ""}) == "staleFileTag"
    assert await code(client, "ds4.applyEdit", {**target, "oldText": "o", "newText": ""}) == "ambiguous"
    assert await code(client, "ds4.applyEdit", {**target, "fileTag": "12345678", "range": "all", "newText": ""}) == (
        "staleFileTag"
    )
    client.handlers["ds4/applyGuardedEdit"] = lambda _params: {"applied": False, "failureReason": "read-only"}
    assert await code(client, "ds4.applyEdit", {**target, "range": "all", "newText": "x"}) == "notApplied"
    assert client.buffers[spelled][1] == after
    for arguments, field in (
        ({"newText": ""}, "exactly one target"),
        ({"newText": "", "startLine": 1}, "go together"),
        ({"newText": "", "startLine": 1, "endLine": 1, "oldText": "x"}, "exactly one target"),
        ({"newText": "", "startLine": 0, "endLine": 1}, "startLine"),
        ({"newText": "", "range": "some"}, "range"),
        ({"range": "all"}, "newText"),
        ({"newText": "", "range": "all", "extra": 1}, "extra"),
        ({"newText": "", "range": "all", "uri": 3}, "uri"),
    ):
        refused = await code(client, "ds4.applyEdit", {**target, **arguments})
        assert refused.startswith(str(INVALID_PARAMS))
        assert field in refused
    assert "maxLines" in await code(client, "ds4.readFile", {"uri": spelled, "maxLines": 0})
    assert await code(client, "ds4.readFile", {"uri": spelled, "startLine": 99}) == "invalid"
    assert client.buffers[spelled][1] == after


async def test_only_text_inside_the_workspace_folders_can_be_read_or_edited(rig: Rig) -> None:
    """Real paths count, however they are spelled."""
    rig.file("in.txt", "in\n")
    rig.file("sub/deep.txt", "deep\n")
    other, outside = rig.root / "other", rig.root / "outside"
    for folder in (other, outside):
        folder.mkdir()
        (folder / "x.txt").write_text("x\n")
    ws = rig.workspace
    (ws / "out").symlink_to(outside, target_is_directory=True)
    (ws / "out.txt").symlink_to(outside / "x.txt")
    (ws / "zero").symlink_to("/dev/zero")
    (ws / "alias.txt").symlink_to("sub/deep.txt")
    (ws / "across.txt").symlink_to(other / "x.txt")
    (ws / "binary").write_bytes(b"a\0b")
    os.mkfifo(ws / "pipe")
    with (ws / "big").open("wb") as big:
        big.truncate(50_000_000)
    client = await rig.start(settings=IDLE)
    client.notify(
        "workspace/didChangeWorkspaceFolders",
        {"event": {"added": [{"uri": other.as_uri() + "/", "name": "other"}], "removed": []}},
    )
    base = ws.as_uri()
    for uri, text in (
        (f"{base}/in.txt", "1 in"),
        (f"{base}/sub/../in.txt", "1 in"),
        (f"{base}/%69n%2Etxt", "1 in"),
        (str(ws / "in.txt"), "1 in"),
        ("in.txt", "1 in"),
        ("sub/../in.txt", "1 in"),
        (f"{base}/alias.txt", "1 deep"),
        (f"{base}/across.txt", "1 x"),
        (f"{other.as_uri()}/x.txt", "1 x"),
        ("x.txt", "1 x"),
        (f"FILE://localhost{other}/x.txt", "1 x"),
    ):
        assert (await client.run("ds4.readFile", {"uri": uri}))["text"] == text, uri
    for uri, reason in (
        (f"{base}/../outside/x.txt", "outsideWorkspace"),
        (f"{base}/%2e%2e/outside/x.txt", "outsideWorkspace"),
        (f"{base}%2F..%2Foutside/x.txt", "outsideWorkspace"),
        ("../outside/x.txt", "outsideWorkspace"),
        (str(outside / "x.txt"), "outsideWorkspace"),
        (f"{base}/out/x.txt", "outsideWorkspace"),
        (f"{base}/out/new.txt", "outsideWorkspace"),
        (f"{base}/out.txt", "outsideWorkspace"),
        (f"{base}/zero", "outsideWorkspace"),
        (f"{base}-not/x.txt", "outsideWorkspace"),
        (f"{base}/none.txt", "notFound"),
        (base, "invalid"),
        (f"{base}/sub/", "invalid"),
        (f"{base}/pipe", "invalid"),
        (f"{base}/binary", "invalid"),
        (f"{base}/big", "invalid"),
        ("file://elsewhere/x.txt", "invalid"),
        (f"{base}/a%00b", "invalid"),
        ("a\0b", "invalid"),
        (f"{base}/\ud800", NO_TEXT),
        ("\udbff.txt", NO_TEXT),
        (f"{base}/%ED%A0%80", "notFound"),
        (f"{base}/" + "x" * 300, "invalid"),
        ("untitled:Untitled-1", "invalid"),
        ("https://example.org/in.txt", "invalid"),
        ("C:\\in.txt", "invalid"),
        ("file:///C:/in.txt", "outsideWorkspace"),
        ("", "invalid"),
    ):
        for command, arguments in (
            ("ds4.readFile", {"uri": uri}),
            ("ds4.applyEdit", {"uri": uri, "fileTag": tag_of("x\n"), "range": "all", "newText": "y\n"}),
        ):
            assert (await code(client, command, arguments)).startswith(reason), uri
    assert (outside / "x.txt").read_text() == "x\n"
    assert list(outside.iterdir()) == [outside / "x.txt"]
    edit = {"uri": f"{base}/across.txt", "fileTag": tag_of("x\n"), "range": "all", "newText": "y\n"}
    assert (await client.run("ds4.applyEdit", edit))["saved"]
    assert (other / "x.txt").read_text() == "y\n"
    assert (ws / "across.txt").is_symlink()


async def test_names_that_no_file_can_have_do_no_harm_wherever_a_client_sends_them(rig: Rig) -> None:
    rig.file("in.txt", "in\n")
    client = await rig.start(settings=IDLE, env={"DS4_MODEL": None})
    odd = ("file:///w/\ud800", "file:///w/%00", "file:///%ED%A0%80", "untitled:\ud800", "file://host/\0", "file:", "")
    for uri in odd:
        client.open(uri, "x\n")
        client.change(uri, 0, 1, "y")
        refused = await code(client, "ds4.prompt", {"text": "hello", "context": [{"uri": uri}]})
        assert refused.startswith(NO_TEXT if "\ud800" in uri else "noModel")
    folders = [{"uri": uri, "name": "odd"} for uri in odd]
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": folders, "removed": []}})
    for uri in (rig.uri("in.txt"), "in.txt"):
        assert (await client.run("ds4.readFile", {"uri": uri}))["text"] == "1 in"
    for uri in odd:
        client.close_document(uri)
    edit = {"uri": rig.uri("in.txt"), "fileTag": tag_of("in\n"), "range": "all", "newText": "out\n"}
    assert (await client.run("ds4.applyEdit", edit))["saved"]
    assert b"Traceback" not in client.stderr


async def test_an_unopened_file_keeps_mode_link_encoding_and_endings(rig: Rig) -> None:
    client = await rig.start(settings=IDLE, capabilities=PLAIN)
    for codec in ("utf-8", "utf-8-sig", "utf-16"):
        path = rig.file(f"{codec}.txt", "")
        path.write_bytes("1\r\nzwei\r3\n4".encode(codec))
        path.chmod(0o751)
        link = rig.workspace / f"{codec}-link"
        link.symlink_to(path.name)
        tag = tag_of("1\r\nzwei\r3\n4")
        edit = {"uri": link.as_uri(), "fileTag": tag, "startLine": 2, "endLine": 3, "newText": "é😀\nIII\nx"}
        assert (await client.run("ds4.applyEdit", edit))["saved"]
        assert path.read_bytes() == "1\r\né😀\rIII\nx\n4".encode(codec)
        assert path.stat().st_mode & 0o7777 == 0o751
        assert link.is_symlink()
    path = rig.workspace / "latin.txt"
    path.write_bytes("é".encode("latin-1"))
    with pytest.raises(ResponseError, match="not valid UTF-8"):
        await client.run("ds4.readFile", {"uri": path.as_uri()})


async def test_the_worked_example_of_the_guide_is_true(rig: Rig) -> None:
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", DOC.read_text(encoding="utf-8"), re.S)]
    opened, read, edited, request, answer, result = blocks
    uri = opened["textDocument"]["uri"]

    def here(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("file:///home/me/shop", rig.workspace.as_uri()))

    rig.file("cart.py", opened["textDocument"]["text"])
    encodings = {"general": {"positionEncodings": ["utf-16"]}}
    client = await rig.start(settings=IDLE, capabilities=GUARDED | encodings)
    client.open(here(uri), opened["textDocument"]["text"], opened["textDocument"]["version"])
    assert await client.run("ds4.readFile", {"uri": here(uri)}) == here(read)
    honest, answers = client.handlers["ds4/applyGuardedEdit"], []
    client.handlers["ds4/applyGuardedEdit"] = lambda params: answers.append(honest(params)) or answers[0]
    assert await client.run("ds4.applyEdit", here(edited)) == result
    assert client.notifications("ds4/applyGuardedEdit") == [here(request)]
    assert answers == [answer]


async def test_undo_restores_a_turn_also_after_a_restart_and_skips_what_changed_since(tiny: Rig) -> None:
    a, b = "a1\r\na2\nend", "b1\n"
    for name, text in (("a.txt", a), ("b.txt", b), ("c.txt", "c1\n")):
        tiny.file(name, text)
    a2 = a.replace("a1", "A1")
    script = tiny.script(
        *(call("read", path=name) for name in ("a.txt", "b.txt", "c.txt")),
        call("edit", path="a.txt", file_tag=tag_of(a), line=1, new="A1"),
        call("edit", path="a.txt", file_tag=tag_of(a2), line=3, new="END\nmore"),
        call("edit", path="b.txt", file_tag=tag_of(b), line=1, new="B1"),
        call("edit", path="c.txt", file_tag=tag_of("c1\n"), line=1, new="C1"),
        call("write", path="sub/new.txt", content="new\n"),
        call("write", path="kept.txt", content="kept\n"),
        "Done.",
        call("edit", path="b.txt", file_tag=tag_of("B1\n"), line=1, new="B2"),
        "Done again.",
    )
    client = await tiny.start(script=script, settings={"model": {"contextSize": 8192}})
    result = await prompt(client, "change them")
    assert [one["text"] for one in client.events("tool.result") if not one["ok"]] == []
    names = [one["name"] for one in result["toolCalls"]]
    assert (names, result["stopReason"]) == (["read"] * 3 + ["edit"] * 4 + ["write"] * 2, "end")
    await prompt(client, "and b once more")
    assert await client.shutdown() == 0

    client = await tiny.start(settings=IDLE)
    changed = a2.replace("end", "END\nmore")
    client.open(tiny.uri("a.txt"), changed)
    (tiny.workspace / "c.txt").write_text("by the user\n")
    (tiny.workspace / "kept.txt").write_text("by the user\n")
    last = await client.run("ds4.undoTurn")
    assert last == {"reverted": [tiny.uri("b.txt")], "skipped": []}
    assert (tiny.workspace / "b.txt").read_text() == "B1\n"
    first = await client.run("ds4.undoTurn")
    assert sorted(first["reverted"]) == [tiny.uri(name) for name in ("a.txt", "b.txt", "sub/new.txt")]
    assert {skipped["uri"]: "changed since" in skipped["reason"] for skipped in first["skipped"]} == {
        tiny.uri("c.txt"): True,
        tiny.uri("kept.txt"): True,
    }
    assert client.buffers[tiny.uri("a.txt")][1] == a
    assert (tiny.workspace / "a.txt").read_bytes().decode() == a
    assert (tiny.workspace / "b.txt").read_text() == b
    assert not (tiny.workspace / "sub/new.txt").exists()
    assert (tiny.workspace / "c.txt").read_text() == "by the user\n"
    # What is left of the turn can still be undone when the reason has gone.
    (tiny.workspace / "c.txt").write_text("C1\n")
    (tiny.workspace / "kept.txt").write_text("kept\n")
    client.open(tiny.uri("kept.txt"), "kept\n")
    rest = await client.run("ds4.undoTurn", {"turn": 1})
    assert (sorted(rest["reverted"]), rest["skipped"]) == ([tiny.uri("c.txt"), tiny.uri("kept.txt")], [])
    assert (tiny.workspace / "c.txt").read_text() == "c1\n"
    assert not (tiny.workspace / "kept.txt").exists()
    assert await code(client, "ds4.undoTurn", {}) == "notFound"
    assert "turn" in await code(client, "ds4.undoTurn", {"turn": 0})


ROWS = "".join(f"l{number}\n" for number in range(1, 13))
SMALL = {"model": {"contextSize": 8192}}


@pytest.mark.parametrize("is_open", [True, False])
async def test_undo_keeps_what_others_wrote_between_two_edits_of_the_turn(tiny: Rig, is_open: bool) -> None:
    """The user in the editor, or another program; also in a file that the turn created."""
    path, made = tiny.file("a.txt", ROWS), tiny.workspace / "new.txt"
    others = [call("bash", command=f"sed -i {how}") for how in ("'s/l6/l6 typed/' a.txt", "'1i mine' new.txt")]
    script = tiny.script(
        call("read", path="a.txt"),
        call("edit", path="a.txt", file_tag=tag_of(ROWS), line=2, new="A2"),
        *([] if is_open else others[:1]),
        call("edit", path="a.txt", file_tag=tag_of(ROWS), line=10, new="A10"),
        call("write", path="new.txt", content="n1\nn2\nn3\n"),
        *([] if is_open else others[1:]),
        call("edit", path="new.txt", file_tag=tag_of("n1\nn2\nn3\n"), line=3, new="N3"),
        "Done.",
    )
    settings = SMALL | {"permissions": {"bash": "allow"}}
    client = await tiny.start(script=script, settings=settings, capabilities=GUARDED if is_open else PLAIN)
    honest = client.handlers["ds4/applyGuardedEdit"]

    def typing(params: Any) -> Any:
        answer = honest(params)
        uri = params["guards"][0]["uri"]
        text = client.buffers[uri][1]
        if "typed" not in text and "mine" not in text:
            client.change(uri, 0, len(text), text.replace("l6", "l6 typed").replace("n1\n", "mine\nn1\n"))
        return answer

    client.handlers["ds4/applyGuardedEdit"] = typing
    if is_open:
        client.open(path.as_uri(), ROWS)
    result = await prompt(client, "go")
    assert all(one["ok"] for one in result["toolCalls"])
    undone = await client.run("ds4.undoTurn")
    assert path.read_text() == ROWS.replace("l6", "l6 typed")
    assert path.as_uri() not in client.buffers or client.buffers[path.as_uri()][1] == path.read_text()
    assert undone["reverted"] == [path.as_uri()]
    assert [one["uri"] for one in undone["skipped"]] == [made.as_uri()]
    assert "it is kept" in undone["skipped"][0]["reason"]
    assert made.read_text() == "mine\nn1\nn2\nN3\n"


async def test_undo_goes_nowhere_that_the_files_of_the_turn_are_not_any_more(tiny: Rig) -> None:
    other, outside = tiny.root / "other", tiny.root / "outside"
    for folder in (other, outside):
        folder.mkdir()
        (folder / "x.txt").write_text("x\n")
    for name in ("d/x.txt", "e/x.txt", "a.txt"):
        tiny.file(name, "x\n")
    elsewhere = str(other / "x.txt")
    names = ("d/x.txt", elsewhere, "a.txt")
    script = tiny.script(
        *(call("read", path=name) for name in names),
        *(call("edit", path=name, file_tag=tag_of("x\n"), line=1, new="X") for name in names),
        call("write", path="e/new.txt", content="X\n"),
        "Done.",
    )
    client = await tiny.start(script=script, settings=SMALL, capabilities=PLAIN)
    folder = {"uri": other.as_uri(), "name": "other"}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
    assert all(one["ok"] for one in (await prompt(client, "go"))["toolCalls"])
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": [folder]}})
    for name in ("x.txt", "new.txt"):
        (outside / name).write_text("X\n")
    for name in ("d", "e"):
        (tiny.workspace / name).rename(tiny.root / f"moved-{name}")
        (tiny.workspace / name).symlink_to(outside, target_is_directory=True)
    undone = await client.run("ds4.undoTurn")
    assert undone["reverted"] == [tiny.uri("a.txt")]
    reasons = {one["uri"]: one["reason"] for one in undone["skipped"]}
    assert sorted(reasons) == sorted([tiny.uri("d/x.txt"), tiny.uri("e/new.txt"), (other / "x.txt").as_uri()])
    assert "outside the workspace" in reasons[(other / "x.txt").as_uri()]
    assert "somewhere else" in reasons[tiny.uri("d/x.txt")]
    for file in (other / "x.txt", outside / "x.txt", outside / "new.txt"):
        assert file.read_text() == "X\n"
    # What could not be undone stands in no earlier turn's way; here there is none, and it is named again.
    again = await client.run("ds4.undoTurn")
    assert (again["reverted"], len(again["skipped"])) == ([], 3)


async def test_where_a_path_leads_is_looked_at_once_more_after_a_question(rig: Rig) -> None:
    rig.file("d/x.txt", "x\n")
    outside = rig.root / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("x\n")
    client = await rig.start(settings=IDLE | {"edits": {"confirm": "always"}}, capabilities=PLAIN)

    def swapped(_params: Any) -> Any:
        (rig.workspace / "d").rename(rig.root / "moved")
        (rig.workspace / "d").symlink_to(outside, target_is_directory=True)
        return {"title": "Apply"}

    def removed(_params: Any) -> Any:
        folder = {"uri": rig.workspace.as_uri(), "name": "ws"}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": [folder]}})
        return {"title": "Apply"}

    path = rig.file("f/x.txt", "x\n")
    for uri, while_asked in ((rig.uri("d/x.txt"), swapped), (path.as_uri(), removed)):
        client.handlers["window/showMessageRequest"] = while_asked
        edit = {"uri": uri, "fileTag": tag_of("x\n"), "range": "all", "newText": "y\n"}
        assert await code(client, "ds4.applyEdit", edit) == "notApplied"
    assert (outside / "x.txt").read_text() == path.read_text() == (rig.root / "moved" / "x.txt").read_text() == "x\n"


@pytest.mark.parametrize("capabilities", [PLAIN, GUARDED], ids=["plain", "guarded"])
async def test_a_text_that_could_not_be_read_again_is_refused_before_anything_is_changed(
    rig: Rig, capabilities: Any
) -> None:
    client = await rig.start(settings=IDLE, capabilities=capabilities)
    for name, is_open in (("open.txt", True), ("closed.txt", False)):
        path = rig.file(name, "one\ntwo\n")
        if is_open:
            client.open(path.as_uri(), "one\ntwo\n")
        edit = {"uri": path.as_uri(), "fileTag": tag_of("one\ntwo\n")}
        large = {"range": "all", "newText": "y" * 50_000_000}
        assert await code(client, "ds4.applyEdit", {**edit, **large}) == "invalid"
        for new, reason in (("a\0b", "invalid"), ("\ud800", NO_TEXT), (MARK + "x", "invalid")):
            for target in ({"range": "all"}, {"startLine": 1, "endLine": 1}):
                refused = await code(client, "ds4.applyEdit", {**edit, **target, "newText": new})
                assert refused.startswith(reason)
        # A mark is text anywhere else, and what is there already is not held against an edit.
        assert (await client.run("ds4.applyEdit", {**edit, "oldText": "two", "newText": MARK}))["applied"]
        after = f"one\n{MARK}\n"
        edit["fileTag"] = tag_of(after)
        assert await code(client, "ds4.applyEdit", {**edit, "oldText": "one\n", "newText": ""}) == "invalid"
        assert (client.buffers[path.as_uri()][1] if is_open else path.read_text()) == after
    assert len(client.notifications("ds4/applyGuardedEdit")) == (2 if capabilities is GUARDED else 0)
    assert list(rig.workspace.glob("*.tmp")) == []


async def test_what_a_formatter_did_to_an_edit_on_save_is_undone_with_it(tiny: Rig) -> None:
    path = tiny.file("a.py", "a\nb\n")
    script = tiny.script(
        call("read", path="a.py"), call("edit", path="a.py", file_tag=tag_of("a\nb\n"), line=1, new="x=1"), "Done."
    )
    client = await tiny.start(script=script, settings=SMALL)
    uri, save = path.as_uri(), client.save
    client.open(uri, "a\nb\n")

    def formats_and_saves(uri: str) -> bool:
        text = client.buffers[uri][1]
        client.change(uri, 0, len(text), text.replace("x=1", "x = 1"))
        return save(uri)

    client.save = formats_and_saves  # type: ignore[method-assign]
    await prompt(client, "go")
    assert path.read_text() == "x = 1\nb\n"
    assert await client.run("ds4.undoTurn") == {"reverted": [uri], "skipped": []}
    assert path.read_text() == client.buffers[uri][1] == "a\nb\n"


async def test_undo_removes_a_created_file_only_as_far_as_the_user_and_the_settings_allow(tiny: Rig) -> None:
    script = tiny.script(
        call("write", path="earlier.txt", content="e\n"), "Done.", call("write", path="new.txt", content="n\n"), "Done."
    )
    client = await tiny.start(script=script, settings=SMALL)
    for _ in range(2):
        await prompt(client, "go")
    path, uri = tiny.workspace / "new.txt", tiny.uri("new.txt")

    async def undo(answer: str | None, **settings: Any) -> dict[str, Any]:
        client.notify("workspace/didChangeConfiguration", {"settings": {"ds4": SMALL | settings}})
        asked = len(client.notifications("window/showMessageRequest"))
        client.handlers["window/showMessageRequest"] = lambda _params: {"title": answer}
        result = await client.run("ds4.undoTurn", {"turn": 2})
        assert len(client.notifications("window/showMessageRequest")) - asked == (answer is not None)
        return dict(result)

    for answer, settings in (
        (None, {"permissions": {"write": "deny"}}),
        ("Deny", {"permissions": {"write": "ask"}}),
        ("Deny", {"permissions": {"write": "ask"}, "edits": {"confirm": "always"}}),
        ("Deny", {"edits": {"confirm": "always"}}),
    ):
        kept = await undo(answer, **settings)
        assert ([one["uri"] for one in kept["skipped"]], kept["reverted"]) == ([uri], [])
        # For the user to read, not for the model.
        assert "you did not allow it" in kept["skipped"][0]["reason"]
        assert path.read_text() == "n\n"
    # It has been tried and stays: without a number an earlier turn is meant now.
    assert (await client.run("ds4.undoTurn"))["skipped"][0]["uri"] == tiny.uri("earlier.txt")
    assert await undo("Allow once", edits={"confirm": "always"}) == {"reverted": [uri], "skipped": []}
    assert not path.exists()


@pytest.mark.parametrize("makes_it", [False, True], ids=["in the buffer only", "empty on disk too"])
async def test_undo_takes_back_a_created_file_that_was_never_saved(tiny: Rig, makes_it: bool) -> None:
    script = tiny.script(call("write", path="new.txt", content="n\n"), "Done.")
    client = await tiny.start(script=script, settings=SMALL | {"edits": {"save": False}})
    path, uri = tiny.workspace / "new.txt", tiny.uri("new.txt")
    honest = client.handlers["ds4/applyGuardedEdit"]

    def makes(params: Any) -> Any:
        """The file of a ``create`` operation is there at once in some editors, without the text."""
        answer = honest(params)
        if makes_it and client.buffers[uri][1]:
            path.write_text("")
        return answer

    client.handlers["ds4/applyGuardedEdit"] = makes
    await prompt(client, "go")
    assert (client.buffers[uri][1], path.exists()) == ("n\n", makes_it)
    client.change(uri, 0, 0, "typed ")
    kept = await client.run("ds4.undoTurn")
    assert (kept["reverted"], client.buffers[uri][1]) == ([], "typed n\n")
    client.change(uri, 0, 6, "")
    assert await client.run("ds4.undoTurn") == {"reverted": [uri], "skipped": []}
    assert (client.buffers[uri][1], path.exists()) == ("", False)
    assert await code(client, "ds4.undoTurn", {}) == "notFound"
