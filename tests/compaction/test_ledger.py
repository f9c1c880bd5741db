from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.compaction.ledger import Facts, jobs_notice


@dataclass(frozen=True)
class Logged:
    type: str
    data: dict[str, Any]
    seq: int = field(default=0)


def facts(*events: tuple[str, dict[str, Any]]) -> Facts:
    fold = Facts()
    for seq, (kind, data) in enumerate(events):
        fold.apply(Logged(kind, data, seq))
    return fold


REPLY = ("assistant/message", {"text": "I see.", "calls": []})


def read(call: str, path: str, tag: str, *ranges: tuple[int, int]) -> tuple[str, dict[str, Any]]:
    shown = [{"uri": f"file:///{path}", "path": path, "fileTag": tag, "ranges": [list(pair) for pair in ranges]}]
    return "tool/result", {"callId": call, "name": "read", "ok": True, "text": "…", "shown": shown}


def edit(path: str, tag: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return "edit/applied", {"path": path, "uri": f"file:///{path}", "afterTag": tag, "saved": True, **data}


def bash(call: str, command: str, job: int, state: str, status: int | None) -> tuple[str, dict[str, Any]]:
    detail = {"command": command, "job": job, "state": state, "exitStatus": status}
    return "tool/result", {"callId": call, "name": "bash", "ok": True, "text": "", "data": detail}


def lines(fold: Facts) -> list[str]:
    return [entry.text for entry in fold.entries()]


def test_ranges_of_a_file_are_joined_and_the_last_tag_kept() -> None:
    fold = facts(read("c1", "a.py", "t1", (1, 500)), read("c2", "a.py", "t1", (501, 600), (900, 950)), REPLY)
    assert lines(fold) == ["a.py: read 1-600, 900-950; file_tag=t1"]


def test_a_file_that_somebody_else_changed_was_read_as_far_as_it_was_since() -> None:
    fold = facts(read("c1", "a.py", "t1", (1, 500)), REPLY, read("c2", "a.py", "t2", (501, 600)), REPLY)
    assert lines(fold) == ["a.py: read 501-600; file_tag=t2"]


def test_what_no_reply_follows_was_not_read() -> None:
    shown = read("c1", "a.py", "t1", (1, 500))
    assert lines(facts(shown)) == []
    assert lines(facts(REPLY, shown)) == []
    shortened = ("assistant/message", {**REPLY[1], "original": 1})
    assert lines(facts(shown, shortened)) == []
    assert lines(facts(shown, REPLY)) == ["a.py: read 1-500; file_tag=t1"]


def test_the_claim_of_a_file_is_what_its_line_says_was_shown_with_that_tag() -> None:
    fold = facts(read("c1", "a.py", "t1", (1, 9)), REPLY, edit("a.py", "t2"), read("c2", "a.py", "t2", (3, 6)), REPLY)
    [entry] = fold.entries()
    assert entry.text == "a.py: read 1-9; edited; file_tag=t2"
    assert entry.claim is not None
    assert (entry.claim["fileTag"], entry.claim["ranges"]) == ("t2", [[3, 6]])
    assert "partial" not in entry.claim
    scattered = [(10 * number, 10 * number + 1) for number in range(1, 21)]
    [entry] = facts(read("c1", "a.py", "t1", *scattered), REPLY).entries()
    assert entry.claim is not None
    assert entry.claim["ranges"] == [list(pair) for pair in scattered[:16]]
    assert entry.claim["partial"] is True


def test_an_edit_gives_the_tag_to_edit_with() -> None:
    fold = facts(
        read("c1", "a.py", "t1", (1, 9)), REPLY, edit("a.py", "t2"), edit("a.py", "t3"), edit("b.py", "n", created=True)
    )
    assert [entry.short for entry in fold.entries()] == ["b.py edited, file_tag=n", "a.py edited, file_tag=t3"]
    assert lines(fold) == ["b.py: created; edited; file_tag=n", "a.py: read 1-9; edited 2 times; file_tag=t3"]


def test_running_jobs_come_first_then_the_newest() -> None:
    fold = facts(
        ("job/started", {"job": 1, "pid": 9, "command": "serve", "callId": "c1"}),
        bash("c1", "serve", 1, "running", None),
        ("job/started", {"job": 2, "pid": 10, "command": "make", "callId": "c2"}),
        ("job/ended", {"job": 2, "state": "exited", "exitStatus": 2}),
        bash("c2", "make", 2, "exited", 2),
        read("c3", "a.py", "t", (1, 2)),
        REPLY,
    )
    assert lines(fold) == [
        "job 1 is running: serve",
        "a.py: read 1-2; file_tag=t",
        "`make`: exit status 2",
    ]
    assert jobs_notice(fold) == "Still running: job 1 is running: serve."


def test_a_late_look_does_not_revive_a_job_that_ended() -> None:
    fold = facts(
        ("job/started", {"job": 1, "command": "make", "callId": "c1"}),
        ("job/ended", {"job": 1, "state": "lost", "exitStatus": None}),
        bash("c1", "make", 1, "running", None),
    )
    assert lines(fold) == ["`make`: lost"]
    assert jobs_notice(fold) is None


def test_a_command_that_never_became_a_job_is_not_said_to_run() -> None:
    fold = facts(("tool/result", {"callId": "c1", "name": "bash", "data": {"command": "rm -rf /"}}))
    assert lines(fold) == ["`rm -rf /`: not run"]


def test_a_pruned_copy_of_a_result_changes_nothing() -> None:
    original, other = read("c1", "old.py", "t1", (1, 500)), read("c2", "new.py", "t", (1, 1))
    assert lines(facts(original, other, REPLY, original)) == lines(facts(original, other, REPLY))


def test_prompts_are_kept_exactly_and_other_user_messages_are_not_prompts() -> None:
    place = {"uri": "file:///a.py", "range": {"start": {"line": 4, "character": 0}, "end": {"line": 9, "character": 0}}}
    fold = facts(
        ("user/message", {"kind": "prompt", "text": "  fix\n\n it ", "context": [{**place, "text": "x"}]}),
        ("user/message", {"kind": "notice", "text": "n"}),
        ("user/message", {"kind": "checkpoint", "text": "c"}),
    )
    assert [(p.seq, p.text, p.attached) for p in fold.prompts] == [(0, "  fix\n\n it ", ("file:///a.py:5-10",))]


def test_an_unfinished_compaction_is_seen_and_whether_its_checkpoint_is_there() -> None:
    start, node, end = ("compact/start", {}), ("user/message", {"kind": "checkpoint", "text": ""}), ("compact/end", {})
    assert facts(start).open_start == 0
    assert not facts(start).open_replaced
    assert facts(start, node).open_replaced
    assert facts(start, node, end).open_start is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), max_size=12))
def test_ranges_cover_exactly_the_lines_read(spans: list[tuple[int, int]]) -> None:
    ranges = [(first, first + more) for first, more in spans]
    fold = facts(*(read(f"c{i}", "a", "t", pair) for i, pair in enumerate(ranges)), REPLY)
    wanted = {line for first, last in ranges for line in range(first, last + 1)}
    [text] = lines(fold) or [": read ; "]
    shown = text.split("read ")[1].split(";")[0]
    pairs = [pair.split("-") for pair in shown.split(", ") if pair]
    assert {line for a, b in pairs for line in range(int(a), int(b) + 1)} == wanted
    assert len(pairs) == len({line for line in wanted if line - 1 not in wanted})


def test_one_file_is_one_entry_however_the_log_names_it() -> None:
    shown = [{"uri": "file:///w/src/a.py", "path": "src/a.py", "fileTag": "t1", "ranges": [[1, 9]]}]
    fold = facts(
        ("tool/result", {"callId": "c1", "name": "read", "ok": True, "text": "…", "shown": shown}),
        REPLY,
        ("edit/applied", {"path": "/w/src/a.py", "uri": "file:///w/src/%61.py", "afterTag": "t2", "saved": True}),
    )
    assert lines(fold) == ["src/a.py: read 1-9; edited; file_tag=t2"]


def test_what_the_user_pointed_at_was_read() -> None:
    shown = [{"uri": "file:///a.py", "path": "a.py", "fileTag": "t", "ranges": [[3, 7]]}]
    context = [{"uri": "file:///a.py", "text": "…", "shown": shown}]
    fold = facts(("user/message", {"kind": "prompt", "text": "explain", "context": context}), REPLY)
    assert lines(fold) == ["a.py: read 3-7; file_tag=t"]


def test_a_file_whose_creation_was_undone_is_not_called_edited() -> None:
    fold = facts(edit("b.py", "n", created=True), edit("b.py", "", undoes=1))
    assert lines(fold) == ["b.py: removed again"]
    assert [entry.short for entry in fold.entries()] == ["b.py removed again"]
