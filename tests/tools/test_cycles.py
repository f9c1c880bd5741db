from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ds4_lsp.tools.base import ToolResult
from ds4_lsp.tools.cycles import ENDED, LONGEST, TOLD, Cycles


def actions(history: list[tuple[str, str]]) -> list[str]:
    cycles = Cycles()
    return [cycles.note(name, {}, ToolResult(text)).action for name, text in history]


def test_the_second_identical_call_is_told_and_the_third_ends_the_turn() -> None:
    cycles = Cycles()
    verdicts = [cycles.note("read", {"path": "a", "n": 1}, ToolResult("x")) for _ in range(3)]
    assert [verdict.action for verdict in verdicts] == ["go on", "remind", "end"]
    assert "call of read" in verdicts[1].text
    assert "3 times" in verdicts[2].text


def test_a_cycle_of_several_calls_is_told_at_its_second_round_and_ended_at_its_third() -> None:
    lap = [("read", "no"), ("list", "a"), ("search", "none")]
    assert actions(lap * 3) == ["go on"] * 5 + ["remind"] * 3 + ["end"]
    assert actions([("edit", "1"), *lap, *lap])[-1] == "remind"


def test_another_result_is_no_cycle() -> None:
    assert set(actions([("read", str(number)) for number in range(20)])) == {"go on"}


def test_a_job_number_does_not_make_a_result_a_new_one() -> None:
    cycles = Cycles()
    results = [ToolResult(f"[cut: 9 lines in job-{n}.txt]\n9 job 1{n}", data={"job": n}) for n in (8, 9)]
    assert [cycles.note("bash", {"command": "x"}, result).action for result in results] == ["go on", "go on"]
    results = [ToolResult(f"[cut: 9 lines in job-{n}.txt]", data={"job": n}) for n in (8, 9)]
    assert [cycles.note("bash", {"command": "x"}, result).action for result in results][-1] == "remind"


calls = st.tuples(st.sampled_from("ab"), st.sampled_from("rs"))


@given(st.lists(calls, max_size=40))
def test_a_turn_ends_just_where_its_last_calls_are_three_equal_rounds(history: list[Any]) -> None:
    def rounds(seen: list[Any], count: int) -> bool:
        sizes = range(1, min(LONGEST, len(seen) // count) + 1)
        return any(seen[-size * count :] == seen[-size:] * count for size in sizes)

    for at, action in enumerate(actions(history), 1):
        seen = history[:at]
        expected = "end" if rounds(seen, ENDED) else "remind" if rounds(seen, TOLD) else "go on"
        assert action == expected
