"""Sessions on the real engine: resumed, damaged, shared, forked, on a full disk. Nothing is lost, and each says why."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client, ResponseError, path_of
from rig import LONG, Rig, call, prompt
from session_logs import check, directory, log_path, only, read, surface

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa "
NO_SNAPSHOTS = {"sessions": {"snapshots": False}}


def shown(client: Client) -> list[str]:
    return [params["message"] for params in client.notifications("window/showMessage")]


async def refusal(client: Client, name: str, arguments: dict[str, Any]) -> ResponseError:
    with pytest.raises(ResponseError) as refused:
        await client.run(name, arguments, timeout=LONG)
    return refused.value


async def verified(rig: Rig) -> str:
    """What ``ds4-lsp sessions verify`` says of every session."""
    client = Client(sys.executable, "-m", "ds4_lsp", "sessions", "verify", env={"XDG_STATE_HOME": str(rig.state)})
    await client.start()
    code = await client.process.wait()
    text = (client.stray + client.stderr).decode()
    await client.close()
    assert code == 0, text
    return text


async def test_a_resumed_session_evaluates_only_the_suffix_and_says_what_an_uninterrupted_one_does(tiny: Rig) -> None:
    settings = {"sampling": {"maxTokens": 24}}
    first, second = "Name three colours.", "Now three animals."

    client = await tiny.start(settings=settings)
    one = await prompt(client, first)
    used = (await client.run("ds4.status"))["context"]["used"]
    assert await client.shutdown() == 0
    client = await tiny.start(settings=settings)
    resumed = await prompt(client, second)
    assert resumed["sessionId"] == one["sessionId"]
    assert resumed["turn"] == 2
    assert "restored" in client.stderr.decode()
    usage = resumed["usage"]
    assert used - usage["cachedTokens"] <= 2, "all but the end of the last reply was restored"
    assert usage["promptTokens"] <= 2 + 2 + len(second) + 20
    assert await client.shutdown() == 0

    # The same workspace with no past: nothing is interrupted there.
    shutil.move(tiny.state, tiny.root / "interrupted")
    client = await tiny.start(settings=settings)
    assert (await prompt(client, first))["text"] == one["text"]
    uninterrupted = await prompt(client, second)
    assert uninterrupted["text"] == resumed["text"]
    assert uninterrupted["usage"]["promptTokens"] == usage["promptTokens"]
    assert uninterrupted["usage"]["cachedTokens"] == usage["cachedTokens"]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def corrupt(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


async def test_a_snapshot_that_cannot_be_used_is_a_logged_miss(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("Noted."))
    session = (await prompt(client, "remember: " + WORDS * 20))["sessionId"]
    assert (await client.run("ds4.saveSession", timeout=LONG))["snapshot"] is True
    used = (await client.run("ds4.status"))["context"]["used"]
    for damage in (truncate, corrupt, empty):
        assert await client.shutdown() == 0
        [snapshot] = (directory(tiny, session) / "kv").glob("*.kv")
        damage(snapshot)
        client = await tiny.start(script=tiny.script("Yes."))
        result = await prompt(client, "still there?")
        assert (result["sessionId"], result["text"]) == (session, "Yes.")
        assert result["usage"]["cachedTokens"] < used, "evaluated, not restored"
        said = client.stderr.decode()
        assert f"{snapshot.name} cannot be used" in said
        assert {"truncate": "truncated", "corrupt": "checksum", "empty": "no snapshot"}[damage.__name__] in said
        used = (await client.run("ds4.status"))["context"]["used"]
    assert await client.shutdown() == 0
    # Whole, but of another context size.
    client = await tiny.start(script=tiny.script("Yes."), settings={"model": {"contextSize": 6144}})
    result = await prompt(client, "still there?")
    assert (result["sessionId"], result["text"]) == (session, "Yes.")
    assert result["usage"]["cachedTokens"] < used
    assert "no KV snapshot of the session fits" in client.stderr.decode()
    check(read(tiny, session))


async def test_a_log_that_cannot_be_read_is_refused_unchanged_and_forked_before_its_damage(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("First.", "Second."))
    session = (await prompt(client, "one"))["sessionId"]
    cut = read(tiny, session)[-1]["seq"]
    await prompt(client, "two")
    assert await client.shutdown() == 0
    path = log_path(tiny, session)
    whole = path.read_bytes()

    lines = whole.split(b"\n")
    place = sum(len(line) + 1 for line in lines[: cut + 3]) + 20
    flipped = whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :]
    path.write_bytes(flipped)
    client = await tiny.start(script=tiny.script("New.", "Again."))
    assert (await prompt(client, "hello"))["sessionId"] != session
    error = await refusal(client, "ds4.switchSession", {"sessionId": session})
    assert error.data["code"] == "corruptSession"
    assert error.data["line"] == cut + 4
    assert f"fork up to event {cut + 2}" in error.message
    assert path.read_bytes() == flipped
    fork = (await client.run("ds4.forkSession", {"sessionId": session, "seq": cut}))["sessionId"]
    assert [event["data"] for event in read(tiny, fork)[1 : cut + 1]] == [
        json.loads(line)["data"] for line in lines[1 : cut + 1]
    ]
    assert (await prompt(client, "go on", sessionId=fork))["text"] == "Again."
    assert await client.shutdown() == 0

    for text in (b'"format":2', b'"type":"hologram/shown"'):
        newer = lines[0].replace(b'"format":1', text) if b"format" in text else lines[0]
        later = lines[1 : cut + 1]
        if b"type" in text:
            later[-1] = later[-1].replace(b'"type":"turn/end"', text)
        path.write_bytes(b"\n".join([sealed(newer), *later[:-1], sealed(later[-1])]) + b"\n")
        before = path.read_bytes()
        client = await tiny.start()
        error = await refusal(client, "ds4.switchSession", {"sessionId": session})
        assert error.data["code"] == "corruptSession"
        assert "newer version" in error.message
        assert path.read_bytes() == before
        await client.close()


def sealed(line: bytes) -> bytes:
    """The line with its checksum made right again."""
    head = line[: line.rindex(b',"crc":"')]
    return b'%b,"crc":"%08x"}' % (head, zlib.crc32(head))


async def test_two_servers_never_write_one_session_and_the_second_may_fork_it(tiny: Rig) -> None:
    holder = await tiny.start(script=tiny.script("Mine.", "Still mine."))
    session = (await prompt(holder, "hello"))["sessionId"]
    other = await tiny.start(script=tiny.script("Another.", "From the fork."))
    assert (await prompt(other, "who are you?"))["sessionId"] != session
    error = await refusal(other, "ds4.switchSession", {"sessionId": session})
    assert error.data["code"] == "sessionLocked"
    assert error.data["pid"] == holder.process.pid
    assert str(holder.process.pid) in error.message
    error = await refusal(other, "ds4.deleteSession", {"sessionId": session})
    assert error.data["code"] == "sessionLocked"
    # To read is allowed, and locks nothing.
    history = (await other.run("ds4.showHistory", {"sessionId": session}))["history"]
    assert [entry["text"] for entry in history] == ["hello", "Mine."]
    assert "Mine." in (await prompt(other, "/history", sessionId=session))["text"]
    exported = (await other.run("ds4.exportSession", {"sessionId": session}))["uri"]
    assert "Mine." in path_of(exported).read_text()
    fork = (await other.run("ds4.forkSession", {"sessionId": session}))["sessionId"]
    history = (await other.run("ds4.showHistory", {"sessionId": fork}))["history"]
    assert [entry["text"] for entry in history] == ["hello", "Mine."]
    assert (await prompt(other, "go on", sessionId=fork))["text"] == "From the fork."
    assert (await prompt(holder, "go on"))["text"] == "Still mine."
    assert read(tiny, fork)[0]["data"]["parent"]["sessionId"] == session
    check(read(tiny, session))
    check(read(tiny, fork))


async def test_who_reads_a_session_does_not_keep_it_from_others(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("First."))
    session = (await prompt(client, "one"))["sessionId"]
    assert await client.shutdown() == 0
    reader = await tiny.start()
    # It was resumed there; another becomes the current one, and it is deleted from the open ones by a restart.
    await reader.run("ds4.newSession", {"title": "reader's own"})
    assert await reader.shutdown() == 0
    reader = await tiny.start()
    assert (await reader.run("ds4.status"))["session"]["sessionId"] != session
    assert len((await reader.run("ds4.showHistory", {"sessionId": session}))["history"]) == 2
    await reader.run("ds4.exportSession", {"sessionId": session})
    await reader.request("workspace/textDocumentContent", {"uri": f"ds4:/session/{session}"})
    writer = await tiny.start(script=tiny.script("Second."))
    assert (await prompt(writer, "two", sessionId=session))["text"] == "Second."
    check(read(tiny, session))


async def test_a_full_disk_stops_the_turn_with_a_clear_error_and_the_session_goes_on_with_room(tiny: Rig) -> None:
    tiny.file("a.txt", "one line\n" * 40)
    replies = [call("write", path=f"new{number}.txt", content="x" * 300) for number in range(4)]
    script = tiny.script("Noted.", *[text for reply in replies for text in (reply, "Done.")])
    client = await tiny.start(script=script, settings=NO_SNAPSHOTS)
    session = (await prompt(client, "hello"))["sessionId"]
    path = log_path(tiny, session)
    _, hard = resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE)
    for room in (50, 400, 900, 1900):
        before = path.read_bytes()
        # A file system without room, for this process: writing beyond the limit fails like a full disk.
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (len(before) + room, hard))
        try:
            result = await prompt(client, "write a file")
            message = result["error"]
            assert result["stopReason"] == "error"
        except ResponseError as error:
            message = error.message
            assert error.data["code"] == "storage"
        assert "Free some space" in message
        assert path.read_bytes().startswith(before)
        resource.prlimit(client.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert (await client.run("ds4.status"))["state"] == "idle"
    again = await prompt(client, "and now?")
    assert again["stopReason"] == "end"
    events = read(tiny, session)
    check(events)
    edits = {Path(event["data"]["path"]).name for event in only(events, "edit/applied")}
    assert {path.name for path in tiny.workspace.glob("new*.txt")} == edits, "no side effect without its record"
    assert await client.shutdown() == 0
    await verified(tiny)


async def test_a_directory_that_vanishes_is_told_and_its_return_heals(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("Noted.", "Back.", "Elsewhere.", "More."))
    session = (await prompt(client, "hello"))["sessionId"]
    there = directory(tiny, session)
    there.rename(tiny.root / "gone")
    error = await refusal(client, "ds4.prompt", {"text": "are you there?"})
    assert error.data["code"] == "storage"
    assert "put it back, or start a new session" in error.message
    (tiny.root / "gone").rename(there)
    assert (await prompt(client, "and now?"))["text"] == "Back."
    check(read(tiny, session))
    there.rename(tiny.root / "gone")
    await client.run("ds4.switchSession", {"sessionId": session})
    assert (await refusal(client, "ds4.saveSession", {})).data["code"] == "storage"
    fresh = (await client.run("ds4.newSession"))["sessionId"]
    assert (await prompt(client, "hello"))["sessionId"] == fresh
    await client.run("ds4.switchSession", {"sessionId": session})
    assert await client.shutdown() == 0
    assert not there.exists(), "nothing begins it anew"

    (tiny.root / "gone").rename(there)
    client = await tiny.start(script=tiny.script("Yes."))
    assert (await prompt(client, "still there?", sessionId=session))["text"] == "Yes."
    check(read(tiny, session))
    await client.run("ds4.switchSession", {"sessionId": session})
    # Waits for what the switch began.
    await client.run("ds4.saveSession", timeout=LONG)
    shutil.rmtree(there)
    # Gone for good: it can be deleted, and then is not the current one any more.
    assert (await client.run("ds4.deleteSession", {"sessionId": session[:8]}))["deleted"] is True
    assert (await client.run("ds4.status"))["session"] is None
    assert (await refusal(client, "ds4.deleteSession", {"sessionId": session})).data["code"] == "notFound"
    assert await client.shutdown() == 0
    assert not there.exists()


async def test_sessions_are_listed_switched_forked_exported_shown_and_deleted(tiny: Rig) -> None:
    tiny.file("a.txt", "one line\n")
    script = tiny.script(call("read", path="a.txt"), "One line.", "Hi.", "A fork.", "Back.")
    client = await tiny.start(script=script)
    first = (await prompt(client, "what is in a.txt?"))["sessionId"]
    used = (await client.run("ds4.status"))["context"]["used"]
    second = (await client.run("ds4.newSession", {"title": "Greetings\n* all"}))["sessionId"]
    assert (await prompt(client, "hello"))["sessionId"] == second
    listed = (await client.run("ds4.listSessions"))["sessions"]
    assert [(one["sessionId"], one["title"], one["turns"], one["current"]) for one in listed] == [
        (second, "Greetings\n* all", 1, True),
        (first, "what is in a.txt?", 1, False),
    ]

    switched = await client.run("ds4.switchSession", {"sessionId": first[:6]}, timeout=LONG)
    assert switched["sessionId"] == first
    assert [(entry["role"], entry["text"].split("\n")[-1]) for entry in switched["history"]] == [
        ("user", "what is in a.txt?"),
        ("assistant", ""),
        ("tool", "1 one line"),
        ("assistant", "One line."),
    ]
    # Saving waits for what the switch began: the KV of the first session, from the snapshot that /new left.
    assert (await client.run("ds4.saveSession", timeout=LONG))["snapshot"] is True
    fork = (await client.run("ds4.forkSession"))["sessionId"]
    answer = await prompt(client, "go on")
    assert (answer["sessionId"], answer["text"]) == (fork, "A fork.")
    assert used - answer["usage"]["cachedTokens"] <= 3, "a fork begins with the KV of its original"

    exported = (await client.run("ds4.exportSession", {"sessionId": first}))["uri"]
    markdown = path_of(exported).read_text()
    document = await client.request("workspace/textDocumentContent", {"uri": f"ds4:/session/{first}"})
    for text in (markdown, document["text"]):
        assert "what is in a.txt?" in text
        assert "1 one line" in text
        assert "One line." in text
        assert "DSML" not in text
    with pytest.raises(ResponseError) as refused:
        await client.request("workspace/textDocumentContent", {"uri": f"ds4:/session/{first}/checkpoint/{'9' * 5000}"})
    assert refused.value.code == -32602
    assert len(refused.value.message) < 300
    lines = (await client.run("ds4.exportSession", {"sessionId": first, "format": "jsonl"}))["uri"]
    exported_events = [json.loads(line) for line in path_of(lines).read_text().splitlines()]
    assert [event["seq"] for event in exported_events] == [event["seq"] for event in read(tiny, first)]

    assert (await client.run("ds4.deleteSession", {"sessionId": fork}))["deleted"] is True
    assert (await refusal(client, "ds4.switchSession", {"sessionId": fork})).data["code"] == "notFound"
    with pytest.raises(ResponseError):
        await client.request("workspace/textDocumentContent", {"uri": f"ds4:/session/{fork}"})
    slash = await prompt(client, f"/switch {second[:8]}")
    assert slash["sessionId"] == second
    assert "hello" in slash["text"]
    [line] = [line for line in (await prompt(client, "/list"))["text"].splitlines() if second[:8] in line]
    assert "Greetings * all" in line
    assert (await prompt(client, "still here?"))["sessionId"] == second
    assert [node["data"]["text"] for node in surface(read(tiny, second))] == ["hello", "Hi.", "still here?", "Back."]


async def test_queued_prompts_survive_a_kill_and_run_in_order_when_the_user_sends_them(tiny: Rig) -> None:
    slow = {"purpose": "turn", "text": "word " * 200, "delay_ms": 30}
    client = await tiny.start(script=tiny.script("Noted.", slow))
    session = (await prompt(client, "hello"))["sessionId"]
    client.send_command("ds4.prompt", {"text": "write a lot"})
    await client.wait(lambda: len(client.events("text")) > 3, LONG)
    for text in ("second", "third"):
        assert (await client.run("ds4.prompt", {"text": text, "wait": False}))["queued"] is True
    client.process.kill()
    await client.process.wait()

    client = await tiny.start(script=tiny.script("A.", "B.", "C."))
    status = await client.run("ds4.status")
    assert [item["text"] for item in status["queue"]] == ["second", "third"]
    await client.run("ds4.interrupt", {"sendQueued": True})
    await prompt(client, "I am back")
    events = read(tiny, session)
    check(events)
    prompts = [event["data"]["text"] for event in only(events, "user/message") if event["data"]["kind"] == "prompt"]
    assert prompts == ["hello", "write a lot", "second", "third", "I am back"]
    assert (await client.run("ds4.status"))["queue"] == []
    [interrupted] = [event for event in only(events, "turn/end") if event["data"].get("interrupted")]
    assert interrupted["data"]["turn"] == 2
