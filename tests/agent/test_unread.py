"""Nothing that was not read is forgotten: what is appended reaches the model, whatever is compacted around it."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from compacting import FORGETFUL, WORDS, checkpoint, forget, kv_is_the_transcripts, log_is_whole, summaries, transcript
from rig import call, words

from ds4_lsp.edits.text import file_tag
from ds4_lsp.session.events import Event

pytestmark = pytest.mark.asyncio(loop_scope="session")

LINE = "setting_{} = {}  # what it does, and since when\n"


def lines(count: int) -> str:
    return "".join(LINE.format(number, number * 7) for number in range(1, count + 1))


def write(stage: Any, name: str, text: str) -> None:
    (Path(stage.editor.current_root) / name).write_text(text)


def first_hand(stage: Any, type: str) -> list[Event]:
    """Events of that type that took nobody's place."""
    return [event for event in stage.events(type) if event.surface_op["op"] == "append"]


def holds(request: Any, tokens: list[int]) -> bool:
    whole, part = (",".join(map(str, ids)) for ids in (request.tokens, tokens))
    return f",{part}," in f",{whole},"


def replied(stage: Any) -> list[Any]:
    """The requests that replies came of, summaries left out."""
    asked = {one.tokens for one in summaries(stage)}
    return [request for request, generated in stage.engine.asked if generated and tuple(request.tokens) not in asked]


async def tokens_of(stage: Any, event: Event) -> list[int]:
    [tokens] = await stage.runtime.transcript.nodes([event])
    return list(tokens)


async def nothing_was_missing(stage: Any) -> None:
    """No request ever lacked a result that was appended since the last reply."""
    requests = replied(stage)
    waiting: list[Event] = []
    replies = first_hand(stage, "assistant/message")
    assert len(replies) == len(requests)
    for event in stage.events():
        if event.surface_op is None or event.surface_op["op"] != "append":
            continue
        if event.type == "tool/result":
            waiting.append(event)
        elif event.type == "assistant/message":
            request = requests[replies.index(event)]
            for result in waiting:
                assert holds(request, await tokens_of(stage, result)), result
            waiting.clear()


def compactions_cost_what_was_said(stage: Any) -> None:
    """Each one takes out a twentieth of the context that no other took out, and costs a request, a checkpoint, and a
    tail; what the model has not read yet is not evaluated for it."""
    context = stage.engine.info.context_size
    done = stage.events("compact/summary")
    said = sum(len(event.data["tokens"]) for event in first_hand(stage, "assistant/message"))
    said += sum(len(event.data["text"]) for event in first_hand(stage, "tool/result"))
    said += sum(len(event.data["text"]) for event in stage.events("user/message") if "parts" not in event.data)
    assert len(done) <= said / (context // 20)
    for event in done:
        assert event.data["usage"]["promptTokens"] <= 700


async def test_a_result_that_would_fill_the_context_is_appended_when_there_is_room_and_read_whole(
    large_stages: Any,
) -> None:
    stage = await large_stages(12000)
    text = lines(170)
    write(stage, "long.py", text)
    stage.script("Noted.", call("read", path="long.py"), "I have read it.", summaries=[FORGETFUL])
    await stage.prompt("keep these: " + WORDS * 260)
    forget(stage)
    stage.script(call("read", path="long.py"), "I have read it.", summaries=[FORGETFUL])
    result = await stage.prompt("yes " * (6500 - len(await transcript(stage))))
    assert (result.stop_reason, result.text) == ("end", "I have read it.")
    [start], [end] = stage.events("compact/start"), stage.events("compact/end")
    [shown] = first_hand(stage, "tool/result")
    assert start.seq < end.seq < shown.seq
    assert "170 setting_170" in shown.data["text"]
    # At that time the model had not read the file: no ledger may say so.
    assert "long.py" not in checkpoint(stage)["parts"]["ledger"]
    [asked] = summaries(stage)
    assert asked.generated.prefill.evaluated < 700
    assert holds(replied(stage)[-1], await tokens_of(stage, shown))
    log_is_whole(stage)
    await kv_is_the_transcripts(stage)


async def test_a_file_larger_than_what_is_free_is_read_in_parts_and_no_part_is_lost(large_stages: Any) -> None:
    stage = await large_stages(8192)
    text = lines(430)
    write(stage, "long.py", text)
    stage.script(
        call("read", path="long.py"), *[call("more", count=500)] * 4, "I have read it.", summaries=[FORGETFUL] * 6
    )
    result = await stage.prompt("read long.py")
    assert result.text.endswith("I have read it.") or not result.tool_calls[-1].ok
    shown = [event for event in first_hand(stage, "tool/result") if event.data["ok"]]
    seen = [int(number) for event in shown for number in re.findall(r"^(\d+) setting_", event.data["text"], re.M)]
    assert seen == list(range(1, 431)), "every line once, in order"
    first = shown[0].data["text"]
    fits = re.search(r"\[(\d+) of the 430 lines asked for fit into the context now\]\ncontinue_offset=(\d+)", first)
    assert fits is not None
    assert int(fits[2]) == int(fits[1]) + 1
    assert "circles" not in result.text
    await nothing_was_missing(stage)
    compactions_cost_what_was_said(stage)
    log_is_whole(stage)


async def test_lines_that_no_request_has_had_before_it_cannot_be_edited(large_stages: Any) -> None:
    stage = await large_stages(6144)
    text = lines(20)
    write(stage, "a.py", text)
    tag = file_tag(text)
    edit = call("edit", path="a.py", file_tag=tag, line=3, new="setting_3 = 3")
    begin, end = "<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>"
    both = begin + call("read", path="a.py").removeprefix(begin).removesuffix(end) + "\n" + edit.removeprefix(begin)
    stage.script(both, edit, "Done.")
    result = await stage.prompt("set it")
    assert [(one.name, one.ok) for one in result.tool_calls] == [("read", True), ("edit", False), ("edit", True)]
    assert "shown" in stage.events("tool/result")[1].data["text"]


async def test_a_reply_that_was_cut_keeps_its_end_token_for_token(large_stages: Any) -> None:
    stage = await large_stages(6144)
    stage.script("Noted.", "<think>\n" + words(3000), "Four.", summaries=[FORGETFUL])
    await stage.prompt("keep these: " + WORDS * 30)
    result = await stage.prompt("what is two and two?")
    assert (result.stop_reason, result.text) == ("end", "Four.")
    [cut] = [event for event in first_hand(stage, "assistant/message") if event.data["stop"] == "length"]
    [kept] = [event for event in stage.runtime.session.surface.events if event.data.get("original") == cut.seq]
    budget = 6144 // 10
    assert kept.data["tokens"][-budget + 16 :] == cut.data["tokens"][-budget + 16 :]
    assert len(kept.data["tokens"]) < len(cut.data["tokens"])
    assert f"event={cut.seq} " in kept.data["text"]
    assert kept.data["thinking"] is cut.data["thinking"]
    told = [event.data["text"] for event in stage.runtime.session.surface.events if event.data.get("kind") == "notice"]
    assert "The reply was cut" in told[-1]
    log_is_whole(stage)
    await kv_is_the_transcripts(stage)


async def test_a_full_context_without_automatic_compaction_says_what_holds_and_offers_compact(
    large_stages: Any,
) -> None:
    stage = await large_stages(4096, compaction={"auto": False})
    stage.script(words(2500), "After.", summaries=[FORGETFUL])
    result = await stage.prompt("talk")
    assert result.stop_reason == "length"
    assert "ds4.compaction.auto is off" in result.text
    assert "/compact" in result.text
    assert "could not free" not in result.text
    assert (await stage.prompt("/compact")).text.startswith("Compacted: ")
    assert (await stage.prompt("go on")).text == "After."


async def test_every_request_and_correction_is_there_after_three_compactions(large_stages: Any) -> None:
    stage = await large_stages(12000, compaction={"tailPercent": 2})
    requirements = [f"REQ-{number:02}: part {number} answers in {number} ms" for number in range(40)]
    rule = "From now on write log messages in German."
    stage.script(*["Noted."] * 9, summaries=[FORGETFUL] * 9)
    await stage.prompt("\n".join(requirements))
    await stage.prompt(rule)
    for number in range(3):
        stage.script(words(300), summaries=[FORGETFUL])
        await stage.prompt(f"step {number}")
        assert (await stage.prompt("/compact")).text.startswith("Compacted: ")
        kept = checkpoint(stage)["parts"]["task"]
        assert all(requirement in kept for requirement in requirements)
        assert rule in kept


async def test_what_a_checkpoint_leaves_out_can_be_recalled(large_stages: Any) -> None:
    stage = await large_stages(6144, compaction={"promptsMaxTokens": 200, "tailPercent": 1})
    stage.script(*["Noted."] * 5, summaries=[FORGETFUL] * 2)
    for name in ("first", "second", "third", "fourth", "fifth"):
        await stage.prompt(f"the {name} thing: the port of {name} is {len(name)}123. " + WORDS * 8)
    assert (await stage.prompt("/compact")).text.startswith("Compacted: ")
    kept = checkpoint(stage)["parts"]["task"]
    left_out = [int(seq) for seq in re.findall(r"\d+", kept.rsplit("left out here: event", 1)[1])]
    assert left_out
    stage.script(call("recall", event=left_out[0]), call("recall", query="port of third"), "I know.")
    result = await stage.prompt("which ports?")
    assert [one.ok for one in result.tool_calls] == [True, True]
    whole, found = (event.data["text"] for event in first_hand(stage, "tool/result"))
    [asked] = [event for event in first_hand(stage, "user/message") if event.seq == left_out[0]]
    assert asked.data["text"].strip() in whole
    assert "the port of third is 5123" in found


@pytest.mark.parametrize("seed", range(4))
async def test_any_session_loses_nothing_unread_and_pays_only_for_what_was_said(large_stages: Any, seed: int) -> None:
    rng = random.Random(seed)
    stage = await large_stages(rng.choice([6144, 8192, 12000]), compaction={"tailPercent": rng.choice([2, 10, 25])})
    for number in range(4):
        write(stage, f"f{number}.py", lines(rng.choice([3, 60, 200, 500])))
    for turn in range(4):
        looks = [call("read", path=f"f{rng.randrange(4)}.py", start_line=rng.choice([1, 1, 40])) for _ in range(2)]
        said = words(rng.choice([10, 90, 350]))
        stage.script(*looks, said, *["Well."] * 3, summaries=[FORGETFUL] * 8)
        result = await stage.prompt(f"turn {turn}: " + WORDS * rng.choice([1, 10, 60]))
        assert result.stop_reason in ("end", "length"), result.error
    await nothing_was_missing(stage)
    compactions_cost_what_was_said(stage)
    log_is_whole(stage)
    await kv_is_the_transcripts(stage)
