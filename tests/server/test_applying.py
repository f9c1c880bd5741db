"""Edits of open and unopened files, in editors that are honest and in editors that are not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lsp_client import GUARDED, PLAIN, Client

TEXT = "one\ntwo 😀 dos\r\nthree\rfour"
GONE = "two 😀"
AT = TEXT.index(GONE)
AFTER = TEXT.replace(GONE, "2")
SAVING = PLAIN | {"experimental": {"ds4": {"saveDocument": True}}}
ANNOTATING = PLAIN | {"workspace": GUARDED["workspace"]}
CONFIRM = {"edits": {"confirm": "always"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a b.txt"
    path.write_bytes(TEXT.encode())
    path.chmod(0o640)
    return path


def content(path: Path) -> str:
    return path.read_bytes().decode()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def real(path: Path) -> str:
    return str(path.resolve())


async def edit(client: Client, path: Path, **request: Any) -> dict[str, Any]:
    given = {"uri": path.as_uri(), "start": AT, "end": AT + len(GONE), "new": "2"} | request
    answer = await client.run("ds4.prompt", {"text": f"edit {json.dumps(given)}"}, timeout=30)
    result: dict[str, Any] = json.loads(answer["text"])
    return result


@pytest.mark.parametrize(
    ("capabilities", "encoding", "saved"),
    [
        (PLAIN, "utf-8", False),
        (SAVING, "utf-32", True),
        (GUARDED, "utf-16", True),
    ],
)
async def test_an_edit_of_an_open_document_lands_in_the_buffer(
    connect: Any, file: Path, capabilities: Any, encoding: str, saved: bool
) -> None:
    client = await connect(capabilities | {"general": {"positionEncodings": [encoding]}})
    client.open(file.as_uri(), TEXT, version=0)
    assert await edit(client, file) == {"saved": saved, "failure": None, "rejected": False}
    assert client.buffers[file.as_uri()][1] == AFTER
    assert content(file) == (AFTER if saved else TEXT)
    [sent] = client.notifications("ds4/applyGuardedEdit" if capabilities is GUARDED else "workspace/applyEdit")
    [change] = sent["edit"]["documentChanges"]
    assert change["textDocument"] == {"uri": file.as_uri(), "version": 0}
    assert sent["label"] == "Edit"


async def test_an_open_document_is_left_alone_in_an_editor_that_takes_no_versions(connect: Any, file: Path) -> None:
    """Nothing would keep an edit off what the user types while it is on its way; the guarded request does."""
    client = await connect(PLAIN | {"workspace": {"applyEdit": True}})
    client.open(file.as_uri(), TEXT)
    answer = await edit(client, file)
    assert "documentChanges" in answer["failure"]
    assert (client.notifications("workspace/applyEdit"), client.buffers[file.as_uri()][1]) == ([], TEXT)
    client.close_document(file.as_uri())
    assert await edit(client, file) == {"saved": True, "failure": None, "rejected": False}
    assert content(file) == AFTER

    client = await connect({"workspace": {"applyEdit": True}, "experimental": GUARDED["experimental"]})
    client.open(file.as_uri(), AFTER)
    assert (await edit(client, file, start=0, end=3, new="1"))["saved"] is True
    [sent] = client.notifications("ds4/applyGuardedEdit")
    assert list(sent["edit"]["changes"]) == [file.as_uri()]


async def test_the_guarded_request_carries_version_tag_and_annotation(connect: Any, file: Path) -> None:
    client = await connect(GUARDED)
    client.open(file.as_uri(), TEXT, version=4)
    await edit(client, file, save=False)
    [sent] = client.notifications("ds4/applyGuardedEdit")
    assert sent["guards"] == [{"uri": file.as_uri(), "version": 4, "fileTag": "3c42463d"}]
    assert sent["save"] is False
    [change] = sent["edit"]["documentChanges"][0]["edits"]
    annotation = sent["edit"]["changeAnnotations"][change["annotationId"]]
    assert (annotation["label"], annotation["needsConfirmation"]) == ("Edit", False)
    assert content(file) == TEXT


@pytest.mark.parametrize("capabilities", [PLAIN, SAVING, GUARDED])
async def test_an_edit_of_an_unopened_file_is_on_disk_in_every_client(
    connect: Any, file: Path, capabilities: Any
) -> None:
    client = await connect(capabilities)
    assert await edit(client, file) == {"saved": True, "failure": None, "rejected": False}
    assert content(file) == AFTER
    assert mode(file) == 0o640
    created = file.parent / "new" / "b.txt"
    assert await edit(client, created, create=True, start=0, end=0, new="x\n") == {
        "saved": True,
        "failure": None,
        "rejected": False,
    }
    assert content(created) == "x\n"
    assert (await edit(client, created, create=True, start=0, end=0, new="y"))["failure"]
    assert content(created) == "x\n"
    if capabilities is PLAIN:
        assert client.notifications("workspace/applyEdit") == []
    if capabilities is GUARDED:
        guards = [sent["guards"][0] for sent in client.notifications("ds4/applyGuardedEdit")]
        assert [guard["version"] for guard in guards] == [None, None]
        assert guards[1]["fileTag"] is None


async def test_claims_are_not_believed(connect: Any, file: Path) -> None:
    client = await connect(GUARDED)
    uri = file.as_uri()
    client.open(uri, TEXT)
    honest = dict(client.handlers)

    async def attempt(handler: Any) -> Any:
        client.handlers["ds4/applyGuardedEdit"] = handler
        return await edit(client, file)

    lies = {"applied": True, "saved": True, "fileTag": "00000000"}
    assert "did not change as expected" in (await attempt(lambda _params: lies))["failure"]
    assert client.buffers[uri][1] == TEXT

    def wrongly(params: Any) -> Any:
        """Applies the edit somewhere else, as an editor does that does not check versions."""
        client.change(uri, 0, 0, "2")
        return lies

    assert "did not change as expected" in (await attempt(wrongly))["failure"]
    client.change(uri, 0, 1, "")

    def twice(params: Any) -> Any:
        start, end = client.span(uri, params["edit"]["documentChanges"][0]["edits"][0]["range"])
        client.change(uri, start, end, "2")
        client.change(uri, start, end, "2")
        return lies

    assert "twice" in (await attempt(twice))["failure"]
    client.change(uri, 0, len(client.buffers[uri][1]), TEXT)

    assert (await attempt(lambda _params: {"applied": False, "failureReason": "it is locked"}))[
        "failure"
    ] == "it is locked"
    assert (await attempt(lambda _params: None))["failure"]
    assert (await attempt(lambda _params: [1]))["failure"]
    del client.handlers["ds4/applyGuardedEdit"]
    assert "no such method" in (await edit(client, file))["failure"]

    client.handlers = honest
    assert await edit(client, file) == {"saved": True, "failure": None, "rejected": False}
    assert client.buffers[uri][1] == AFTER


async def test_an_editor_that_never_answers_is_not_waited_for(connect: Any, file: Path) -> None:
    client = await connect(PLAIN)
    client.open(file.as_uri(), TEXT)
    client.handlers["workspace/applyEdit"] = lambda _params: asyncio.Event().wait()
    assert "did not answer" in (await edit(client, file))["failure"]
    assert len(client.notifications("$/cancelRequest")) == 1


async def test_an_edit_that_shows_before_its_answer_or_without_one_counts(connect: Any, file: Path) -> None:
    client = await connect(PLAIN)
    client.open(file.as_uri(), TEXT)

    async def applies_and_is_silent(params: Any) -> Any:
        client.apply(params["edit"])
        await asyncio.Event().wait()

    client.handlers["workspace/applyEdit"] = applies_and_is_silent
    assert await edit(client, file) == {"saved": False, "failure": None, "rejected": False}
    assert client.buffers[file.as_uri()][1] == AFTER


async def test_what_the_user_typed_right_behind_the_edit_does_not_hide_it(connect: Any, file: Path) -> None:
    client = await connect(PLAIN)
    uri = file.as_uri()
    client.open(uri, TEXT)

    def apply_and_type(params: Any) -> Any:
        """Both changes in one notification."""
        [change] = params["edit"]["documentChanges"][0]["edits"]
        typed = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "!"}
        client.buffers[uri] = (2, "!" + AFTER)
        client.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": uri, "version": 2},
                "contentChanges": [{"range": change["range"], "text": change["newText"]}, typed],
            },
        )
        return {"applied": True}

    client.handlers["workspace/applyEdit"] = apply_and_type
    assert (await edit(client, file))["failure"] is None


async def test_a_disconnect_in_the_middle_ends_the_process_as_ever(connect: Any, file: Path) -> None:
    client = await connect(PLAIN)
    client.open(file.as_uri(), TEXT)
    client.handlers["workspace/applyEdit"] = lambda _params: client.process.stdin.close()
    client.send_command(
        "ds4.prompt", {"text": "edit " + json.dumps({"uri": file.as_uri(), "start": 0, "end": 1, "new": ""})}
    )
    assert await asyncio.wait_for(client.process.wait(), 20) == 1


async def test_a_preview_is_waited_for_and_a_no_is_a_rejection(connect: Any, file: Path) -> None:
    client = await connect(ANNOTATING, initializationOptions=CONFIRM)
    client.open(file.as_uri(), TEXT)

    def look(params: Any) -> Any:
        assert params["edit"]["changeAnnotations"]["ds4"]["needsConfirmation"] is True
        return {"applied": False}

    client.handlers["workspace/applyEdit"] = look
    assert await edit(client, file) == {"saved": False, "failure": "the user rejected it", "rejected": True}


async def test_an_editor_without_previews_is_asked_in_words(connect: Any, file: Path) -> None:
    client = await connect(PLAIN, initializationOptions=CONFIRM)
    assert (await edit(client, file))["failure"] == "nobody could be asked to confirm it"
    client.handlers["window/showMessageRequest"] = lambda _params: {"title": "Reject"}
    assert (await edit(client, file))["rejected"] is True
    assert content(file) == TEXT
    client.handlers["window/showMessageRequest"] = lambda _params: {"title": "Apply"}
    assert (await edit(client, file))["failure"] is None
    assert content(file) == AFTER


async def test_a_preview_of_a_file_that_is_not_open_is_shown_by_editors_that_guard_it(connect: Any, file: Path) -> None:
    """In others the question is asked in words, and the file looked at after the answer."""
    client = await connect(ANNOTATING, initializationOptions=CONFIRM)

    def changed_meanwhile(_params: Any) -> Any:
        file.write_bytes(b"typed")
        return {"title": "Apply"}

    client.handlers["window/showMessageRequest"] = changed_meanwhile
    assert "changed on disk" in (await edit(client, file))["failure"]
    assert content(file) == "typed"
    assert client.notifications("workspace/applyEdit") == []
    client = await connect(GUARDED, initializationOptions=CONFIRM)
    assert (await edit(client, file, start=0, end=5, new="seen"))["failure"] is None
    [sent] = client.notifications("ds4/applyGuardedEdit")
    assert sent["edit"]["changeAnnotations"]["ds4"]["needsConfirmation"] is True
    assert content(file) == "seen"


async def test_the_agent_sees_folders_and_documents_by_their_real_paths(connect: Any, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    link = tmp_path / "link"
    link.symlink_to(two, target_is_directory=True)
    client = await connect(
        workspaceFolders=[{"uri": one.as_uri(), "name": "one"}, {"uri": link.as_uri(), "name": "two"}]
    )

    async def roots(**more: Any) -> Any:
        return json.loads((await client.run("ds4.prompt", {"text": "roots"} | more))["text"])

    real_one, real_two = real(one), real(two)
    assert await roots() == {"roots": [real_one, real_two], "current": real_one, "documents": []}
    client.open((link / "a.txt").as_uri(), "x", version=3)
    found = await roots()
    assert found["current"] == real_two
    assert found["documents"] == [[f"{real_two}/a.txt", 3]]
    # The place that the user points at decides, and goes on deciding.
    assert (await roots(context=[{"uri": (one / "b.txt").as_uri()}]))["current"] == real_one
    assert (await roots(context=[{"uri": (link / "a.txt").as_uri()}]))["current"] == real_one
    await client.run("ds4.newSession")
    assert (await roots())["current"] == real_two
    event = {"added": [], "removed": [{"uri": link.as_uri() + "/", "name": "two"}]}
    client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
    assert (await roots())["roots"] == [real_one]


PIECES = ["\n", "\r\n", "\r", "\f", "\u2028", "a", "bc", "ä", "e\u0301", "😀", "語"]
texts = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


def _places(text: str) -> st.SearchStrategy[int]:
    return st.sampled_from([at for at in range(len(text) + 1) if text[at - 1 : at + 1] != "\r\n"])


Splice = tuple[int, int, str]


@st.composite
def cases(draw: Any) -> tuple[str, Splice, Splice | None]:
    """A text, the agent's edit of it, and the user's."""
    text = draw(texts)
    return text, draw(splices(text)), draw(st.none() | splices(text))


@st.composite
def splices(draw: Any, text: str) -> Splice:
    start, end = sorted((draw(_places(text)), draw(_places(text))))
    new = draw(texts)
    # No edit inside a CRLF, and none that makes or breaks one: positions cannot tell these apart.
    cut = text[:start] + new + text[end:]
    if "\r" in (text[start - 1 : start], new[-1:]) or "\n" in (new[:1], text[end : end + 1]) or cut == text:
        new = f"x{new}x"
    return start, end, new


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_agent_and_user_edit_at_once_and_neither_loses_anything(
    start: Any, tmp_path: Path, encoding: str
) -> None:
    """The user types before, during or after the agent's edit; an edit lands exactly or not at all."""
    client: Client = await start()
    await client.initialize(GUARDED | {"general": {"positionEncodings": [encoding]}})
    loop = asyncio.get_running_loop()
    honest = client.handlers["ds4/applyGuardedEdit"]
    path = tmp_path / "x.txt"
    uri = path.as_uri()

    async def example(text: str, agents: Splice, users: Splice | None) -> None:
        path.write_bytes(text.encode())
        client.open(uri, text)

        def racing(params: Any) -> Any:
            if users is not None:
                client.change(uri, *users)
            return honest(params)

        client.handlers["ds4/applyGuardedEdit"] = racing
        request = {"start": agents[0], "end": agents[1], "new": agents[2]}
        result = await edit(client, path, **request)
        wanted = text[: agents[0]] + agents[2] + text[agents[1] :]
        typed = wanted if users is None else text[: users[0]] + users[2] + text[users[1] :]
        if typed == wanted:
            # Also when it was the user who typed just that; whether that is saved is up to them.
            assert result == {"saved": users is None, "failure": None, "rejected": False}
            assert client.buffers[uri][1] == wanted
        else:
            assert result["failure"]
            assert client.buffers[uri][1] == typed
        found = json.loads((await client.run("ds4.prompt", {"text": "roots"}))["text"])
        assert found["documents"] == [[real(path), client.buffers[uri][0]]]
        client.close_document(uri)

    @given(cases())
    @settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def examples(case: tuple[str, Splice, Splice | None]) -> None:
        asyncio.run_coroutine_threadsafe(example(*case), loop).result()

    await asyncio.to_thread(examples)
