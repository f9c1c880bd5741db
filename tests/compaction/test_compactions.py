from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ds4_lsp.compaction import Compacted, Compactions, Failed, Summary
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import EngineDied

MakeHost = Callable[..., Any]


def talk(host: Any) -> None:
    for words in (300, 300, 300, 40):
        host.exchange("request", words)


async def test_who_asks_while_one_runs_joins_it(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    compactions = Compactions(host)
    first, second = await asyncio.gather(
        compactions.run("soft", cancel=Cancel()), compactions.run("manual", cancel=Cancel())
    )
    assert isinstance(first, Compacted)
    assert second is first
    assert host.types().count("compact/start") == 1
    assert not compactions.running


async def test_who_joined_hears_of_an_engine_error_too(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)

    def die(step: str) -> None:
        if step == "summarise":
            raise EngineDied("signal 11")

    host.before_step = die
    compactions = Compactions(host)
    outcomes = await asyncio.gather(
        compactions.run("soft", cancel=Cancel()), compactions.run("manual", cancel=Cancel()), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [EngineDied, EngineDied]


async def test_a_joiner_that_gives_up_does_not_end_it(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    compactions = Compactions(host)
    first = asyncio.ensure_future(compactions.run("soft", cancel=Cancel()))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(compactions.run("manual", cancel=Cancel()))
    await asyncio.sleep(0)
    second.cancel()
    assert isinstance(await first, Compacted)
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_a_killed_task_records_the_end_and_frees_the_way(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    compactions = Compactions(host)
    asked = asyncio.Event()
    host.before_step = lambda step: asked.set() if step == "summarise" else None
    task = asyncio.ensure_future(compactions.run("soft", cancel=Cancel()))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list(host.events())[-1].data["error"] == "cancelled"
    assert isinstance(await compactions.run("soft", cancel=Cancel()), Compacted)


async def test_a_late_cancel_does_not_touch_the_next_compaction(make_host: MakeHost) -> None:
    host, cancel = make_host(), Cancel()
    talk(host)
    compactions = Compactions(host)
    assert isinstance(await compactions.run("manual", cancel=cancel), Compacted)
    cancel.set()
    assert not compactions.cancel()
    talk(host)
    assert isinstance(await compactions.run("manual", cancel=Cancel()), Compacted)


async def test_cancel_reaches_the_one_that_runs(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    compactions = Compactions(host)
    host.before_step = lambda step: None if step != "summarise" else [compactions.cancel()][:0]
    outcome = await compactions.run("soft", cancel=Cancel())
    assert outcome == Failed("cancelled", cancelled=True)


async def test_soft_is_held_back_after_a_failure_until_the_surface_has_grown(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    compactions = Compactions(host)
    nearly_full = compactions.limits.soft_at
    assert compactions.soft(nearly_full - 1).action == "go on"
    assert compactions.soft(nearly_full).action == "compact"
    host.script = [Summary("", 0, "end")]
    assert isinstance(await compactions.run("soft", cancel=Cancel()), Failed)
    assert compactions.soft(nearly_full).action == "go on"
    host.assistant("word " * (compactions.limits.step // 2 + 1))
    assert compactions.soft(nearly_full).action == "compact"


async def test_a_pass_that_freed_enough_holds_nothing_back(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    compactions = Compactions(host)
    assert isinstance(await compactions.run("soft", cancel=Cancel()), Compacted)
    assert compactions.soft(compactions.limits.soft_at).action == "compact"


async def test_that_compaction_cannot_help_is_said_once(make_host: MakeHost) -> None:
    host = make_host()
    host.prefix_tokens = 3000
    compactions = Compactions(host)
    first, second = compactions.soft(3900), compactions.soft(3900)
    assert first.action == second.action == "cannot help"
    assert "3000" in first.message
    assert second.message == ""
