"""What ends a turn, what is not run, and what the model is told of it."""

from __future__ import annotations

from typing import Any

import pytest
from rig import call

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOUCH = call("bash", command="touch ran")


def results(stage: Any) -> list[dict[str, Any]]:
    return [event.data for event in stage.events("tool/result")]


def notices(stage: Any) -> list[str]:
    return [event.data["text"] for event in stage.events("user/message") if event.data["kind"] == "notice"]


async def test_the_same_call_with_the_same_result_is_reminded_of_and_then_ends_the_turn(stage: Any) -> None:
    look = call("list", path=".")
    both = look.replace("</｜DSML｜tool_calls>", "") + TOUCH.removeprefix("<｜DSML｜tool_calls>\n")
    stage.script(look, look, both, "Never said.")
    result = await stage.prompt("look")
    assert result.stop_reason == "end"
    assert "going round in circles" in result.text
    texts = [one["text"] for one in results(stage)]
    assert ["Reminder:" in text for text in texts] == [False, True, False, False]
    assert [one["ok"] for one in results(stage)] == [True] * 3 + [False]
    assert texts[3].startswith("not executed: The turn was ended")
    assert not (stage.root / "ws" / "ran").exists()
    assert stage.agent.services.script.next("turn").text == "Never said."


@pytest.mark.parametrize("closed", ["</think>", "</think> Well.", ""])
async def test_a_call_inside_thinking_never_runs_and_the_model_is_told(stage: Any, closed: str) -> None:
    stage.script(f"<think>I could write {TOUCH} and see.{closed}", "Then not.")
    result = await stage.prompt("think")
    assert (result.stop_reason, result.tool_calls) == ("end", [])
    assert not (stage.root / "ws" / "ran").exists()
    [notice] = notices(stage)
    assert "inside thinking is not run" in notice
    assert stage.listener.of(1, "tool.start") == []
    assert "touch ran" in "".join(data["delta"] for data in stage.listener.of(1, "thinking"))
    assert result.text.split() == [*closed.removeprefix("</think>").split(), "Then", "not."]


async def test_a_call_after_thinking_runs_and_one_inside_it_is_still_told_of(stage: Any) -> None:
    stage.script(f"<think>{TOUCH}</think>" + call("bash", command="echo after"), "Done.")
    result = await stage.prompt("think, then act")
    assert [one.ok for one in result.tool_calls] == [True]
    assert not (stage.root / "ws" / "ran").exists()
    kinds = [event.type for event in stage.events() if event.surface_op]
    # The notice comes after the result: between a call and its result there is nothing.
    assert kinds == ["user/message", "assistant/message", "tool/result", "user/message", "assistant/message"]
    assert len(notices(stage)) == 1


async def test_a_malformed_call_is_not_run_and_the_model_is_told_how_to_write_it(stage: Any) -> None:
    broken = TOUCH.replace('string="true"', "string=true")
    unclosed = TOUCH[: TOUCH.index("</｜DSML｜parameter>")]
    stage.script(broken, unclosed, call("bash", comand="touch ran"), call("bsh", command="x"), "I give up.")
    result = await stage.prompt("do it")
    assert result.stop_reason == "end"
    assert not (stage.root / "ws" / "ran").exists()
    first, second = notices(stage)
    assert 'expected <｜DSML｜parameter name="NAME" string="true">' in first
    assert first.endswith("write the call again.")
    assert "command of bash was not closed by </｜DSML｜parameter>" in second
    third, fourth = (one["text"] for one in results(stage))
    assert "command" in third
    assert "bash" in fourth
    assert [one.ok for one in result.tool_calls] == [False, False]


async def test_a_model_that_cannot_write_a_call_does_not_go_on_for_ever(stage: Any) -> None:
    stage.script(*[f"<｜DSML｜tool_calls>\nattempt {number}" for number in range(9)])
    result = await stage.prompt("do it")
    assert result.stop_reason == "end"
    assert "5 replies in a row held no readable tool call" in result.text
    assert len(notices(stage)) == 4
    assert len(stage.events("assistant/message")) == 5


async def test_a_cycle_of_calls_is_told_at_its_second_round_and_ends_the_turn_at_its_third(stage: Any) -> None:
    first, second = call("read", path="none.txt"), call("list", path=".")
    stage.script(*[first, second] * 3, "Never said.")
    result = await stage.prompt("go round")
    assert result.stop_reason == "end"
    assert "the same 2 calls gave the same result 3 times in a row" in result.text
    texts = [one["text"] for one in results(stage)]
    assert ["Reminder:" in text for text in texts] == [False, False, False, True, True, False]
    assert "The request was: go round" in texts[3]
    assert stage.agent.services.script.next("turn").text == "Never said."


async def test_a_reply_that_repeats_itself_is_cut(stage: Any) -> None:
    stage.script("The same line again.\n" * 2500, "Never said.")
    result = await stage.prompt("say something")
    assert result.stop_reason == "end"
    assert "the reply repeated itself and was cut" in result.text
    assert result.usage.completion_tokens < 2500
    assert [data["text"] for data in stage.listener.of(1, "notice")] == [result.text.rsplit("\n\n", 1)[-1]]
    assert stage.agent.services.script.next("turn").text == "Never said."


async def test_a_call_that_repeats_itself_is_cut_and_not_run(stage: Any) -> None:
    stage.script(call("write", path="rows.txt", content="the same row of it again\n" * 2500), "Never said.")
    result = await stage.prompt("write rows")
    assert (result.stop_reason, result.tool_calls) == ("end", [])
    assert not (stage.root / "ws" / "rows.txt").exists()
    kinds = [event.type for event in stage.events() if event.surface_op]
    assert kinds == ["user/message", "assistant/message"]


async def test_an_announcement_without_a_call_is_answered_once(stage: Any) -> None:
    stage.script("I will now look at the files.", call("list", path="."), "I'll read them.", "Never said.")
    result = await stage.prompt("look")
    assert [one.name for one in result.tool_calls] == ["list"]
    assert result.text.endswith("I'll read them.")
    [notice] = notices(stage)
    assert "made no call" in notice


@pytest.mark.parametrize(
    ("reply", "word"), [("", "gave no answer"), ("<think>Hm.</think>", "thought, but gave no answer")]
)
async def test_no_answer_is_told_to_the_model_once_and_then_to_the_user(stage: Any, reply: str, word: str) -> None:
    stage.script(reply, reply, "Never said.")
    result = await stage.prompt("say something")
    assert word in result.text
    [notice] = notices(stage)
    assert "no text and no call" in notice
    [told] = stage.listener.of(1, "notice")
    assert told["text"] == result.text
    stage.script(reply, "An answer.")
    assert (await stage.prompt("again")).text == "An answer."


async def test_a_change_that_was_only_claimed_is_told_to_the_model_and_then_to_the_user(stage: Any) -> None:
    claim = "The name has been changed."
    stage.script(claim, claim, "Never said.")
    result = await stage.prompt("change the name")
    assert "[No file was changed in this turn" in result.text
    [notice] = notices(stage)
    assert "No call of this turn has changed a file" in notice
    stage.new_session()
    stage.script(call("write", path="name.txt", content="new\n"), claim)
    result = await stage.prompt("change the name")
    assert (result.text, notices(stage)) == (claim, [])


async def test_a_call_in_json_that_is_not_valid_is_told_to_the_model_and_then_to_the_user(stage: Any) -> None:
    broken = '{"name": "write", "arguments": {"path": "a.py", "content": "x = "y""}}'
    stage.script(broken, broken, "Never said.")
    result = await stage.prompt("write it")
    [notice] = notices(stage)
    assert "no readable call" in notice
    assert "could not be read" in result.text
    assert not (stage.root / "ws" / "a.py").exists()
