"""Compaction on the real engine, behind a real client. The specification's scenarios, and what others got wrong."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client, ResponseError
from rig import LONG, Rig, call, prompt
from session_logs import check, log_path, only, read, surface

HEADINGS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code",
    "Errors and Fixes",
    "Pending Jobs",
    "Current Work",
    "Next Step",
    "Critical Context",
)
SUMMARY = "\n".join(f"## {heading}\nNothing of note." for heading in HEADINGS)
README = "".join("One more setting and what it does.\n" for _ in range(999)) + "The last setting.\n"
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa "


def summary(text: str = SUMMARY, delay_ms: int = 0) -> dict[str, Any]:
    return {"purpose": "summary", "text": text, "delay_ms": delay_ms}


def slow(text: str, delay_ms: int) -> dict[str, Any]:
    return {"purpose": "turn", "text": text, "delay_ms": delay_ms}


def model(context: int) -> dict[str, Any]:
    return {"model": {"contextSize": context}}


def traced(path: Path, what: str) -> list[dict[str, Any]]:
    return [entry for entry in map(json.loads, path.read_text().splitlines()) if entry["what"] == what]


def bars(client: Client) -> list[list[dict[str, Any]]]:
    """The values of each progress titled COMPACTING, in order."""
    all_params = client.notifications("$/progress")
    tokens = [
        params["token"]
        for params in all_params
        if params["value"]["kind"] == "begin" and params["value"]["title"] == "COMPACTING"
    ]
    return [client.progress(token) for token in tokens]


def whole(bar: list[dict[str, Any]]) -> bool:
    kinds = [value["kind"] for value in bar]
    figures = [value["percentage"] for value in bar if "percentage" in value]
    return (
        kinds[0] == "begin"
        and kinds[-1] == "end"
        and set(kinds[1:-1]) <= {"report"}
        and figures == sorted(figures)
        and bar[0]["cancellable"] is True
    )


async def compacting(client: Client, count: int = 1) -> None:
    """Wait until the summary of the ``count``-th compaction is being written."""

    def begun() -> bool:
        kinds = [event["kind"] for event in client.events()]
        starts = [at for at, kind in enumerate(kinds) if kind == "compaction.start"]
        return len(starts) >= count and "compaction.delta" in kinds[starts[count - 1] :]

    await client.wait(begun, LONG)


async def nearly_fill(client: Client) -> asyncio.Future[Any]:
    """Send two prompts to a session of context 6144. The second one, whose answer is returned, reaches 85 %."""
    await prompt(client, "keep these: " + WORDS * 190)
    used = (await client.run("ds4.status"))["context"]["used"]
    _, turn = client.send_command("ds4.prompt", {"text": "yes " * (6144 * 85 // 100 - used + 16)})
    return turn


async def test_a_result_that_does_not_fit_compacts_first_and_then_follows_its_call(tiny: Rig) -> None:
    tiny.file("README.md", README)
    trace = tiny.root / "trace.jsonl"
    script = tiny.script(
        call("read", path="README.md", max_lines=500),
        "And the rest.\n\n" + call("more", count=500),
        "It lists a thousand settings.",
        summary(),
    )
    client = await tiny.start(script=script, settings=model(12000), arguments=("--trace", str(trace)))
    result = await prompt(client, "what does README.md list?")
    assert result["stopReason"] == "end"
    assert result["text"] == "And the rest.\n\nIt lists a thousand settings."
    assert [one["ok"] for one in result["toolCalls"]] == [True, True]

    events = read(tiny, result["sessionId"])
    check(events)
    [start] = only(events, "compact/start")
    assert start["data"]["trigger"] == "hard"
    [end] = only(events, "compact/end")
    delayed = only(events, "tool/result")[-1]
    assert start["seq"] < end["seq"] < delayed["seq"], "the result is appended once there is room"
    assert "501 One more" in delayed["data"]["text"]
    assert "1000 The last setting." in delayed["data"]["text"]
    nodes = surface(events)
    assert nodes[0]["data"]["kind"] == "checkpoint"
    assert [node["type"] for node in nodes[1:5]] == ["assistant/message", "tool/result"] * 2
    for reply, answer in (nodes[1:3], nodes[3:5]):
        assert reply["data"]["calls"][0]["callId"] == answer["data"]["callId"]
    assert "what does README.md list?" in nodes[0]["data"]["parts"]["task"]
    assert "README.md: read 1-500; file_tag=" in nodes[0]["data"]["parts"]["ledger"]
    # The tail is token for token what was sampled, and ends the result that it begins in.
    assert [nodes[1], nodes[3]] == only(events, "assistant/message")[:2]
    read_first, part = only(events, "tool/result")[0]["data"], nodes[2]["data"]
    assert read_first["text"].endswith(part["text"].rsplit("shows them …]\n", 1)[1])
    assert part["original"] == only(events, "tool/result")[0]["seq"]
    assert nodes[4] == delayed, "what was not read is whole"

    [bar] = bars(client)
    assert whole(bar)
    found = re.fullmatch(r"(\d+) → (\d+) tokens, tail (\d+)", bar[-1]["message"])
    assert found is not None
    before, after, tail = map(int, found.groups())
    assert before == start["data"]["bottom"]
    assert after < before
    assert 1200 <= tail <= 1200 + 1200 // 4

    [asked], [rebuilt] = traced(trace, "summarise"), traced(trace, "rebuild")
    assert asked["transcript"] == before
    # The KV held the transcript, but for the end of the last reply, which no one had asked to evaluate.
    assert asked["evaluated"] - asked["request"] == before - asked["cached"]
    assert before - asked["cached"] <= 3
    assert asked["held"] == before, "rolled back to the bottom"
    assert rebuilt["transcript"] == after
    assert rebuilt["evaluated"] == after - rebuilt["cached"]
    assert rebuilt["cached"] >= rebuilt["system"], "nothing of the system prompt is evaluated again"


async def test_a_nearly_full_session_compacts_after_a_restart_before_the_prompt_is_appended(tiny: Rig) -> None:
    tiny.file("README.md", README)
    script = tiny.script(call("read", path="README.md", max_lines=500), "Half of it is read.")
    client = await tiny.start(script=script, settings=model(12000))
    first = await prompt(client, "read README.md")
    saved = await client.run("ds4.saveSession", timeout=LONG)
    assert saved["snapshot"] is True
    assert await client.shutdown() == 0

    trace = tiny.root / "trace.jsonl"
    script = tiny.script("Yes.", summary())
    client = await tiny.start(script=script, settings=model(12000), arguments=("--trace", str(trace)))
    second = await prompt(client, "go on, and mind these words: " + WORDS * 200)
    assert second["sessionId"] == first["sessionId"]
    assert second["stopReason"] == "end"
    events = read(tiny, first["sessionId"])
    check(events)
    [start] = only(events, "compact/start")
    assert start["data"]["trigger"] == "soft"
    assert start["data"]["turn"] == 2
    [asked] = [event for event in only(events, "user/message") if event["data"]["text"].startswith("go on")]
    assert only(events, "compact/end")[0]["seq"] < asked["seq"]
    [checkpoint] = [node for node in surface(events) if node["data"].get("kind") == "checkpoint"]
    assert "README.md: read 1-500; file_tag=" in checkpoint["data"]["parts"]["ledger"]
    assert "read README.md" in checkpoint["data"]["parts"]["task"]
    assert surface(events)[-2] == asked
    # What the snapshot held was not evaluated again to summarise it.
    [summarised] = traced(trace, "summarise")
    assert summarised["transcript"] - summarised["cached"] <= 3
    assert summarised["evaluated"] <= summarised["request"] + 3


async def test_a_reply_that_thinks_past_the_limit_is_closed_and_its_turn_goes_on(tiny: Rig) -> None:
    script = tiny.script("<think>\n" + "I wonder about it. " * 400, "The answer is four.", summary())
    client = await tiny.start(script=script, settings=model(3584))
    result = await prompt(client, "what is two and two?")
    assert result["stopReason"] == "end"
    assert result["text"] == "The answer is four."
    events = read(tiny, result["sessionId"])
    check(events)
    replies = [reply for reply in only(events, "assistant/message") if "original" not in reply["data"]]
    assert [reply["data"]["stop"] for reply in replies] == ["length", "end"]
    [start] = only(events, "compact/start")
    assert start["data"]["trigger"] == "generation"
    # An eighth of the context is the least that was kept free; the summary request with 256 tokens is more here.
    assert start["data"]["bottom"] < 3584 - 448
    assert only(events, "compact/end")[0]["data"].get("error") is None
    assert [len(only(events, kind)) for kind in ("turn/start", "turn/end")] == [1, 1]
    assert "what is two and two?" in surface(events)[0]["data"]["parts"]["task"]
    assert client.events("thinking") != []


async def test_a_file_larger_than_the_context_is_shown_in_a_part_that_fits_and_says_how_to_go_on(tiny: Rig) -> None:
    tiny.file("long.txt", README)
    script = tiny.script(
        call("read", path="long.txt", whole=True),
        call("read", path="long.txt", max_lines=3),
        "Three lines are enough.",
        summary(),
    )
    client = await tiny.start(script=script, settings=model(3072))
    result = await prompt(client, "look at long.txt")
    assert result["stopReason"] == "end"
    assert [one["ok"] for one in result["toolCalls"]] == [True, True]
    text = client.events("tool.result")[0]["text"]
    found = re.search(r"\[(\d+) of the 1000 lines asked for fit into the context now\]\ncontinue_offset=(\d+)", text)
    assert found is not None
    assert int(found[2]) == int(found[1]) + 1
    assert f"lines 1-{found[1]} of 1000" in text
    assert f"\n{found[1]} One more" in text
    assert f"\n{found[2]} One more" not in text
    check(read(tiny, result["sessionId"]))
    assert all(whole(bar) for bar in bars(client))


async def test_a_system_prompt_that_nearly_fills_the_context_is_told_once_and_nothing_is_compacted(tiny: Rig) -> None:
    settings = model(3072) | {"systemPrompt": "Mind this. " * 310, "compaction": {"softPercent": 60}}
    client = await tiny.start(script=tiny.script("Yes.", "And yes.", summary(), summary()), settings=settings)
    results = [await prompt(client, f"{number}: {WORDS * 4}") for number in (1, 2)]
    assert [result["stopReason"] for result in results] == ["end", "end"]
    told = [params["message"] for params in client.notifications("window/showMessage")]
    [message] = [text for text in told if "compaction cannot help" in text]
    assert re.search(r"system prompt and tools take \d+ tokens.* of a context of 3072", message)
    assert only(read(tiny, results[0]["sessionId"]), "compact/start") == []
    refused = await prompt(client, WORDS * 60)
    assert refused["stopReason"] == "error"
    assert "the context has 3072" in refused["error"]
    again = await prompt(client, "short")
    assert again["stopReason"] in ("end", "length")
    check(read(tiny, again["sessionId"]))


async def test_compact_while_generating_waits_for_the_safe_point_and_is_done_once(tiny: Rig) -> None:
    tiny.file("a.txt", "one line\n")
    script = tiny.script(
        "Noted.",
        slow("Let me see.\n\n" + call("read", path="a.txt"), 15),
        "One line.",
        summary(delay_ms=10),
    )
    client = await tiny.start(script=script)
    await prompt(client, "keep these: " + WORDS * 60)
    _, turn = client.send_command("ds4.prompt", {"text": "what is in a.txt?"})
    await client.wait(lambda: [event for event in client.events("text") if event["turn"] == 2], LONG)
    assert (await client.run("ds4.status"))["state"] == "generating"
    _, first = client.send_command("ds4.compact", {"instructions": "keep the greek letters"})
    _, second = client.send_command("ds4.prompt", {"text": "/compact"})
    await compacting(client)
    assert (await client.run("ds4.status"))["state"] == "compacting"
    _, third = client.send_command("ds4.compact", {})
    done = await asyncio.wait_for(first, LONG)
    assert done["compacted"] is True
    assert done == await asyncio.wait_for(third, LONG)
    assert f"{done['beforeTokens']} → {done['afterTokens']} tokens" in (await asyncio.wait_for(second, LONG))["text"]
    result = await asyncio.wait_for(turn, LONG)
    assert result["text"] == "Let me see.\n\nOne line."
    events = read(tiny, result["sessionId"])
    check(events)
    [start] = only(events, "compact/start")
    assert start["data"]["trigger"] == "manual"
    order = [event["type"] for event in events if event["seq"] > only(events, "tool/result")[0]["seq"]]
    assert order[:4] == ["compact/start", "compact/summary", "user/message", "compact/end"]
    assert order[4] == "assistant/message"
    again = await client.run("ds4.compact", timeout=LONG)
    assert again["compacted"] is False
    assert len(only(read(tiny, result["sessionId"]), "compact/start")) == 1, "nothing to compact writes nothing"


async def test_compact_during_an_automatic_compaction_joins_it(tiny: Rig) -> None:
    script = tiny.script("Noted.", "Fine.", summary(delay_ms=10), summary("A second one."))
    client = await tiny.start(script=script, settings=model(6144) | {"compaction": {"minFreeTokens": 0}})
    turn = await nearly_fill(client)
    await compacting(client)
    joined = await client.run("ds4.compact", timeout=LONG)
    assert joined["compacted"] is True
    assert joined["trigger"] != "manual"
    result = await asyncio.wait_for(turn, LONG)
    assert result["stopReason"] == "end"
    events = read(tiny, result["sessionId"])
    check(events)
    assert len(only(events, "compact/start")) == 1


MISBEHAVIOUR = {
    "a tool call": (call("bash", command="touch pwned"), None),
    "prose and a tool call": ("The port is 8080.\n\n" + call("bash", command="touch pwned"), "The port is 8080."),
    "the end of thinking": ("</think>\nThe port is 8080.", None),
    "nothing": ("", None),
    "only blanks": (" \n\n ", None),
}


async def test_a_summariser_that_misbehaves_changes_nothing_or_is_cut_to_size(tiny: Rig) -> None:
    entries = [summary(text) for text, _ in MISBEHAVIOUR.values()]
    endless = "\n".join(f"Line {number} of a summary without end." for number in range(400))
    client = await tiny.start(
        script=tiny.script(*["Noted."] * 9, *entries, summary(endless), summary()),
        settings={"permissions": {"bash": "allow"}},
    )
    session = (await prompt(client, "serve on port 8080. " + WORDS * 70))["sessionId"]
    for name, (_, expected) in MISBEHAVIOUR.items():
        before = surface(read(tiny, session))
        result = await client.run("ds4.compact", timeout=LONG)
        events = read(tiny, session)
        check(events)
        if expected is None:
            assert result["compacted"] is False, name
            assert "empty" in result["reason"], name
            assert surface(events) == before, name
            assert "empty" in only(events, "compact/end")[-1]["data"]["error"]
            continue
        assert result["summary"] == expected, name
        await prompt(client, "more: " + WORDS * 70)
    assert not (tiny.workspace / "pwned").exists()
    assert client.events("tool.call") == []

    result = await client.run("ds4.compact", timeout=LONG)
    assert result["compacted"] is True
    assert result["checkpointTokenCount"] < result["shadowedTokenCount"]
    assert result["checkpointTokenCount"] <= 4096 // 4
    assert result["summary"].startswith("Line 0 of a summary")
    assert result["summary"].endswith("without end."), "cut at a line's end"
    assert all(whole(bar) for bar in bars(client))
    assert len(bars(client)) == len(MISBEHAVIOUR) + 1
    answer = await prompt(client, "still there?")
    assert answer["text"] == "Noted."


async def test_a_cancelled_compaction_changes_nothing_and_costs_nothing_and_never_touches_the_next(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("Noted.", "Yes.", *[summary(delay_ms=20)] * 3, summary()))
    session = (await prompt(client, "keep these: " + WORDS * 60))["sessionId"]
    before = surface(read(tiny, session))

    # By the button of the progress that the server created.
    number, answer = client.send_command("ds4.compact", {})
    await compacting(client)
    token = next(
        params["token"] for params in client.notifications("$/progress") if params["value"].get("title") == "COMPACTING"
    )
    client.notify("window/workDoneProgress/cancel", {"token": token})
    result = await asyncio.wait_for(answer, LONG)
    assert (result["compacted"], result["reason"]) == (False, "cancelled")

    # By the request, in the client's own progress.
    later, answer = client.send_command("ds4.compact", {}, token="mine")
    await compacting(client, 2)
    client.cancel(later)
    result = await asyncio.wait_for(answer, LONG)
    assert (result["compacted"], result["reason"]) == (False, "cancelled")
    mine = client.progress("mine")
    assert whole(mine)
    assert mine[0]["title"] == "COMPACTING"
    assert "cancelled" in mine[-1]["message"]

    # By the interruption of what runs.
    _, answer = client.send_command("ds4.compact", {})
    await compacting(client, 3)
    assert (await client.run("ds4.interrupt"))["interrupted"] is True
    result = await asyncio.wait_for(answer, LONG)
    assert (result["compacted"], result["reason"]) == (False, "cancelled")

    events = read(tiny, session)
    check(events)
    assert surface(events) == before
    assert [event["data"]["error"] for event in only(events, "compact/end")] == ["cancelled"] * 3
    assert only(events, "compact/summary") == []
    assert [event["compacted"] for event in client.events("compaction.end")] == [False] * 3

    used = (await client.run("ds4.status"))["context"]["used"]
    next_turn = await prompt(client, "go on")
    assert used - next_turn["usage"]["cachedTokens"] <= 3, "the KV is as it was"
    assert next_turn["usage"]["promptTokens"] < 40

    # Too late for the first ones: the next one does not hear of it.
    client.cancel(number)
    client.cancel(later)
    client.notify("window/workDoneProgress/cancel", {"token": token})
    client.notify("window/workDoneProgress/cancel", {"token": "mine"})
    result = await client.run("ds4.compact", timeout=LONG)
    assert result["compacted"] is True
    assert all(whole(bar) for bar in bars(client))


async def test_cancelling_a_compaction_lets_its_turn_go_on(tiny: Rig) -> None:
    script = tiny.script("Noted.", "Fine.", summary(delay_ms=20))
    client = await tiny.start(script=script, settings=model(6144) | {"compaction": {"minFreeTokens": 0}})
    turn = await nearly_fill(client)
    await compacting(client)
    token = next(
        params["token"] for params in client.notifications("$/progress") if params["value"].get("title") == "COMPACTING"
    )
    client.notify("window/workDoneProgress/cancel", {"token": token})
    result = await asyncio.wait_for(turn, LONG)
    assert (result["stopReason"], result["text"]) == ("end", "Fine.")
    events = read(tiny, result["sessionId"])
    check(events)
    assert [event["data"]["error"] for event in only(events, "compact/end")] == ["cancelled"]


async def test_ten_compactions_keep_the_task_and_stay_under_the_cap(tiny: Rig) -> None:
    task = "Port the parser in src/lexer.c to Zig; keep every error message, above all: E0417 “unexpected ⟂”."
    script = tiny.script(*["Noted."] * 11, *[summary(f"Round {number}.\n{SUMMARY}") for number in range(10)])
    client = await tiny.start(script=script)
    session = (await prompt(client, task))["sessionId"]
    sizes, results = [], []
    for number in range(10):
        await prompt(client, f"step {number}: {WORDS * 45}")
        result = await client.run("ds4.compact", timeout=LONG)
        assert result["compacted"] is True, result
        results.append(result)
        sizes.append(log_path(tiny, session).stat().st_size)
        [checkpoint] = [node for node in surface(read(tiny, session)) if node["data"].get("kind") == "checkpoint"]
        assert task in checkpoint["data"]["parts"]["task"]
        assert task in checkpoint["data"]["text"]
        assert f"step {number}: " in checkpoint["data"]["text"], "the newest request that is not in the tail"
        assert checkpoint["data"]["parts"]["summary"].startswith(f"Round {number}.")
        assert result["checkpointTokenCount"] <= 4096 // 4
    growth = [later - earlier for earlier, later in pairwise(sizes)]
    assert max(growth[1:]) < 1.2 * min(growth[1:]), "each compaction adds about as much to the log as any other"
    check(read(tiny, session))

    info = next(one for one in (await client.run("ds4.listSessions"))["sessions"] if one["current"])
    assert info["compactions"] == 10
    # Readable later: the last summary next to what it replaced, and the history as the user saw it.
    uri = f"ds4:/session/{session}/checkpoint/{results[-1]['summarySeq']}"
    document = (await client.request("workspace/textDocumentContent", {"uri": uri}))["text"]
    assert task in document
    assert "Round 9." in document
    assert "What it replaced" in document
    assert "step 9: alpha" in document
    history = (await client.run("ds4.showHistory", {"turns": 20}))["history"]
    assert next(entry["text"] for entry in history if entry["role"] == "user") == task
    assert len([entry for entry in history if entry["role"] == "user"]) == 11
    assert len([entry for entry in history if entry["role"] == "compaction"]) == 10


async def test_an_engine_that_dies_while_summarising_costs_nothing_but_the_attempt(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("Noted.", "Yes.", summary(delay_ms=20), summary()))
    session = (await prompt(client, "keep these: " + WORDS * 60))["sessionId"]
    before = surface(read(tiny, session))
    _, answer = client.send_command("ds4.compact", {})
    await compacting(client)
    engine_of(client).kill()
    with pytest.raises(ResponseError) as refused:
        await asyncio.wait_for(answer, LONG)
    assert refused.value.data["code"] == "engineDied"
    events = read(tiny, session)
    check(events)
    assert surface(events) == before
    assert (await prompt(client, "go on"))["text"] == "Yes."
    assert (await client.run("ds4.compact", timeout=LONG))["compacted"] is True
    assert all(whole(bar) for bar in bars(client))


def engine_of(client: Client) -> Any:
    import psutil

    [engine] = [
        child
        for child in psutil.Process(client.process.pid).children(recursive=True)
        if "ds4_lsp.engine" in " ".join(child.cmdline())
    ]
    return engine
