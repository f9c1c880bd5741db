"""What happens to sessions when something else happens: damage, read-only places, forks, other models, kills. The user
is told, the model is told, and nothing that was acknowledged is lost."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client, Disconnected, ResponseError
from rig import LONG, Rig, call, prompt
from session_logs import check, directory, log_path, only, read, surface

from benchmarks.tiny_model import build
from ds4_lsp.session.verify import verify

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa "
BOUND = (str(Path(__file__).parents[1] / "bound_by_modes.py"), sys.executable, "-m", "ds4_lsp")
MIDWAY = (str(Path(__file__).parent / "midway_server.py"),)
QUIET = {"thinking": "off"}
ALLOWED = {"permissions": {"bash": "allow"}}
NO_SNAPSHOTS = {"sessions": {"snapshots": False}}
BACKGROUND = call("bash", command="sleep 600", refresh_sec=1)


def shown(client: Client) -> list[str]:
    return [params["message"] for params in client.notifications("window/showMessage")]


def notices(rig: Rig, session: str) -> list[str]:
    """What the model was told beside prompts and results."""
    nodes = surface(read(rig, session))
    return [node["data"]["text"] for node in nodes if node["data"].get("kind") == "notice"]


def is_whole(rig: Rig, session: str) -> None:
    check(read(rig, session))
    assert verify(directory(rig, session)).problems == []


async def refusal(client: Client, name: str, arguments: dict[str, Any]) -> ResponseError:
    with pytest.raises(ResponseError) as refused:
        await client.run(name, arguments, timeout=LONG)
    return refused.value


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["as it was", "garbled", "missing"])
async def test_of_a_damaged_newest_session_the_user_is_told_and_the_one_before_it_is_resumed(
    tiny: Rig, cache: str
) -> None:
    client = await tiny.start(script=tiny.script("First.", "Second."))
    older = (await prompt(client, "one"))["sessionId"]
    await client.run("ds4.newSession")
    newest = (await prompt(client, "two"))["sessionId"]
    assert await client.shutdown() == 0
    path = log_path(tiny, newest)
    damaged = path.read_bytes().replace(b"Second.", b"Sekond.")
    path.write_bytes(damaged)
    if cache == "garbled":
        path.with_name("meta.json").write_text(json.dumps({"version": 1, "updated_at": [], "title": 7}))
    elif cache == "missing":
        path.with_name("meta.json").unlink()

    client = await tiny.start(script=tiny.script("Third."))
    told = await client.wait_for("window/showMessage", lambda params: newest in params["message"])
    assert str(path.parent) in told["message"]
    assert "is damaged" in told["message"]
    assert f"`ds4-lsp sessions verify {newest}`" in told["message"]
    listed = (await client.run("ds4.listSessions"))["sessions"]
    assert {one["sessionId"] for one in listed} == {older, newest}
    assert (await prompt(client, "three"))["sessionId"] == older
    assert path.read_bytes() == damaged
    # What was resumed is the newest now: nothing is told again.
    assert await client.shutdown() == 0
    client = await tiny.start()
    assert (await client.run("ds4.status"))["session"]["sessionId"] == older
    assert not [text for text in shown(client) if newest in text]


# --- forks ------------------------------------------------------------------------------------------------------------


async def test_a_forks_copy_of_a_running_job_is_not_called_lost_and_the_job_goes_on(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(BACKGROUND, "It runs.", "In the fork."), settings=ALLOWED)
    session = (await prompt(client, "start it"))["sessionId"]
    [job] = (await client.run("ds4.listJobs"))["jobs"]
    assert job["state"] == "running"
    fork = (await client.run("ds4.forkSession"))["sessionId"]
    [copy] = (await client.run("ds4.listJobs"))["jobs"]
    assert (copy["job"], copy["state"]) == (1, "elsewhere")
    await prompt(client, "and now?")
    [notice] = notices(tiny, fork)
    assert f"copy of {session}" in notice
    assert "job 1: sleep 600" in notice
    assert "lost" not in notice
    assert not [event for event in only(read(tiny, fork), "job/ended") if event["data"]["state"] == "lost"]
    await client.run("ds4.switchSession", {"sessionId": session}, timeout=LONG)
    [job] = (await client.run("ds4.listJobs"))["jobs"]
    assert job["state"] == "running"
    assert only(read(tiny, session), "job/ended") == []
    assert await client.shutdown() == 0
    is_whole(tiny, session)
    is_whole(tiny, fork)


# --- what the model has to hear ---------------------------------------------------------------------------------------


async def test_what_the_model_was_not_told_before_a_second_restart_it_is_told_after_it_and_once(tiny: Rig) -> None:
    path = tiny.file("a.txt", "one\n")
    script = tiny.script(BACKGROUND, call("write", path="new.txt", content="x\n"), "Done.")
    client = await tiny.start(script=script, settings=ALLOWED)
    session = (await prompt(client, "do both"))["sessionId"]
    client.process.kill()
    await client.process.wait()

    client = await tiny.start(settings=ALLOWED)
    assert (await client.run("ds4.listJobs"))["jobs"][0]["state"] == "lost"
    assert (await client.run("ds4.undoTurn", {}))["reverted"] == [tiny.uri("new.txt")]
    assert await client.shutdown() == 0
    for number in range(2):
        client = await tiny.start(script=tiny.script("I see."), settings=ALLOWED)
        await prompt(client, f"prompt {number}")
        lost, undone = sorted(notices(tiny, session))
        assert lost == "The server was restarted: these jobs are lost. job 1: sleep 600"
        assert undone == "The user undid your edits of turn 1 in new.txt. Read again before you edit."
        assert await client.shutdown() == 0
    assert path.read_text() == "one\n"
    is_whole(tiny, session)


# --- no room ----------------------------------------------------------------------------------------------------------


async def test_an_edit_whose_record_finds_no_room_is_told_can_be_undone_and_is_recorded_with_room(tiny: Rig) -> None:
    tiny.file("a.txt", "one\ntwo\n")
    edit = call("edit", path="a.txt", file_tag="@", line=2, new="2")
    client = await tiny.start(script=tiny.script(call("read", path="a.txt"), "Read."), settings=NO_SNAPSHOTS)
    session = (await prompt(client, "read it"))["sessionId"]
    [tag] = [place["fileTag"] for event in only(read(tiny, session), "tool/result") for place in event["data"]["shown"]]
    assert await client.shutdown() == 0
    client = await tiny.start(script=tiny.script(edit.replace("@", tag), "Good."), settings=NO_SNAPSHOTS)
    client.open(tiny.uri("a.txt"), "one\ntwo\n")
    _, hard = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
    guarded = client.handlers["ds4/applyGuardedEdit"]

    def apply_on_a_full_disk(params: Any) -> Any:
        size = log_path(tiny, session).stat().st_size
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (size + 10, hard))
        return guarded(params)

    client.handlers["ds4/applyGuardedEdit"] = apply_on_a_full_disk
    result = await prompt(client, "change it")
    assert result["stopReason"] == "error"
    assert "Free some space" in result["error"]
    assert client.buffers[tiny.uri("a.txt")][1] == "one\n2\n"
    await client.wait(lambda: [text for text in shown(client) if "a.txt was changed" in text])
    assert only(read(tiny, session), "edit/applied") == []
    assert (await client.run("ds4.undoTurn", {}))["reverted"] == [tiny.uri("a.txt")]
    assert client.buffers[tiny.uri("a.txt")][1] == "one\ntwo\n"

    resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert (await prompt(client, "and now?"))["text"] == "Good."
    edits = [event["data"] for event in only(read(tiny, session), "edit/applied")]
    assert [edit.get("undoes") for edit in edits] == [None, 2]
    assert any("a.txt was made" in text for text in notices(tiny, session))
    assert any("undid your edits of turn 2" in text for text in notices(tiny, session))
    assert await client.shutdown() == 0
    is_whole(tiny, session)


async def test_a_session_whose_last_events_find_no_room_can_be_deleted(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script(BACKGROUND, "It runs."), settings={**ALLOWED, **NO_SNAPSHOTS})
    session = (await prompt(client, "start it"))["sessionId"]
    place = directory(tiny, session)
    _, hard = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
    # Deleting ends the job, and no line can be added that says so.
    resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (log_path(tiny, session).stat().st_size + 10, hard))
    assert (await client.run("ds4.deleteSession", {"sessionId": session}))["deleted"] is True
    assert not place.exists()
    assert (await client.run("ds4.status"))["session"] is None
    assert await client.shutdown() == 0


@contextmanager
def read_only(place: Path, *, files: bool) -> Iterator[None]:
    """Nothing can be created under ``place``; with ``files`` nothing can be written there either."""
    paths = [place, *place.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        if path.is_dir() or files:
            path.chmod(modes[path] & ~0o222)
    try:
        yield
    finally:
        for path in paths:
            if path.exists():
                path.chmod(modes[path])


async def test_where_nothing_can_be_written_prompts_are_refused_with_a_reason_until_it_can(tiny: Rig) -> None:
    tiny.prompts = None  # they would be shared through the place that is to be read-only
    tiny.state.mkdir()
    with read_only(tiny.state, files=True):
        client = await tiny.start(script=tiny.script("Hello."), program=BOUND, settings=NO_SNAPSHOTS)
        for name, arguments in (("ds4.prompt", {"text": "hi"}), ("ds4.newSession", {})):
            error = await refusal(client, name, arguments)
            assert error.data["code"] == "storage"
            assert str(tiny.state) in error.message
            assert "Make it writable, or set ds4.sessions.directory" in error.message
        assert (await client.run("ds4.listSessions"))["sessions"] == []
        assert (await client.run("ds4.status"))["queue"] == []
    result = await prompt(client, "hi")
    assert result["text"] == "Hello."
    assert await client.shutdown() == 0
    is_whole(tiny, result["sessionId"])


async def test_a_session_in_a_read_only_place_is_left_as_it_is_told_of_and_resumed_when_that_is_over(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("First."))
    session = (await prompt(client, "one"))["sessionId"]
    assert await client.shutdown() == 0
    before = log_path(tiny, session).read_bytes()
    with read_only(tiny.state, files=True):
        client = await tiny.start(script=tiny.script("No."), program=BOUND)
        told = await client.wait_for("window/showMessage", lambda params: session in params["message"])
        assert "was not resumed" in told["message"]
        assert "Make it writable" in told["message"]
        for name, arguments in (
            ("ds4.prompt", {"text": "hi"}),
            ("ds4.prompt", {"text": "hi", "sessionId": session}),
            ("ds4.switchSession", {"sessionId": session}),
            ("ds4.forkSession", {"sessionId": session}),
            ("ds4.deleteSession", {"sessionId": session}),
        ):
            assert (await refusal(client, name, arguments)).data["code"] == "storage", name
        [listed] = (await client.run("ds4.listSessions"))["sessions"]
        assert (listed["sessionId"], listed["turns"]) == (session, 1)
        document = await client.request("workspace/textDocumentContent", {"uri": f"ds4:/session/{session}"})
        assert "First." in document["text"]
        assert await client.shutdown() == 0
        assert log_path(tiny, session).read_bytes() == before
    client = await tiny.start(script=tiny.script("Second."))
    assert (await prompt(client, "two"))["sessionId"] == session
    is_whole(tiny, session)


async def test_an_edit_that_undo_could_not_take_back_is_not_made(tiny: Rig) -> None:
    script = tiny.script("Hi.", call("write", path="new.txt", content="x\n"), "Not done.", "Now it is.")
    client = await tiny.start(script=script, program=BOUND, settings=NO_SNAPSHOTS)
    session = (await prompt(client, "hello"))["sessionId"]
    with read_only(directory(tiny, session), files=False):
        # The log is open and goes on; there is no place for the text that undo would need.
        assert (await prompt(client, "write it"))["text"] == "Not done."
        [result] = only(read(tiny, session), "tool/result")
        assert result["data"]["ok"] is False
        assert "Make it writable" in result["data"]["text"]
        assert not (tiny.workspace / "new.txt").exists()
        assert only(read(tiny, session), "edit/applied") == []
    assert await client.shutdown() == 0
    is_whole(tiny, session)


# --- other models -----------------------------------------------------------------------------------------------------


def kv(rig: Rig, session: str) -> Path:
    [path] = (directory(rig, session) / "kv").glob("*.kv")
    return path


def _says(client: Client, text: str) -> Callable[[], bool]:
    return lambda: text in client.stderr.decode()


async def used(client: Client) -> int:
    return int((await client.run("ds4.status"))["context"]["used"])


async def test_a_snapshot_of_another_model_or_context_is_a_miss_even_under_the_right_name(
    tiny: Rig, small_model: Path
) -> None:
    """The same vocabulary throughout, so that the transcript has the same tokens."""
    other = build(small_model, tiny.root / "other.gguf", context=16384)
    client = await tiny.start(script=tiny.script("Noted."))
    session = (await prompt(client, "remember: " + WORDS * 20))["sessionId"]
    count = await used(client)
    assert await client.shutdown() == 0
    right = kv(tiny, session)
    for variant in ("model", "context"):
        # A snapshot of the same tokens by the other one.
        kept = right.read_bytes()
        model = {"DS4_MODEL": str(other)} if variant == "model" else {}
        size = {"model": {"contextSize": 6144}} if variant == "context" else {}
        client = await tiny.start(env=model, settings=size)
        await client.wait(_says(client, "no KV snapshot of the session fits"), LONG)
        # The newest reply's end belongs to the transcript once something follows it.
        assert count <= (await client.run("ds4.saveSession", timeout=LONG))["tokens"] <= count + 2
        assert await client.shutdown() == 0
        wrong = kv(tiny, session)
        assert wrong.name.split("-")[0] != right.name.split("-")[0]
        content = wrong.read_bytes()
        wrong.unlink()
        # Its content under the name that the first model looks for.
        right.write_bytes(content)
        right.chmod(0o600)
        client = await tiny.start(script=tiny.script("Yes."))
        result = await prompt(client, "still there?")
        assert (result["sessionId"], result["text"]) == (session, "Yes.")
        said = client.stderr.decode()
        assert f"{right.name} cannot be used" in said
        assert "it is of another model, build or setting" in said
        usage = result["usage"]
        assert usage["cachedTokens"] < count
        count = await used(client)
        assert usage["cachedTokens"] + usage["promptTokens"] + usage["completionTokens"] == count
        assert not right.exists() or right.read_bytes() != content
        assert await client.shutdown() == 0
        for path in (directory(tiny, session) / "kv").iterdir():
            path.unlink()
        right.write_bytes(kept)
        right.chmod(0o600)
    is_whole(tiny, session)


async def test_replies_of_another_vocabulary_are_tokenised_anew_which_is_logged_and_told_once(
    tiny: Rig, deepseek_header: Path
) -> None:
    other = build(deepseek_header, tiny.root / "other.gguf", context=8192)
    client = await tiny.start(script=tiny.script("Noted.", "Indeed."))
    session = (await prompt(client, "one"))["sessionId"]
    await prompt(client, "two")
    assert await client.shutdown() == 0
    before = surface(read(tiny, session))
    assert not only(read(tiny, session), "session/retokenised")

    for start in range(2):
        client = await tiny.start(script=tiny.script("Read."), env={"DS4_MODEL": str(other)}, settings=QUIET)
        result = await prompt(client, f"three {start}")
        assert (result["sessionId"], result["text"]) == (session, "Read.")
        told = [text for text in shown(client) if "came from another model" in text]
        assert len(told) == (1 if start == 0 else 0)
        assert await client.shutdown() == 0
    events = read(tiny, session)
    [logged] = only(events, "session/retokenised")
    assert logged["data"]["replies"] == 2
    assert logged["ignorable"] is True
    assert surface(events)[: len(before)] == before

    # Back to the first: two replies are the other's now.
    client = await tiny.start(script=tiny.script("Back."))
    assert (await prompt(client, "four"))["text"] == "Back."
    [told] = [text for text in shown(client) if "came from another model" in text]
    assert "2 replies" in told
    assert await client.shutdown() == 0
    assert [event["data"]["replies"] for event in only(read(tiny, session), "session/retokenised")] == [2, 2]
    is_whole(tiny, session)


# --- kills ------------------------------------------------------------------------------------------------------------


async def test_a_server_killed_anywhere_in_prefill_or_decoding_loses_nothing_acknowledged(tiny: Rig) -> None:
    """Between the durability points of a turn, at which ``test_durability`` kills it."""
    settings = {"model": {"batchSize": 32, "contextSize": 8192}, "compaction": {"auto": False}}
    slow = {"purpose": "turn", "text": "one two three four five six seven eight nine ten " * 3, "delay_ms": 60}
    armed = tiny.root / "armed"
    expected: list[str] = []
    session = None
    for phase, point in [(phase, point) for phase in ("prefill", "decoding") for point in (1, 3, 5)]:
        env = {"MIDWAY": f"{phase}:{point}", "MIDWAY_ARMED": str(armed)}
        client = await tiny.start(script=tiny.script(slow), settings=settings, env=env, program=MIDWAY)
        if session is None:
            session = (await client.run("ds4.newSession"))["sessionId"]
        text = f"{phase} {point} " + WORDS * 20
        armed.touch()
        with pytest.raises(Disconnected):
            await client.run("ds4.prompt", {"text": text, "sessionId": session}, timeout=LONG)
        await client.process.wait()
        assert client.process.returncode == -9
        armed.unlink()
        told = [event["seq"] for event in client.events() if "seq" in event]
        assert bool(client.events("text")) <= (phase == "decoding")
        left = log_path(tiny, session).read_bytes()
        assert left.endswith(b"\n"), "an event is one write"
        assert told
        assert max(told) < left.count(b"\n")

        client = await tiny.start(script=tiny.script("After."), settings=settings)
        result = await prompt(client, "go on")
        assert (result["sessionId"], result["text"], result["stopReason"]) == (session, "After.", "end")
        assert log_path(tiny, session).read_bytes().startswith(left)
        events = read(tiny, session)
        expected += [text, "go on"]
        asked = [event["data"] for event in only(events, "user/message") if event["data"]["kind"] == "prompt"]
        assert [data["text"] for data in asked] == expected
        assert [event["data"]["text"] for event in only(events, "assistant/message")] == ["After."] * (
            len(expected) // 2
        )
        assert len([end for end in only(events, "turn/end") if end["data"].get("interrupted")]) == len(expected) // 2
        usage, context = result["usage"], await used(client)
        assert usage["cachedTokens"] + usage["promptTokens"] + usage["completionTokens"] == context
        assert await client.shutdown() == 0
        is_whole(tiny, session)
