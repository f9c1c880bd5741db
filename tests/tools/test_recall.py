from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.ports import Cancel
from ds4_lsp.session.events import Event
from ds4_lsp.tools.base import Call, ToolResult
from ds4_lsp.tools.dispatch import Toolbox
from ds4_lsp.tools.recall import PAGE_CHARACTERS, PAGE_LINES, Recall
from ds4_lsp.tools.recalling import MOST_HITS, Message, messages, render, search

APPEND = {"op": "append"}


def said(raw: str, _thinking: bool) -> str:
    return raw.rsplit("</think>", maxsplit=1)[-1]


def log(*entries: tuple[str, dict[str, Any]], op: dict[str, Any] | None = None) -> list[Event]:
    return [Event(seq, type, 1.0, data, op or APPEND) for seq, (type, data) in enumerate(entries, 1)]


def user(text: str, kind: str = "prompt") -> tuple[str, dict[str, Any]]:
    return "user/message", {"text": text, "kind": kind}


def result(text: str, name: str = "read") -> tuple[str, dict[str, Any]]:
    return "tool/result", {"text": text, "name": name, "callId": "c1", "ok": True}


EVENTS = log(
    user("Serve on port 8123, and write logs in German."),
    ("assistant/message", {"text": "secret</think>I will.", "thinking": True}),
    result("E4017: lag is 17 ms"),
    user("notice me", "notice"),
    user("checkpoint", "checkpoint"),
    result("event 1: port 8123", "recall"),
    user("Schreibe die PORT-Nummer auf."),
)


async def recall(events: list[Event], **arguments: Any) -> ToolResult:
    tool = Recall(lambda: iter(events), said)
    return await Toolbox([tool]).run("recall", arguments, Call("s", 1, "c9", Cancel()))


def test_what_was_said_and_shown_is_there_as_it_was_first() -> None:
    shortened = log(result("half of it"), op={"op": "replace", "start": 0, "end": 0})
    assert [(one.seq, one.who, one.text) for one in messages([*EVENTS, *shortened], said)] == [
        (1, "the user", "Serve on port 8123, and write logs in German."),
        (2, "you", "I will."),
        (3, "result of read", "E4017: lag is 17 ms"),
        (7, "the user", "Schreibe die PORT-Nummer auf."),
    ]


def test_the_whole_query_comes_first_then_most_of_its_words_the_newest_before_the_older() -> None:
    found = [
        Message(1, "the user", "the retry budget is 4"),
        Message(2, "you", "the budget for a retry"),
        Message(3, "you", "a budget"),
        Message(4, "the user", "The Retry Budget is 5"),
    ]
    assert [hit.message.seq for hit in search(found, "retry budget")] == [4, 1, 2, 3]
    assert [hit.message.seq for hit in search(found, "retry budget of seven")] == [4, 2, 1]
    assert search(found, "nothing") == []


@settings(deadline=None)
@given(st.lists(st.text(max_size=400), max_size=30), st.text(min_size=1, max_size=20).filter(str.strip))
def test_a_search_finds_every_message_with_the_text_and_its_answer_is_bounded(texts: list[str], query: str) -> None:
    found = [Message(seq, "you", text) for seq, text in enumerate(texts)]
    hits = search(found, query)
    wanted = {one.seq for one in found if query.strip() in one.text}
    assert wanted <= {hit.message.seq for hit in hits} or query.strip().lower() != query.strip()
    assert len(render(hits, query)) < 600 * (MOST_HITS + 1)


async def test_an_event_is_shown_by_its_number_in_pages() -> None:
    text = "\n".join(f"line {number}" for number in range(1, PAGE_LINES + 51))
    events = log(user(text))
    first = await recall(events, event=1)
    assert first.ok
    assert first.text.startswith(f"Event 1 (the user), lines 1-{PAGE_LINES} of {PAGE_LINES + 50}:\nline 1\n")
    assert first.text.endswith(f"[go on with start_line={PAGE_LINES + 1}]")
    rest = await recall(events, event=1, start_line=PAGE_LINES + 1)
    assert rest.text.splitlines()[1] == f"line {PAGE_LINES + 1}"
    assert rest.text.endswith(f"line {PAGE_LINES + 50}")


async def test_a_page_that_does_not_fit_is_shown_as_far_as_it_does() -> None:
    page = await recall(log(user("\n".join(map(str, range(100))))), event=1)

    async def fits(text: str) -> bool:
        return len(text) <= 120

    assert page.part is not None
    part = await page.part(fits)
    assert part is not None
    assert len(part.text) <= 120
    shown = part.text.splitlines()
    assert shown[-1] == f"[go on with start_line={len(shown) - 1}]"


async def test_what_recall_shows_is_bounded() -> None:
    page = await recall(log(user("x" * 100_000)), event=1)
    assert len(page.text) < PAGE_CHARACTERS + 200
    assert "[cut]" in page.text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"event": 4}, "no message of this session"),
        ({"event": 99}, "no message of this session"),
        ({"event": 1, "start_line": 9}, "beyond its end"),
        ({}, "either event or query"),
        ({"event": 1, "query": "x"}, "either event or query"),
    ],
)
async def test_what_cannot_be_recalled_is_refused_with_the_reason(arguments: dict[str, Any], why: str) -> None:
    refused = await recall(EVENTS, **arguments)
    assert not refused.ok
    assert why in refused.text


async def test_nothing_found_is_said() -> None:
    assert 'nothing in this session has "zebra"' in (await recall(EVENTS, query="zebra")).text
