from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.compaction import Compacted, Failed, Nothing, Pruned, Speeds, Summary, compact
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import ContextTooSmall, CorruptSession, EngineDied
from ds4_lsp.session.events import Event
from ds4_lsp.session.surface import Surface

MakeHost = Callable[..., Any]
Tokens = Callable[[str], int]


def talk(host: Any, requests: int = 4, words: int = 300) -> None:
    for number in range(requests):
        host.exchange(f"request {number}", 40 if number == requests - 1 else words)


def checkpoint_text(host: Any) -> str:
    data = host.tree[0].data
    assert data["kind"] == "checkpoint"
    return str(data["text"])


async def test_the_log_says_what_was_done_in_order_and_cites_it(make_host: MakeHost, summary_text: str) -> None:
    host = make_host()
    talk(host)
    items, bottom = host.surface(), host.bottom
    done = await compact(host, "soft", cancel=Cancel())
    assert isinstance(done, Compacted)
    assert done.rebuild_error is None
    result = done.result
    start, summary, node, end = list(host.events())[-4:]
    assert [start.type, summary.type, node.type, end.type] == [
        "compact/start",
        "compact/summary",
        "user/message",
        "compact/end",
    ]
    assert start.data == {"trigger": "soft", "turn": 1, "bottom": bottom}
    shadowed = [item.seq for item in items if item.seq not in host.tree.seqs]
    assert shadowed == [item.seq for item in items[: len(shadowed)]]
    assert node.sources == (start.seq, summary.seq, *shadowed)
    assert summary.data["summary"] == summary_text
    assert summary.data["shadowedSeqs"] == result.shadowed_seqs == shadowed
    assert summary.data["shadowedTokenCount"] == sum(item.tokens for item in items[: len(shadowed)])
    assert summary.data["shadowedRange"] == {"start": shadowed[0], "end": shadowed[-1]}
    assert summary.data["compactionId"] == result.compaction_id == f"compaction-{start.seq}"
    assert summary.data["model"] == "scripted"
    assert summary.data["usage"]["completionTokens"] > 0
    assert "error" not in end.data
    assert (result.start_seq, result.summary_seq, result.end_seq) == (start.seq, summary.seq, end.seq)
    assert (result.before_tokens, result.after_tokens) == (bottom, host.bottom)
    assert result.checkpoint_token_count == host.surface()[0].tokens
    assert result.tail_token_count == sum(item.tokens for item in host.surface()[1:])
    assert result.after_tokens == host.prefix_tokens + result.checkpoint_token_count + result.tail_token_count
    assert host.transcript == host.tree.seqs
    assert host.ended == [f"{bottom} → {host.bottom} tokens, tail {result.tail_token_count}"]


async def test_the_request_is_asked_once_on_the_live_transcript(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    size = len(host.surface())
    await compact(host, "soft", cancel=Cancel())
    [request] = host.requests
    assert (request.live, request.start, request.stop, request.before) == (True, 0, size, None)


async def test_the_tail_is_the_same_events_as_before(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    before = host.tree.events
    assert isinstance(await compact(host, "manual", cancel=Cancel()), Compacted)
    kept = host.tree.events[1:]
    assert kept
    assert kept == before[-len(kept) :]


async def test_nothing_older_than_the_tail_writes_no_event(make_host: MakeHost) -> None:
    host = make_host()
    host.user("hello")
    host.assistant("hello to you")
    before = list(host.events())
    for trigger in ("manual", "soft", "hard", "generation"):
        assert isinstance(await compact(host, trigger, cancel=Cancel()), Nothing)
    assert list(host.events()) == before
    assert host.requests == []


async def test_a_second_compaction_of_an_unchanged_surface_writes_nothing(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    assert isinstance(await compact(host, "manual", cancel=Cancel()), Compacted)
    before = list(host.events())
    assert isinstance(await compact(host, "manual", cancel=Cancel()), Nothing)
    assert list(host.events()) == before


async def test_an_orphan_result_raises_before_anything_is_written(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    host.write(
        "tool/result",
        {"turn": 1, "callId": "c99", "name": "read", "ok": True, "text": "x " * 600},
        surface_op={"op": "append"},
    )
    with pytest.raises(CorruptSession):
        await compact(host, "manual", cancel=Cancel())
    assert host.types() == []


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "   \n",
        "</think>so",
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="read">',
        Summary("<think>hm", 4, "length"),
    ],
    ids=["nothing", "white space", "end of thinking", "tool call", "only thinking"],
)
async def test_a_summary_without_text_fails_closed(make_host: MakeHost, answer: str | Summary) -> None:
    host = make_host()
    talk(host)
    before = host.tree.seqs
    host.script = [answer]
    failed = await compact(host, "soft", cancel=Cancel())
    assert isinstance(failed, Failed)
    assert not failed.cancelled
    assert "empty" in failed.reason
    assert host.tree.seqs == before
    assert list(host.events())[-1].data["error"] == failed.reason


async def test_a_tool_call_after_the_summary_is_dropped_from_it(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    host.script = ["## Current Work\nfixing\n<｜DSML｜tool_calls>"]
    assert isinstance(await compact(host, "soft", cancel=Cancel()), Compacted)
    assert "fixing" in checkpoint_text(host)
    assert "DSML" not in checkpoint_text(host)


async def test_a_summary_longer_than_its_input_is_cut_to_the_cap(make_host: MakeHost, tokens_of: Tokens) -> None:
    host = make_host()
    talk(host)
    host.script = ["a line of the summary\n" * 3000]
    done = await compact(host, "soft", cancel=Cancel())
    assert isinstance(done, Compacted)
    assert done.result.checkpoint_token_count <= host.context // 4
    assert done.result.checkpoint_token_count < done.result.shadowed_token_count
    assert done.result.summary.splitlines()[-1] == "a line of the summary"


async def test_what_the_user_asks_to_keep_in_mind_reaches_the_model(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    await compact(host, "manual", instructions="the port is 8123", cancel=Cancel())
    assert "the port is 8123" in host.requests[0].text


async def test_endless_instructions_do_not_crowd_out_the_summary(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    done = await compact(host, "manual", instructions="remember this " * 5000, cancel=Cancel())
    assert isinstance(done, Compacted)


async def test_a_waiting_call_stays_with_its_delayed_result(make_host: MakeHost) -> None:
    host = make_host()
    host.user("look at the readme")
    [first] = host.assistant("reading", 1)
    host.result(first, "line " * 800)
    [second] = host.assistant("more", 1)
    done = await compact(host, "hard", cancel=Cancel())
    assert isinstance(done, Compacted)
    budget = host.context // 10
    assert budget <= done.result.tail_token_count <= budget + 120
    shortened = host.tree[2]
    assert shortened.data["callId"] == first
    assert shortened.data["text"].endswith("line " * 100)
    assert f"event={shortened.sources[0]} " in shortened.data["text"]
    host.result(second, "the delayed result")
    assert [event.data.get("callId") for event in host.tree.events[2:]] == [first, None, second]
    assert "look at the readme" in checkpoint_text(host)


async def test_overflow_keeps_the_newest_unit_only(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    calls = host.assistant("two at once", 2)
    for call in calls:
        host.result(call, "short")
    assert isinstance(await compact(host, "overflow", cancel=Cancel()), Compacted)
    assert [event.type for event in host.tree.events[1:]] == ["assistant/message", "tool/result", "tool/result"]


async def test_a_later_item_stays_after_the_checkpoint_of_a_manual_compaction(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)

    def interfere(step: str) -> None:
        if step == "summarise":
            host.user("written meanwhile", "notice")

    host.before_step = interfere
    assert isinstance(await compact(host, "manual", cancel=Cancel()), Compacted)
    assert host.tree.events[-1].data["text"] == "written meanwhile"
    assert Surface(host.events()).seqs == host.tree.seqs


async def test_cancelled_before_it_starts_writes_nothing(make_host: MakeHost) -> None:
    host, cancel = make_host(), Cancel()
    talk(host)
    cancel.set()
    assert await compact(host, "soft", cancel=cancel) == Failed("cancelled", cancelled=True)
    assert host.types() == []


# --- parts --------------------------------------------------------------------------------------------------------


async def test_a_transcript_that_leaves_no_room_is_summarised_in_parts(make_host: MakeHost) -> None:
    host = make_host()
    talk(host, 6, 330)
    assert host.bottom > host.context - 600
    host.script = [f"part {number}" for number in range(1, 9)]
    done = await compact(host, "soft", cancel=Cancel())
    assert isinstance(done, Compacted)
    requests = host.requests
    assert len(requests) > 1
    assert not any(request.live for request in requests)
    assert requests[0].before is None
    assert [request.before.endswith(f"part {n}") for n, request in enumerate(requests[1:], 1)] == [True] * (
        len(requests) - 1
    )
    assert [request.start for request in requests] == [0, *(request.stop for request in requests[:-1])]
    assert requests[-1].stop == len(done.result.shadowed_seqs)
    assert done.result.summary == f"part {len(requests)}"
    assert next(event for event in host.events() if event.type == "compact/summary").data["chunks"] == len(requests)


async def test_a_giant_in_the_way_is_shown_as_an_excerpt(make_host: MakeHost) -> None:
    host = make_host()
    talk(host, 2, 200)
    [call] = host.assistant("read it all", 1)
    host.result(call, "begin " + "word " * 1500 + "end")
    host.assistant("I see.")
    host.user("and now?")
    assert isinstance(await compact(host, "generation", cancel=Cancel()), Compacted)
    [shown] = [request.text for request in host.requests if "result of read" in request.text]
    assert "begin word" in shown
    assert "word end" in shown
    assert "characters left out" in shown


async def test_a_surface_larger_than_the_context_can_be_compacted(make_host: MakeHost) -> None:
    host = make_host()
    talk(host, 12, 400)
    assert host.bottom > 2 * host.context
    assert isinstance(await compact(host, "soft", cancel=Cancel()), Compacted)
    assert host.bottom < host.context // 2


async def test_an_engine_that_is_full_before_the_count_says_so_is_asked_in_parts(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)

    def full(step: str) -> None:
        if step == "summarise" and host.requests[-1].live:
            raise ContextTooSmall("no KV slot is left")

    host.before_step = full
    assert isinstance(await compact(host, "overflow", cancel=Cancel()), Compacted)
    assert [request.live for request in host.requests][:2] == [True, False]


async def test_parts_shrink_to_what_the_engine_really_has_room_for(make_host: MakeHost) -> None:
    host, real = make_host(), 2500
    talk(host, 6, 330)
    refused = 0

    def full(step: str) -> None:
        nonlocal refused
        if step != "summarise":
            return
        request = host.requests[-1]
        size = host.prefix_tokens + sum(item.tokens for item in host.surface()[request.start : request.stop])
        if size + request.max_tokens > real:
            refused += 1
            raise ContextTooSmall("no KV slot is left", needed=size, size=host.context)

    host.before_step = full
    assert isinstance(await compact(host, "overflow", cancel=Cancel()), Compacted)
    assert 1 <= refused < 8


async def test_an_engine_without_any_room_ends_in_a_clear_refusal(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)

    def full(step: str) -> None:
        if step == "summarise":
            raise ContextTooSmall("no KV slot is left")

    host.before_step = full
    failed = await compact(host, "overflow", cancel=Cancel())
    assert isinstance(failed, Failed)
    assert "contextSize" in failed.reason
    assert host.types() == ["compact/start", "compact/end"]


async def test_what_is_logged_while_the_summary_is_written_is_in_the_ledger(make_host: MakeHost) -> None:
    host = make_host()
    host.write("job/started", {"turn": 1, "job": 1, "pid": 9, "command": "make", "callId": "c0"})
    talk(host)

    def ends(step: str) -> None:
        if step == "summarise":
            host.write("job/ended", {"turn": 1, "job": 1, "state": "exited", "exitStatus": 2})

    host.before_step = ends
    assert isinstance(await compact(host, "soft", cancel=Cancel()), Compacted)
    assert "`make`: exit status 2" in host.tree[0].data["parts"]["ledger"]
    assert "running" not in host.tree[0].data["parts"]["ledger"]


async def test_what_is_logged_between_the_last_fold_and_the_commit_is_in_the_ledger(make_host: MakeHost) -> None:
    host = make_host()
    host.write("job/started", {"turn": 1, "job": 1, "pid": 9, "command": "make", "callId": "c0"})
    talk(host)
    count, counted = host.count, 0

    async def and_a_job_ends(text: str) -> int:
        nonlocal counted
        # The checkpoint as a whole is the last thing that is counted.
        if "job 1 is running" in text and "# Summary\n#" in text and not counted:
            counted += 1
            host.write("job/ended", {"turn": 1, "job": 1, "state": "exited", "exitStatus": 2})
        return await count(text)

    host.count = and_a_job_ends
    assert isinstance(await compact(host, "soft", cancel=Cancel()), Compacted)
    assert counted == 1
    assert "`make`: exit status 2" in host.tree[0].data["parts"]["ledger"]


async def test_a_system_prompt_that_nearly_fills_the_context_ends_in_a_clear_refusal(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    host.prefix_tokens = 3500
    failed = await compact(host, "hard", cancel=Cancel())
    assert isinstance(failed, Failed)
    assert "contextSize" in failed.reason
    assert "4000" in failed.reason
    assert host.types() == ["compact/start", "compact/end"]


async def test_cancel_between_two_parts_ends_it(make_host: MakeHost) -> None:
    host, cancel = make_host(), Cancel()
    talk(host, 6, 330)

    def stop(step: str) -> None:
        if step == "summarise" and len(host.requests) == 2:
            cancel.set()

    host.before_step = stop
    assert await compact(host, "soft", cancel=cancel) == Failed("cancelled", cancelled=True)
    assert len(host.requests) == 2


# --- pruning ------------------------------------------------------------------------------------------------------


def long_results(host: Any) -> None:
    host.user("the task")
    for number in range(2):
        [call] = host.assistant(f"look {number}", 1)
        host.result(call, f"result {number} " + "word " * 2400, shown=[], data={"kept": number})
    host.user("go on")
    host.assistant("yes")


async def test_pruning_is_durable_and_changes_only_the_text_of_old_results(make_host: MakeHost) -> None:
    host = make_host(context=14_000)
    long_results(host)
    host.speeds = Speeds(prefill=1000.0, decode=1.0)
    before = {event.data.get("callId"): event for event in host.tree.events if event.type == "tool/result"}
    done = await compact(host, "soft", needed=11_000, cancel=Cancel())
    assert isinstance(done, Pruned)
    assert host.requests == []
    assert host.types() == []
    assert (done.before_tokens, done.after_tokens) == (done.before_tokens, host.bottom)
    assert host.transcript == host.tree.seqs
    removed = 0
    for node in done.result.pruned:
        old = before[node.call_id]
        [new] = [event for event in host.tree.events if event.seq == node.replacement_seq]
        assert old.seq == node.original_seq
        assert new.sources == (old.seq,)
        assert new.data | {"text": ""} == old.data | {"text": "", "original": old.seq}
        assert (node.chars_before, node.chars_after) == (len(old.data["text"]), len(new.data["text"]))
        removed += node.chars_before - node.chars_after
    assert done.result.pruned
    assert removed == done.result.chars_removed
    reopened = make_host(reopen=host)
    assert reopened.tree.seqs == host.tree.seqs


async def test_manual_compaction_and_overflow_do_not_prune(make_host: MakeHost) -> None:
    for trigger in ("manual", "overflow"):
        host = make_host(context=14_000)
        long_results(host)
        host.speeds = Speeds(prefill=1000.0, decode=1.0)
        assert isinstance(await compact(host, trigger, needed=12_000, cancel=Cancel()), Compacted)


async def test_where_a_summary_is_cheaper_nothing_is_pruned(make_host: MakeHost) -> None:
    host = make_host(context=14_000)
    long_results(host)
    host.speeds = Speeds(prefill=1.0, decode=1_000_000.0)
    host.user("so that there is much to evaluate again " * 20)
    host.assistant("word " * 650)
    assert isinstance(await compact(host, "soft", needed=12_000, cancel=Cancel()), Compacted)


# --- any conversation ---------------------------------------------------------------------------------------------


def results_unread(events: list[Event]) -> set[int]:
    """seqs of the results that no reply follows."""
    found: set[int] = set()
    for event in events:
        if event.type == "tool/result":
            found.add(event.seq)
        elif event.type == "assistant/message":
            found.clear()
    return found


steps = st.lists(
    st.tuples(
        st.sampled_from(["prompt", "notice", "reply", "call", "calls", "waiting"]),
        st.sampled_from([3, 150, 400, 700, 2500]),
    ),
    min_size=5,
    max_size=14,
)


def play(host: Any, script: list[tuple[str, int]]) -> None:
    for number, (what, words) in enumerate(script):
        text = f"{what} {number} " + "word " * words
        if what in ("prompt", "notice"):
            host.user(text, what)
        elif what == "reply":
            host.assistant(text)
        else:
            calls = host.assistant("look", 2 if what == "calls" else 1)
            for call in calls:
                if what != "waiting" or number < len(script) - 1:
                    host.result(call, text)


@settings(deadline=None, max_examples=25)
@given(
    first=steps,
    second=steps,
    context=st.sampled_from([1200, 3000, 5000, 12_000]),
    trigger=st.sampled_from(["soft", "hard", "generation", "overflow", "manual"]),
    words=st.sampled_from([1, 5, 100, 2000]),
)
async def test_any_conversation_keeps_the_task_the_pairs_the_tail_and_the_caps(
    tmp_path_factory: pytest.TempPathFactory,
    host_class: type[Any],
    tokens_of: Tokens,
    *,
    first: list[tuple[str, int]],
    second: list[tuple[str, int]],
    context: int,
    trigger: Any,
    words: int,
) -> None:
    host = host_class.create(tmp_path_factory.mktemp("any") / "session", context=context)
    try:
        for script in (first, second):
            play(host, script)
            before, prompts = host.tree.events, [e for e in host.events() if e.data.get("kind") == "prompt"]
            bottom, items = host.bottom, {item.seq: item for item in host.surface()}
            unread = results_unread(before)
            host.script = ["a line\n" * words] * 40
            done = await compact(host, trigger, cancel=Cancel())
            assert Surface(host.events()).events == host.tree.events
            if not isinstance(done, Compacted):
                assert host.tree.events == before
                continue
            node, kept = host.tree[0], host.tree.events[1:]
            originals = [event.sources[0] if event not in before else event.seq for event in kept]
            assert originals == [event.seq for event in before[len(before) - len(kept) :]]
            assert unread <= {event.seq for event in kept}, "nothing unread goes, and nothing of it"
            for event in kept:
                if event not in before:
                    [whole] = [old for old in before if old.seq == event.sources[0]]
                    assert event.data | {"text": "", "original": 0} == whole.data | {"text": "", "original": 0}
                    assert whole.data["text"].endswith(event.data["text"].rsplit(" …]\n", 1)[1])
            answered = {event.data.get("callId") for event in kept if event.type == "tool/result"}
            assert answered <= {call["callId"] for event in kept for call in event.data.get("calls", ())}
            if trigger != "overflow":
                assert done.result.tail_token_count >= context // 10
            for prompt in prompts:
                # Word for word, or in part, or named; never silently gone.
                assert prompt in kept or re.search(rf"\b{prompt.seq}\b", node.data["parts"]["task"])
            gone = [prompt for prompt in prompts if prompt not in kept]
            if sum(tokens_of(prompt.data["text"]) + 20 for prompt in gone) + 40 <= context // 8:
                assert all(prompt.data["text"] in node.data["parts"]["task"] for prompt in gone)
            assert done.result.checkpoint_token_count <= context // 4
            assert host.bottom < bottom
            if trigger in ("soft", "hard", "generation"):
                removed = bottom - host.bottom + done.result.checkpoint_token_count
                earlier = sum(item.tokens for item in items.values() if item.kind == "checkpoint")
                assert removed - earlier >= context // 20
            written = list(host.events())
            assert isinstance(await compact(host, trigger, cancel=Cancel()), Nothing)
            assert list(host.events()) == written, "a second one of an unchanged surface writes nothing"
    finally:
        host.log.close()


async def test_a_dead_engine_in_the_rebuild_leaves_the_checkpoint(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)

    def die(step: str) -> None:
        if step == "rebuild":
            raise EngineDied("signal 9")

    host.before_step = die
    done = await compact(host, "soft", cancel=Cancel())
    assert isinstance(done, Compacted)
    assert isinstance(done.rebuild_error, EngineDied)
    assert checkpoint_text(make_host(reopen=host))


async def test_the_progress_names_the_reason_counts_tokens_then_the_rebuild(make_host: MakeHost) -> None:
    host = make_host()
    talk(host)
    await compact(host, "soft", cancel=Cancel())
    messages = [message for message, _done, _total in host.reports]
    assert messages[0].startswith("soft: ")
    assert any(message.startswith("summarising, ") for message in messages)
    assert host.reports[-1] == ("rebuilding", 2, 2)
    kinds = [kind for kind, _data in host.emitted]
    assert kinds == ["compaction.start", "compaction.delta", "compaction.end"]
