"""The agent's tools and a typing user in one editor, through the whole server."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from editor_model import CLASSES, CODECS, EditorModel, Landing, bare, rows_of, tag_of
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from lsp_client import MARK

SERVER = Path(__file__).with_name("editing_server.py")
ALLOW = {"permissions": {"bash": "allow"}}
ENDINGS = ("\n", "\r\n", "\r")
LINES = ("", "a", "b", "naïve", "e\u0301", "😀x", "a\x0cb", "c\u2028d", "e\x85f", "\t}", "語")

Open = Callable[..., Awaitable[EditorModel]]


@pytest.fixture
async def editor(tmp_path: Path) -> AsyncIterator[Open]:
    """Start a server with the real tools, over ``tmp_path``: ``editor(capabilities, verify=…, working=…)``."""
    made: list[EditorModel] = []
    meddle = tmp_path.with_name(tmp_path.name + ".meddle")

    async def open_editor(
        capabilities: dict[str, Any],
        *,
        verify: float = 20,
        working: float | None = None,
        encoding: str = "utf-16",
        **options: Any,
    ) -> EditorModel:
        patience = {"VERIFY": str(verify), "WORKING": str(verify if working is None else working)}
        client = EditorModel(sys.executable, str(SERVER), env={**patience, "MEDDLE": str(meddle)})
        client.meddle = meddle
        made.append(client)
        await client.start()
        await client.initialize(
            capabilities | {"general": {"positionEncodings": [encoding]}},
            workspaceFolders=[{"uri": tmp_path.as_uri(), "name": "ws"}],
            initializationOptions={"ds4": ALLOW | options},
        )
        return client

    yield open_editor
    for client in made:
        await client.close()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@st.composite
def documents(draw: Any) -> str:
    marks = draw(st.sampled_from([*((mark,) for mark in ENDINGS), ENDINGS]))
    rows = draw(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(marks)), max_size=7))
    return "".join(map("".join, rows)) + draw(st.sampled_from(["", "", "end", "é😀"]))


steps = st.lists(
    st.tuples(
        st.sampled_from(["type", "delete", "read", "lines", "lines", "old"]),
        st.sampled_from([None, None, True, False]),  # does the user type before (True) or after the edit is applied?
        st.integers(0, 99),
        st.integers(0, 2),
        st.sampled_from(["", "X", "X\nY\n", "😀\r\nZ", "\n", "e\u0301"]),
    ),
    min_size=2,
    max_size=6,
)


class Race:
    """One file. Whatever is typed is unique, so that its loss would show."""

    def __init__(self, client: EditorModel, path: Path, text: str, codec: str) -> None:
        self.client, self.path, self.uri = client, path, path.as_uri()
        self.typed = itertools.count(1)
        self.seen = text.removeprefix(MARK)
        client.put(self.uri, text, codec)

    @property
    def now(self) -> str:
        """Without the byte order mark that the editor may hold."""
        return self.client.text(self.uri).removeprefix(MARK)

    def change(self, where: int, gone: int, ending: str = "\n") -> None:
        """The user types in a line's middle (``gone`` 0), or replaces lines."""
        start, end, new = self._change(where, gone, ending)
        if self.uri in self.client.buffers:
            self.client.change(self.uri, start, end, new)
        else:
            self.client.put(self.uri, self._changed(start, end, new), self.client.codecs[self.uri])

    def meddle(self, where: int) -> str:
        """Another program saves the file while the server writes it; the text that it saves."""
        text = self._changed(*self._change(where, 0, "\n"))
        data = text.encode(self.client.codecs[self.uri]).hex()
        order = {"when": ("before", "during")[where % 2], "path": str(self.path), "data": data}
        self.client.meddle.write_text(json.dumps(order))
        return text.removeprefix(MARK)

    def _changed(self, start: int, end: int, new: str) -> str:
        text = self.client.text(self.uri)
        return text[:start] + new + text[end:]

    def _change(self, where: int, gone: int, ending: str) -> tuple[int, int, str]:
        text = self.client.text(self.uri)
        starts = [0, *itertools.accumulate(map(len, rows_of(text)))]
        at = where % len(starts)
        start, end = starts[at], starts[min(at + gone, len(starts) - 1)]
        if gone == 0 and start < len(text) and text[start] not in "\r\n":
            start = end = start + 1
        # Text on both sides of a line's end: none is made or broken that positions cannot tell apart.
        return start, end, f"«{next(self.typed)}»" + (ending + "." if where % 3 == 0 else "")

    async def read(self) -> None:
        assert await self.client.tag(self.path.name) == tag_of(self.now)
        self.seen = self.now

    async def edit(self, kind: str, typing: bool | None, where: int, size: int, new: str) -> None:
        self.client.landings.clear()
        self.client.typing = lambda before: self.change(where, 0) if before is typing else None
        rows, before = rows_of(self.seen), self.now
        saved: str | None = None
        if typing is True and self.uri not in self.client.buffers and not self.client.guarded:
            # Such a file never reaches the editor: the server writes it.
            saved = self.meddle(where)
        start = where % (len(rows) + 1) + 1
        end = min(start + size - 1, len(rows))
        target: dict[str, Any] = {"start_line": start, "end_line": end}
        if kind == "old":
            target = {"old": bare(rows)[start - 1] or "a" if start <= len(rows) else "a"}
            new = "".join(bare(rows_of(new))[:1])
        result = await self.client.tool("edit", path=self.path.name, file_tag=tag_of(self.seen), new=new, **target)
        self.client.typing = lambda _before: None
        if saved is not None:
            if self.client.meddle.exists():
                # Refused before anything was written, or nothing was to be changed.
                self.client.meddle.unlink()
                assert self.now == before
            else:
                assert (result["ok"], self.now) == (False, saved)
            return
        [landing] = self.client.landings or [Landing(before, self.now, applied=bool(result["ok"]))]
        landing.before, landing.after = landing.before.removeprefix(MARK), landing.after.removeprefix(MARK)
        if not result["ok"]:
            assert landing.after == landing.before
            assert not self.client.landings or typing is True
            return
        assert result["fileTag"] == tag_of(landing.after)
        assert typing is not True or not self.client.landings
        if kind == "old":
            assert landing.before.count(target["old"]) == 1
            head, _, tail = landing.before.partition(target["old"])
            if not new and head[-1:] in ("", "\r", "\n") and tail[:1] in ("", "\r", "\n"):
                # A whole line goes with its end.
                number = len(rows_of(head)) + 1
                self._is_exactly_there(landing, rows_of(landing.before)[number - 1 : number], number, "")
                return
            assert landing.after == head + new + tail
            return
        first = result["startLine"]
        self._is_exactly_there(landing, rows[start - 1 : end], first, new)
        if self.seen == landing.before:
            assert (first, result["rebased"]) == (start, False)
        else:
            old = rows_of(landing.before)
            assert result["rebased"]
            assert start == 1 or old[first - 2] == rows[start - 2]
            assert end == len(rows) or old[first - 1 + end - start + 1] == rows[end]

    @staticmethod
    def _is_exactly_there(landing: Landing, target: list[str], first: int, new: str) -> None:
        """The lines that were seen went, the new ones are in their place, and all the others are as they were."""
        old, made = rows_of(landing.before), rows_of(landing.after)
        last = first - 1 + len(target)
        assert old[first - 1 : last] == target
        wanted = [*bare(old[: first - 1]), *bare(rows_of(new)), *bare(old[last:])]
        if old and not old[-1].endswith(("\n", "\r")) and wanted and not wanted[-1]:
            # An empty last line without an ending is the end of the line before it.
            wanted.pop()
        assert bare(made) == wanted


@pytest.mark.parametrize(("kind", "encoding"), [("guarded", "utf-16"), ("saving", "utf-8"), ("plain", "utf-32")])
async def test_no_keystroke_is_lost_and_no_edit_lands_elsewhere(
    editor: Open, tmp_path: Path, kind: str, encoding: str
) -> None:
    """Every user edit survives, every applied edit is exactly where the seen lines are, every refused one changes
    nothing, and tag and text agree on both sides."""
    client = await editor(CLASSES[kind], encoding=encoding)
    loop = asyncio.get_running_loop()
    numbers = itertools.count()

    async def play(text: str, codec: str, is_open: bool, plan: list[Any]) -> None:
        if codec == "a mark in the buffer":
            text, codec = MARK + text, "utf-8"
        race = Race(client, tmp_path / f"{next(numbers)}.txt", text, codec)
        if is_open:
            client.open(race.uri, text)
        await race.read()
        for what, typing, where, size, new in plan:
            if what in ("type", "delete"):
                race.change(where, size if what == "delete" else 0)
            elif what == "read":
                await race.read()
            else:
                await race.edit(what, typing, where, size, new)
        await race.read()

    # Without shrinking: a failure here is a round trip per step.
    @settings(
        deadline=None,
        max_examples=25,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(documents(), st.sampled_from([*CODECS, "a mark in the buffer"]), st.booleans(), steps)
    @example(
        text="a\rc\u2028d\ra\ra\x0cb\r\t}\r語\r\r",
        codec="a mark in the buffer",
        is_open=False,
        plan=[
            ("lines", True, 78, 2, "e\u0301"),
            ("lines", True, 26, 2, "e\u0301"),
            ("read", True, 71, 1, "\n"),
            ("old", None, 46, 0, ""),
        ],
    )
    def examples(text: str, codec: str, is_open: bool, plan: list[Any]) -> None:
        asyncio.run_coroutine_threadsafe(play(text, codec, is_open, plan), loop).result()

    await asyncio.to_thread(examples)


MISDEEDS = ("nothing", "nothing", "silent", "silent, but applies", "late", "twice")


class Unreliable:
    """An editor that does one thing and says another."""

    def __init__(self, client: EditorModel, method: str) -> None:
        self.client, self.method = client, method
        self.honest = client.handlers[method]
        self.kept: list[Any] = []

    def misbehave(self, how: str) -> None:
        claim = {"applied": True, "saved": True, "fileTag": "00000000"}

        def handler(params: Any) -> Any:
            [change] = params["edit"]["documentChanges"][0]["edits"]
            if how == "late":
                self.kept.append(params)
            if "applies" in how or how == "twice":
                self.honest(params)
            if how == "twice":
                self.client.apply({"changes": {params["edit"]["documentChanges"][0]["textDocument"]["uri"]: [change]}})
            return asyncio.Event().wait() if how.startswith("silent") else claim

        self.client.handlers[self.method] = handler

    def reform(self) -> None:
        """What it put off is done now, as it would be done by an editor that checks versions."""
        self.client.handlers[self.method] = self.honest
        for params in self.kept:
            self.honest(params)
        self.kept.clear()


@pytest.mark.parametrize("kind", ["guarded", "plain"])
async def test_whatever_a_client_says_only_what_the_document_shows_counts(
    editor: Open, tmp_path: Path, kind: str
) -> None:
    """Random texts, edits and misdeeds: success is told only of an edit that is there, the user's text survives, and
    both sides agree on what the document is."""
    client = await editor(CLASSES[kind], verify=0.3)
    method = "ds4/applyGuardedEdit" if kind == "guarded" else "workspace/applyEdit"
    liar = Unreliable(client, method)
    loop = asyncio.get_running_loop()
    numbers = itertools.count()

    async def play(text: str, plan: list[tuple[str, bool, int, int]]) -> None:
        race = Race(client, tmp_path / f"{next(numbers)}.txt", text, "utf-8")
        client.open(race.uri, text)
        typed: list[str] = []
        for how, types, where, size in plan:
            await race.read()
            rows, before = rows_of(race.now), race.now
            start = where % (len(rows) + 1) + 1
            end = min(start + size - 1, len(rows))
            new = f"agent {where}\n"
            if bare(rows[start - 1 : end]) == bare([new]):
                # It reads so already.
                continue
            liar.misbehave(how)
            result = await client.tool(
                "edit", path=race.path.name, file_tag=tag_of(before), start_line=start, end_line=end, new=new
            )
            if how in ("nothing", "silent", "late"):
                assert (result["ok"], result["code"], race.now) == (False, "notApplied", before)
            elif how == "silent, but applies":
                assert not result["ok"] or result["fileTag"] == tag_of(race.now)
            else:
                # Where the second time changes nothing, it was applied once.
                told = (
                    not result["ok"] or "has changed again" in result["text"] or result["fileTag"] == tag_of(race.now)
                )
                assert told
            if how == "twice":
                # The editor may have replaced what the user had typed: it is what it did, not what was asked.
                typed = [mark for mark in typed if mark in race.now]
            elif any(mark in "".join(rows[start - 1 : end]) for mark in typed):
                # The agent replaces what the user typed, having seen it.
                typed = [mark for mark in typed if mark not in "".join(rows[start - 1 : end])]
            if types:
                race.change(where, 0)
                typed.append(f"«{next(race.typed) - 1}»")
                # The user may type in the middle of what they typed before.
                typed = [mark for mark in typed if mark in race.now]
            liar.reform()
            assert await client.tag(race.path.name) == tag_of(race.now)
            assert all(mark in race.now for mark in typed)

    @settings(
        deadline=None,
        max_examples=10,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        documents(),
        st.lists(
            st.tuples(st.sampled_from(MISDEEDS), st.booleans(), st.integers(0, 99), st.integers(0, 2)),
            min_size=1,
            max_size=4,
        ),
    )
    def examples(text: str, plan: list[tuple[str, bool, int, int]]) -> None:
        asyncio.run_coroutine_threadsafe(play(text, plan), loop).result()

    await asyncio.to_thread(examples)


TEXT = "one\r\ntwo 😀\r\nthree\r\nfour\r\nfive"


@pytest.mark.parametrize("kind", ["guarded", "plain"])
async def test_no_misbehaviour_of_a_client_is_taken_for_an_edit_or_costs_a_keystroke(
    editor: Open, tmp_path: Path, kind: str
) -> None:
    client = await editor(CLASSES[kind], verify=0.4)
    method = "ds4/applyGuardedEdit" if kind == "guarded" else "workspace/applyEdit"
    honest = client.handlers[method]
    path = tmp_path / "a.txt"
    uri = path.as_uri()
    client.put(uri, TEXT, "utf-8")
    client.open(uri, TEXT)

    async def attempt(handler: Any, line: int = 2, new: str = "2") -> dict[str, Any]:
        client.handlers[method] = handler
        result = await client.tool("edit", path="a.txt", file_tag=await client.tag("a.txt"), line=line, new=new)
        client.handlers[method] = honest
        return result

    async def failed(handler: Any, why: str, text: str) -> None:
        result = await attempt(handler)
        assert (result["ok"], result["code"]) == (False, "notApplied")
        assert why in result["text"]
        assert client.text(uri) == text
        assert await client.tag("a.txt") == tag_of(text)

    yes = {"applied": True, "saved": True, "fileTag": tag_of(TEXT.replace("two 😀", "2"))}
    await failed(lambda _params: yes, "did not change", TEXT)
    await failed(lambda _params: {"applied": True, "saved": True}, "did not change", TEXT)

    def types_instead(_params: Any) -> Any:
        client.change(uri, 0, 0, "typed ")
        return yes

    await failed(types_instead, "did not change", "typed " + TEXT)
    await failed(lambda _params: None, "gave no reason", "typed " + TEXT)
    await failed(lambda _params: asyncio.Event().wait(), "did not answer", "typed " + TEXT)

    # Applied when the server has given up: the model was told that it failed, and learns of it from the next refusal.
    kept: list[Any] = []
    tag = await client.tag("a.txt")
    await failed(lambda params: kept.append(params) or {"applied": True}, "did not change", "typed " + TEXT)
    honest(kept[0])
    late = ("typed " + TEXT).replace("two 😀", "2")
    assert client.text(uri) == late
    stale = await client.tool("edit", path="a.txt", file_tag=tag, line=2, new="zwei")
    assert stale["code"] == "staleFileTag"
    assert tag_of(late) in stale["text"]
    assert (await client.tool("edit", path="a.txt", file_tag=tag, line=4, new="4"))["rebased"]

    def twice(params: Any) -> Any:
        [change] = params["edit"]["documentChanges"][0]["edits"]
        client.apply({"changes": {uri: [change]}})
        client.apply({"changes": {uri: [change]}})
        return yes

    before = client.text(uri)
    result = await attempt(twice, line=3, new="III and more")
    assert not result["ok"] or "has changed again" in result["text"]
    assert client.text(uri) != before
    assert await client.tag("a.txt") == tag_of(client.text(uri))

    # And after all that an honest answer is taken as one.
    assert (await attempt(honest, line=1, new="1"))["ok"]
    assert client.text(uri).startswith("1\r\n2\r\n")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
@pytest.mark.parametrize("kind", ["guarded", "saving", "plain"])
async def test_a_byte_order_mark_in_the_buffer_is_no_part_of_the_text_but_of_positions(
    editor: Open, tmp_path: Path, kind: str, encoding: str
) -> None:
    client = await editor(CLASSES[kind], encoding=encoding)
    uri = (tmp_path / "a.txt").as_uri()
    client.put(uri, MARK + TEXT, "utf-8")
    assert await client.tag("a.txt") == tag_of(TEXT)
    client.open(uri, MARK + TEXT)
    # What was seen on the disk is what is in the buffer.
    first = await client.tool("edit", path="a.txt", file_tag=tag_of(TEXT), line=1, new="one 😀!")
    text = TEXT.replace("one", "one 😀!")
    assert (first["ok"], first["fileTag"], client.text(uri)) == (True, tag_of(text), MARK + text)
    client.change(uri, 1, 1, "é")
    assert await client.tag("a.txt") == tag_of("é" + text)
    # Before the mark, which then is one no longer, and away again.
    client.change(uri, 0, 0, "x")
    assert client.text(uri).startswith("x" + MARK)
    assert (await client.tool("read", path="a.txt"))["text"].splitlines()[1].startswith("1 x" + MARK)
    client.change(uri, 0, 1, "")
    every = await client.tool("edit", path="a.txt", file_tag=await client.tag("a.txt"), range="all", new="all\n")
    # A whole text that is replaced takes the endings of the old one.
    assert (every["ok"], every["fileTag"], client.text(uri)) == (True, tag_of("all"), MARK + "all")
    assert every["saved"] is (kind != "plain")
    assert client.on_disk(uri) == (MARK + "all" if every["saved"] else MARK + TEXT)


@pytest.mark.parametrize("kind", ["plain", "guarded"])
async def test_an_edit_that_shows_a_little_after_the_answer_counts(editor: Open, tmp_path: Path, kind: str) -> None:
    """Of an open document, and of one that the editor opens for it and does not save."""
    client = await editor(CLASSES[kind], edits={"save": False})
    uri = (tmp_path / "a.txt").as_uri()
    client.put(uri, TEXT, "utf-8")
    if kind == "plain":
        client.open(uri, TEXT)

    def answers_first(params: Any) -> Any:
        asyncio.get_running_loop().call_later(0.2, client.apply, params["edit"])
        return {"applied": True, "saved": False}

    client.handlers["workspace/applyEdit"] = client.handlers["ds4/applyGuardedEdit"] = answers_first
    result = await client.tool("edit", path="a.txt", file_tag=await client.tag("a.txt"), line=1, new="1")
    assert (result["ok"], result["saved"]) == (True, False)
    assert client.buffers[uri][1] == TEXT.replace("one", "1")


@pytest.mark.parametrize("kind", ["guarded", "saving", "plain", "guarded, not saving", "lying about saves"])
async def test_a_command_right_after_an_edit_sees_it_or_the_model_is_told(
    editor: Open, tmp_path: Path, kind: str
) -> None:
    saves = {"edits": {"save": False}} if kind == "guarded, not saving" else {}
    client = await editor(CLASSES.get(kind, CLASSES["guarded"]), **saves)
    if kind == "lying about saves":
        client.save = lambda _uri: True  # type: ignore[method-assign]
    for name, is_open in (("open.txt", True), ("closed.txt", False), ("new.txt", None)):
        uri = (tmp_path / name).as_uri()
        if is_open is None:
            result = await client.tool("write", path=name, content="one\nfresh\n")
        else:
            client.put(uri, "one\ntwo\n", "utf-8")
            if is_open:
                client.open(uri, "one\ntwo\n")
            tag = await client.tag(name)
            result = await client.tool("edit", path=name, file_tag=tag, line=2, new="fresh")
        assert result["ok"], result
        ran = await client.tool("bash", command=f"cat {name}")
        told = "bash` still see the old text" in result["text"]
        assert ("fresh" in ran["text"]) is not told
        assert result["saved"] is not told
        assert told == (kind in ("guarded, not saving", "lying about saves") or (kind == "plain" and is_open is True))


@pytest.mark.parametrize("when", ["before", "during"])
@pytest.mark.parametrize("kind", ["saving", "plain"])
async def test_a_file_that_is_not_open_is_guarded_in_clients_without_the_guarded_request(
    editor: Open, tmp_path: Path, kind: str, when: str
) -> None:
    """The editor is not asked: nothing would keep its edit off a text that has changed since the server looked."""
    client = await editor(CLASSES[kind])
    path = tmp_path / "a.txt"
    client.put(path.as_uri(), TEXT, "utf-8")
    tag = await client.tag("a.txt")
    # As long as before, and saved as soon: neither size nor time need tell.
    typed = TEXT.replace("three", "THREE").encode()
    client.meddle.write_text(json.dumps({"when": when, "path": str(path), "data": typed.hex()}))
    result = await client.tool("edit", path="a.txt", file_tag=tag, line=1, new="1")
    assert (result["ok"], result["code"]) == (False, "notApplied")
    assert "changed on disk" in result["text"]
    assert path.read_bytes() == typed
    again = await client.tool("edit", path="a.txt", file_tag=tag, line=1, new="1")
    assert (again["ok"], again["rebased"], again["saved"]) == (True, True, True)
    assert path.read_bytes() == typed.replace(b"one", b"1")
    assert client.notifications("workspace/applyEdit") == []
    assert names(tmp_path) == ["a.txt"]


async def test_a_disconnect_while_an_edit_is_under_way_leaves_files_whole(editor: Open, tmp_path: Path) -> None:
    client = await editor(CLASSES["guarded"])
    path = tmp_path / "a.txt"
    client.put(path.as_uri(), TEXT, "utf-8")
    client.open(path.as_uri(), TEXT)
    tag = await client.tag("a.txt")
    client.handlers["ds4/applyGuardedEdit"] = lambda _params: client.process.stdin.close()
    call = f'tool {{"name": "edit", "path": "a.txt", "file_tag": "{tag}", "line": 1, "new": "1"}}'
    client.send_command("ds4.prompt", {"text": call})
    assert await asyncio.wait_for(client.process.wait(), 20) == 1
    assert path.read_bytes() == TEXT.encode()
    assert names(tmp_path) == ["a.txt"]


def formats(client: EditorModel, uri: str) -> str:
    """What the editor's formatter makes of a document as it is saved."""
    text = client.buffers[uri][1]
    formatted = text.replace("x=1", "x = 1")
    if formatted != text:
        client.change(uri, 0, len(text), formatted)
    return formatted


@pytest.mark.parametrize("kind", ["open", "opened for it", "opened and closed", "never told of", "silent"])
async def test_an_edit_that_a_formatter_changes_on_save_is_made_and_saved(
    editor: Open, tmp_path: Path, kind: str
) -> None:
    client = await editor(CLASSES["guarded"], **({"working": 0.3} if kind == "silent" else {}))
    path = tmp_path / "a.py"
    uri = path.as_uri()
    client.put(uri, "a\nb\n", "utf-8")
    if kind == "open":
        client.open(uri, "a\nb\n")
    save = EditorModel.save

    def formats_and_saves(uri: str) -> bool:
        formats(client, uri)
        return save(client, uri)

    def in_secret(params: Any) -> Any:
        """An editor that does not show its language server the documents that it opens by itself."""
        path.write_text("x = 1\nb\n")
        return {"applied": True, "saved": True, "fileTag": tag_of("x = 1\nb\n")}

    def says_nothing(params: Any) -> Any:
        path.write_text("x=1\nb\n")
        return asyncio.Event().wait()

    honest = client.handlers["ds4/applyGuardedEdit"]

    def closes(params: Any) -> Any:
        answer = honest(params)
        client.close_document(uri)
        return answer

    client.save = formats_and_saves  # type: ignore[method-assign]
    handlers = {"never told of": in_secret, "silent": says_nothing, "opened and closed": closes}
    client.handlers["ds4/applyGuardedEdit"] = handlers.get(kind, honest)
    result = await client.tool("edit", path="a.py", file_tag=await client.tag("a.py"), line=1, new="x=1")
    assert (result["ok"], result["saved"]) == (True, True)
    assert ("has changed again" in result["text"]) is (kind != "silent")
    assert path.read_text() == ("x=1\nb\n" if kind == "silent" else "x = 1\nb\n")


async def test_an_edit_that_changes_nothing_claims_no_save(editor: Open, tmp_path: Path) -> None:
    client = await editor(CLASSES["guarded"])
    uri = (tmp_path / "a.txt").as_uri()
    client.put(uri, "old\n", "utf-8")
    client.open(uri, "typed\n")

    async def same(line: str) -> dict[str, Any]:
        return await client.tool("edit", path="a.txt", file_tag=await client.tag("a.txt"), line=1, new=line)

    unsaved = await same("typed")
    assert (unsaved["ok"], unsaved["saved"], client.on_disk(uri)) == (True, False, "old\n")
    assert "bash` still see the old text" in unsaved["text"]
    client.save(uri)
    saved = await same("typed")
    assert (saved["ok"], saved["saved"], "still see" in saved["text"]) == (True, True, False)
    assert client.notifications("ds4/applyGuardedEdit") == []


async def test_an_editor_may_take_its_time_to_open_a_file_and_is_told_when_it_is_given_up(
    editor: Open, tmp_path: Path
) -> None:
    # Anything takes longer than no time.
    client = await editor(CLASSES["guarded"], verify=0, working=20)
    path = tmp_path / "a.txt"
    client.put(path.as_uri(), TEXT, "utf-8")
    tag = await client.tag("a.txt")
    assert (await client.tool("edit", path="a.txt", file_tag=tag, line=1, new="1"))["ok"]
    assert client.notifications("$/cancelRequest") == []

    client = await editor(CLASSES["guarded"], working=0.1)
    client.handlers["ds4/applyGuardedEdit"] = lambda _params: asyncio.Event().wait()
    before = path.read_bytes()
    result = await client.tool("edit", path="a.txt", file_tag=await client.tag("a.txt"), line=1, new="2")
    assert (result["ok"], result["code"], path.read_bytes()) == (False, "notApplied", before)
    [sent] = [message for message in client.received if message.get("method") == "ds4/applyGuardedEdit"]
    assert client.notifications("$/cancelRequest") == [{"id": sent["id"]}]


@pytest.mark.parametrize("kind", ["guarded", "saving"])
async def test_an_open_document_is_not_saved_over_a_newer_file(editor: Open, tmp_path: Path, kind: str) -> None:
    client = await editor(CLASSES[kind])
    path = tmp_path / "a.txt"
    uri = path.as_uri()
    client.put(uri, TEXT, "utf-8")
    client.open(uri, TEXT)

    async def edit(line: int) -> dict[str, Any]:
        return await client.tool(
            "edit", path="a.txt", file_tag=await client.tag("a.txt"), line=line, new=f"edit {line}"
        )

    assert (await edit(1))["saved"]
    newer = TEXT + " from another program"
    path.write_bytes(newer.encode())
    result = await edit(2)
    assert (result["ok"], result["saved"], path.read_bytes().decode()) == (True, False, newer)
    assert "bash` still see the old text" in result["text"]
    assert "edit 2" in client.text(uri)
    # The user decided which text it is to be.
    client.save(uri)
    assert (await edit(3))["saved"]
    # What the user typed and did not save is saved with the edit, as ever.
    client.change(uri, 0, 0, "typed ")
    assert (await edit(4))["saved"]
    assert path.read_bytes().decode() == client.text(uri)


async def test_a_guarded_client_that_did_not_save_is_not_asked_to_save_all_the_same(
    editor: Open, tmp_path: Path
) -> None:
    """It may have found a newer file."""
    client = await editor(CLASSES["guarded"])
    uri = (tmp_path / "a.txt").as_uri()
    client.put(uri, TEXT, "utf-8")
    client.open(uri, TEXT)
    client.save = lambda _uri: False  # type: ignore[method-assign]
    result = await client.tool("edit", path="a.txt", file_tag=await client.tag("a.txt"), line=1, new="1")
    assert (result["ok"], result["saved"], client.on_disk(uri)) == (True, False, TEXT)
    assert client.notifications("ds4/saveDocument") == []


async def test_a_path_that_leads_elsewhere_after_a_permission_was_asked_is_not_written(
    editor: Open, tmp_path: Path
) -> None:
    client = await editor(CLASSES["plain"], permissions={"write": "ask"})
    outside = tmp_path.with_name(tmp_path.name + ".outside")
    for folder in (outside, tmp_path / "d"):
        folder.mkdir()
        (folder / "a.txt").write_bytes(TEXT.encode())
    tag = await client.tag("d/a.txt")

    def swapped(_params: Any) -> Any:
        (tmp_path / "d").rename(tmp_path / "moved")
        (tmp_path / "d").symlink_to(outside, target_is_directory=True)
        return {"title": "Allow once"}

    client.handlers["window/showMessageRequest"] = swapped
    result = await client.tool("edit", path="d/a.txt", file_tag=tag, line=1, new="1")
    assert (result["ok"], result["code"]) == (False, "notApplied")
    assert "leads somewhere else" in result["text"]
    assert (outside / "a.txt").read_bytes() == (tmp_path / "moved" / "a.txt").read_bytes() == TEXT.encode()


async def test_a_long_reason_is_cut_for_the_model(editor: Open, tmp_path: Path) -> None:
    client = await editor(CLASSES["guarded"])
    uri = (tmp_path / "a.txt").as_uri()
    client.put(uri, TEXT, "utf-8")
    client.open(uri, TEXT)
    answer = {"applied": False, "failureReason": "locked; " * 9000}
    client.handlers["ds4/applyGuardedEdit"] = lambda _params: answer
    result = await client.tool("edit", path="a.txt", file_tag=await client.tag("a.txt"), line=1, new="1")
    assert result["code"] == "notApplied"
    assert "locked" in result["text"]
    assert len(result["text"]) < 1000
