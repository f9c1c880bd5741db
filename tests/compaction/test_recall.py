"""What is still in the model's context after 1, 3 and 10 compactions of a session with planted facts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ds4_lsp.compaction import Compacted, compact
from ds4_lsp.ports import Cancel

MakeHost = Callable[..., Any]

TASK = "Move the billing service off the legacy queue.\n  Keep the  spacing, and call it 注文移行 `queue-7f3a`."
PATHS = [f"services/billing/part_{number:02}.py" for number in range(20)]
ERRORS = [f"E{4000 + number}: consumer lag is {number * 17} ms" for number in range(10)]
DECISIONS = [f"decision {number}: retry budget {number * 3 + 1}" for number in range(10)]


def work(host: Any, round_number: int) -> None:
    """One stretch of the session: a request, two files read, one edited, a failing command."""
    host.turn += 1
    host.user(TASK if round_number == 0 else f"Step {round_number}: go on with {PATHS[2 * round_number]}")
    for path in PATHS[2 * round_number : 2 * round_number + 2]:
        [call] = host.assistant(f"reading {path}", 1)
        shown = [{"uri": f"file:///{path}", "path": path, "fileTag": f"t{round_number}", "ranges": [[1, 500]]}]
        host.result(call, "code " * 300, shown=shown)
    edited = {"path": path, "uri": f"file:///{path}", "afterTag": f"after{round_number}", "saved": True}
    host.write("edit/applied", {"turn": host.turn, "callId": call, **edited})
    [call] = host.assistant(DECISIONS[round_number], 1)
    detail = {"command": f"pytest -k {round_number}", "job": round_number, "state": "exited", "exitStatus": 1}
    host.result(call, ERRORS[round_number], data=detail)
    host.assistant("word " * 250)


def context_of(host: Any) -> str:
    return "\n".join(event.data["text"] for event in host.tree.events)


def summary_of(facts: list[str]) -> str:
    return "## Errors and Fixes\n" + "\n".join(f"- {fact}" for fact in facts)


async def test_the_task_and_the_ledger_survive_every_compaction_whatever_the_summary_forgets(
    make_host: MakeHost,
) -> None:
    host = make_host(context=12_000)
    rows: dict[int, tuple[bool, int, int, int]] = {}
    lengths: list[int] = []
    for number in range(10):
        work(host, number)
        # A summary that remembers the newest two errors and decisions, as a weak model does.
        remembered = ERRORS[max(0, number - 1) : number + 1] + DECISIONS[max(0, number - 1) : number + 1]
        host.script = [summary_of(remembered)]
        done = await compact(host, "manual", cancel=Cancel())
        assert isinstance(done, Compacted)
        assert done.result.checkpoint_token_count <= host.context // 4
        seen, parts = context_of(host), host.tree[0].data["parts"]
        rows[number + 1] = (
            TASK in parts["task"],
            sum(path in parts["ledger"] for path in PATHS[: 2 * number + 2]),
            sum(f"pytest -k {done}`: exit status 1" in parts["ledger"] for done in range(number + 1)),
            sum(fact in seen for fact in ERRORS[: number + 1] + DECISIONS[: number + 1]),
        )
        lengths.append(host.log.length)
    assert rows[1] == (True, 2, 1, 2)
    assert rows[3] == (True, 6, 3, 4)
    assert rows[10] == (True, 20, 10, 4)
    # The whole session is still there for the user.
    logged = "\n".join(str(event.data.get("text")) for event in host.events())
    assert all(fact in logged for fact in [TASK, *ERRORS, *DECISIONS])
    growth = [later - earlier for earlier, later in pairwise(lengths)]
    assert max(growth) < 1.5 * min(growth), "the log grows linearly"


async def test_every_request_is_there_verbatim(make_host: MakeHost) -> None:
    host = make_host(context=12_000)
    for number in range(3):
        work(host, number)
    assert isinstance(await compact(host, "overflow", cancel=Cancel()), Compacted)
    task = host.tree[0].data["parts"]["task"]
    assert TASK in task
    for number in (1, 2):
        assert f"Step {number}: go on with {PATHS[2 * number]}" in task


async def test_after_a_restart_the_ledger_still_says_what_was_read(make_host: MakeHost) -> None:
    host = make_host(context=12_000)
    work(host, 0)
    again = make_host(reopen=host)
    again.assistant("word " * 600)
    assert isinstance(await compact(again, "soft", cancel=Cancel()), Compacted)
    assert f"{PATHS[0]}: read 1-500; file_tag=t0" in again.tree[0].data["parts"]["ledger"]
