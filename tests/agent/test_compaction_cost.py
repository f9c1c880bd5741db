"""What a compaction costs the engine, to the token: the request for the summary, and no system prompt again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from compacting import (
    FORGETFUL,
    WORDS,
    compact,
    forget,
    kv_is_the_transcripts,
    log_is_whole,
    summaries,
    transcript,
    unevaluated,
)
from rig import call, words

from ds4_lsp.agent.compaction_host import common_prefix
from ds4_lsp.ports import Cancel

pytestmark = pytest.mark.asyncio(loop_scope="session")

LINES = "".join(f"{number} is a number among others\n" for number in range(400))


async def by_hand(stage: Any) -> None:
    await stage.prompt("keep these: " + WORDS * 150)
    forget(stage)
    assert (await compact(stage)).compacted


async def before_a_prompt(stage: Any) -> None:
    await stage.prompt("keep these: " + WORDS * 160)
    left = 6144 * 85 // 100 - len(await transcript(stage))
    forget(stage)
    await stage.prompt("yes " * left)


async def for_a_result(stage: Any) -> None:
    (Path(stage.editor.current_root) / "long.txt").write_text(LINES)
    stage.script(
        call("read", path="long.txt", max_lines=200),
        "And on.\n\n" + call("more", count=170),
        "Read.",
        summaries=[FORGETFUL],
    )
    await stage.prompt("read long.txt")


async def in_a_reply(stage: Any) -> None:
    stage.script("Noted.", "<think>\n" + words(1300), "Four.", summaries=[FORGETFUL])
    await stage.prompt("keep these: " + WORDS * 100)
    forget(stage)
    await stage.prompt("yes " * (6144 * 85 // 100 - len(await transcript(stage)) - 64))


@pytest.mark.parametrize(
    ("trigger", "play", "ended"),
    [
        ("manual", by_hand, True),
        ("soft", before_a_prompt, True),
        ("hard", for_a_result, False),
        ("generation", in_a_reply, False),
    ],
)
async def test_only_the_request_is_evaluated_and_nothing_of_the_system_prompt_again(
    large_stages: Any, trigger: str, play: Any, ended: bool
) -> None:
    stage = await large_stages(6144)
    stage.script("Noted.", "Yes.", summaries=[FORGETFUL])
    await play(stage)
    [start], [end] = stage.events("compact/start"), stage.events("compact/end")
    assert (start.data["trigger"], end.data.get("error")) == (trigger, None)
    log_is_whole(stage)
    await kv_is_the_transcripts(stage)

    bottom = start.data["bottom"]
    [asked] = summaries(stage)
    request = len(asked.tokens) - bottom
    prefill = asked.generated.prefill
    assert prefill.evaluated == request + await unevaluated(stage, ended=ended)
    assert prefill.cached + prefill.evaluated == len(asked.tokens)

    # First it is rolled back, which evaluates nothing; then the new transcript is built.
    rolled_back, rebuilt = [pair for pair in stage.engine.synced if pair[0] in (bottom, end.data["contextTokens"])]
    assert (rolled_back[0], rolled_back[1].evaluated, rolled_back[1].cached) == (bottom, 0, bottom)
    after = end.data["contextTokens"]
    new = (await transcript(stage))[:after]
    same = common_prefix(asked.tokens[:bottom], new)
    system = len(stage.runtime.transcript.system)
    assert same >= system
    assert (rebuilt[0], rebuilt[1].cached, rebuilt[1].evaluated) == (after, same, after - same)
    # The new transcript begins otherwise right after the checkpoint's frame, and ends token for token as it did.
    assert same - system < 16
    tail = 6144 // 10
    assert asked.tokens[bottom - tail : bottom] == tuple(new[after - tail :])
    end_event = stage.listener.heard and [
        data for _turn, kind, data in stage.listener.heard if kind == "compaction.end"
    ]
    [kept] = re.findall(r"tail (\d+)$", end_event[-1]["reason"])
    assert tail <= int(kept) <= tail + tail // 4 + 120


@pytest.mark.parametrize(("phase", "tokens"), [("prefill", 1), ("decode", 2)])
async def test_a_cancelled_summary_costs_no_evaluation(large_stages: Any, phase: str, tokens: int) -> None:
    stage = await large_stages(6144)
    stage.script("Noted.", summaries=[FORGETFUL])
    await stage.prompt("keep these: " + WORDS * 60)
    lacking = await unevaluated(stage, ended=True)
    bottom = len(await transcript(stage))
    assert len(stage.engine.kv) == bottom - lacking
    forget(stage)
    cancel = Cancel()
    stage.engine.at = (phase, tokens, cancel.set)
    result = await compact(stage, cancel=cancel)
    assert (result.compacted, result.reason) == (False, "cancelled")
    [asked] = summaries(stage)
    assert asked.generated is not None
    assert asked.generated.reason == "cancelled"
    assert [synced.evaluated for _total, synced in stage.engine.synced] == [0]
    assert bottom - lacking <= len(stage.engine.kv) <= bottom, "nothing that was evaluated is lost"
    await kv_is_the_transcripts(stage)
    log_is_whole(stage)


async def test_where_the_request_does_not_fit_the_parts_evaluate_nothing_of_the_system_prompt_again(
    large_stages: Any,
) -> None:
    stage = await large_stages(6144, compaction={"auto": False})
    stage.script(*["Noted."] * 4, summaries=["A part."] * 9)
    for _ in range(3):
        await stage.prompt("keep these: " + WORDS * 30)
    await stage.prompt("yes " * (6144 - 800 - len(await transcript(stage))))
    forget(stage)
    assert (await compact(stage, "and mind " * 400)).compacted
    asked = summaries(stage)
    assert len(asked) > 1
    system = len(stage.runtime.transcript.system)
    for one in asked:
        assert one.generated.prefill.cached >= system
    assert all(synced.cached >= system for _total, synced in stage.engine.synced)
    await kv_is_the_transcripts(stage, whole=True)
