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
    stage.script(look, look, look, look, both, "Never said.")
    result = await stage.prompt("look")
    assert result.stop_reason == "end"
    assert "going round in circles" in result.text
    texts = [one["text"] for one in results(stage)]
    assert ["Reminder:" in text for text in texts] == [False, False, True, False, False, False]
    assert [one["ok"] for one in results(stage)] == [True] * 5 + [False]
    assert texts[5].startswith("not executed: The turn was ended")
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
