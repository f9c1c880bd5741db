from __future__ import annotations

import asyncio
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.ports import Answer, Cancel, Question
from ds4_lsp.protocol.errors import Cancelled, Denied
from ds4_lsp.protocol.settings import PermissionSettings, Settings
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.permissions_patterns import allowed, simple_commands

PATTERNS = ("git status", "git log *", "make", "ls ?.txt", "cat src/*", "wc", "echo [ab]", "cd *", "grep * *.py")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git  status",
        "  git\tstatus ",
        "'git' \"status\"",
        "g\"i\"t sta'tus'",
        "git status;",
        "git status && git status",
        "git status; make",
        "make || git log | wc",
        "make&&make",
        "git log",
        "git log --oneline -n 3",
        "git log --format='%h $(not run) `nor this` > | ; &'",
        'git log "--author=A, B; C & D"',
        "ls a.txt",
        "cat src/a.py",
        "cat src/deep/a.py",
        "echo a",
        "cd sub/folder && make",
        "cd .. && make",
        "cd ''",
        "grep 'a*b' x.py",
    ],
)
def test_what_the_patterns_cover_needs_no_question(command: str) -> None:
    assert allowed(command, PATTERNS)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        ";",
        "git",
        "git status -s",
        "git-status",
        "Git status",
        "git 'status '",
        "'git status'",
        "/tmp/git status",
        "git status; rm -rf /",
        "git status;rm -rf /",
        "git status && rm -rf /",
        "git status || rm -rf /",
        "git status | sh",
        "git status |& sh",
        "git status & rm -rf /",
        "git status &",
        "git status &&",
        "git status |",
        "&& git status",
        "; git status",
        "git status ;; git status",
        "git status && && git status",
        "git status $(rm -rf /)",
        "git status `rm -rf /`",
        'git log "$(rm -rf /)"',
        'git log "`rm -rf /`"',
        "git log $HOME",
        'git log "$HOME"',
        "git log ${IFS}",
        "git log $'a\\nb'",
        'git log $"a"',
        "git log <(rm -rf /)",
        "git status > /etc/x",
        "git status >> x",
        "git status 2>&1",
        "git status < x",
        "git log <<EOF\nrm\nEOF",
        "git log <<< x",
        "git status\nrm -rf /",
        "git status\r\nrm -rf /",
        "git status\n",
        "git log 'two\nlines'",
        "git log 'nul\0'",
        "git log a\\;rm",
        "git log \\\nrm",
        "(git status)",
        "{ git status; }",
        "! git status",
        "FOO=1 git status",
        "FOO+=1 git status",
        "FOO=1",
        "PATH=/tmp/evil; git status",
        "git status # comment",
        "git log ~/x",
        "git log ~root",
        "git log *",
        "git log a?",
        "git log [ab]",
        "git log {a,b}",
        "git log 'unfinished",
        'git log "unfinished',
        'git log "a!b"',
        "git log naïve",
        "git\u00a0status",
        "cat src/../../etc/passwd",
        "cat src/a/..",
        "ls ab.txt",
        "ls a.txt b.txt",
        "echo c",
        "if make",
        "eval make",
    ],
)
def test_what_the_patterns_do_not_cover_is_asked(command: str) -> None:
    assert not allowed(command, PATTERNS)


@pytest.mark.parametrize("pattern", ["", "  ", "'unfinished", "git status;", "git status && make"])
def test_a_pattern_that_is_not_a_list_of_words_covers_nothing(pattern: str) -> None:
    assert not allowed("git status", [pattern])
    assert not allowed("git status && make", [pattern])
    assert not allowed("", [pattern])


def test_a_lone_star_covers_every_simple_command_and_nothing_else() -> None:
    assert allowed("rm -rf / && make", ["*"])
    assert not allowed("make > x", ["*"])
    assert not allowed("FOO=1 make", ["*"])


pieces = st.lists(
    st.sampled_from(
        [
            "a",
            "git",
            " ",
            "'",
            '"',
            ";",
            "&&",
            "|",
            "||",
            "&",
            "-x",
            "=",
            "$",
            "\\",
            "#",
            "\t",
            "''",
            "*",
            "~",
            "%h",
            ",",
            "@",
        ]
    ),
    max_size=12,
).map("".join)


@given(st.lists(pieces, min_size=40, max_size=40))
@settings(deadline=None, max_examples=25)
def test_the_shell_sees_the_same_words(commands: list[str]) -> None:
    """What the parser takes for one simple command, bash splits into the very same words."""
    parsed = [(command, words[0]) for command in commands if (words := simple_commands(command)) and len(words) == 1]
    script = 'show() { printf \'%s\\0\' "$#" "$@"; }\n' + "\n".join(f"show {command}" for command, _ in parsed)
    if parsed:
        done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, check=True)
        expected = [part for _, words in parsed for part in (str(len(words)), *words)]
        assert done.stdout.decode().split("\0")[:-1] == expected


@given(st.lists(st.text(alphabet="ab $;&|<>`'\"\\\n*~#(){}!é", max_size=8), min_size=1, max_size=4))
@settings(deadline=None)
def test_a_command_quoted_for_the_shell_is_one_simple_command_or_is_asked(words: list[str]) -> None:
    assert simple_commands(shlex.join(words)) in (None, [tuple(words)])


class Desk:
    """The other side of a gate: settings, a user who answers, and the log."""

    def __init__(self, *answers: Answer | Exception, **permissions: Any) -> None:
        self.settings = Settings(permissions=PermissionSettings(**permissions))
        self.answers = list(answers)
        self.questions: list[Question] = []
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.gate = Gate(lambda: self.settings, self.ask, lambda name, data: self.log.append((name, data)))

    async def ask(self, question: Question, _cancel: Cancel) -> Answer:
        self.questions.append(question)
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def check(self, detail: str = "make", kind: Any = "bash", cancel: Cancel | None = None) -> None:
        await self.gate.check(kind, detail=detail, key=detail, call=Call("s", 1, "c1", cancel or Cancel()))

    @property
    def decisions(self) -> list[str]:
        return [data["answer"] for name, data in self.log if name == "permission/decided"]


async def test_by_default_a_command_is_asked_in_full_and_both_are_logged() -> None:
    desk = Desk("once")
    command = "make && " + "x" * 5000
    await desk.check(command)
    assert [(question.kind, question.detail) for question in desk.questions] == [("bash", command)]
    assert desk.log == [
        ("permission/asked", {"kind": "bash", "detail": command, "callId": "c1"}),
        ("permission/decided", {"kind": "bash", "answer": "once", "callId": "c1"}),
    ]


async def test_once_is_for_one_call() -> None:
    desk = Desk("once", "deny")
    await desk.check()
    with pytest.raises(Denied):
        await desk.check()


async def test_session_covers_the_same_key_and_kind_only() -> None:
    desk = Desk("session", "once", "once", write="ask")
    for _ in range(3):
        await desk.check("make")
    await desk.check("make install")
    await desk.check("make", kind="write")
    assert [(question.kind, question.detail) for question in desk.questions] == [
        ("bash", "make"),
        ("bash", "make install"),
        ("write", "make"),
    ]
    assert desk.decisions == ["session", "remembered", "remembered", "once", "once"]


async def test_an_answer_for_the_session_spares_a_question_that_is_already_waiting() -> None:
    desk = Desk("session")
    await asyncio.gather(desk.check(), desk.check(), desk.check())
    assert len(desk.questions) == 1


async def test_session_answers_end_with_the_gate_and_yield_to_deny() -> None:
    desk = Desk("session")
    await desk.check()
    desk.settings = Settings(permissions=PermissionSettings(bash="deny"))
    with pytest.raises(Denied, match="the setting ds4"):
        await desk.check()
    with pytest.raises(Denied):
        await Desk("deny").check()


@pytest.mark.parametrize(
    ("answer", "recorded", "text"),
    [
        ("deny", "deny", "does not want"),
        ("unavailable", "unavailable", "no answer came"),
        (RuntimeError("no such client"), "unavailable", "no answer came"),
    ],
)
async def test_no_answer_and_errors_count_as_no(answer: Any, recorded: str, text: str) -> None:
    desk = Desk(answer)
    with pytest.raises(Denied, match=text):
        await desk.check()
    assert desk.decisions == [recorded]


async def test_patterns_spare_the_question_but_not_the_prohibition() -> None:
    desk = Desk(bash_allow=["git status"])
    await desk.check("git status")
    assert (desk.questions, desk.decisions) == ([], ["pattern"])
    denied = Desk(bash="deny", bash_allow=["git status"])
    with pytest.raises(Denied, match="deny"):
        await denied.check("git status")
    assert (denied.questions, denied.decisions) == ([], ["deny"])


async def test_patterns_are_for_commands_only() -> None:
    desk = Desk("deny", write="ask", bash_allow=["*"])
    with pytest.raises(Denied):
        await desk.check("file.py", kind="write")


async def test_settings_decide_without_a_question() -> None:
    desk = Desk()
    await desk.check("src/a.py", kind="write")
    with pytest.raises(Denied, match="outsideWorkspace"):
        await desk.check("/etc/passwd", kind="outsideWorkspace")
    assert (desk.questions, desk.decisions) == ([], ["allow", "deny"])


async def test_a_question_ended_by_an_interrupt_is_a_cancellation() -> None:
    desk, cancel = Desk("unavailable"), Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        await desk.check(cancel=cancel)


async def test_what_cannot_be_logged_does_not_pass() -> None:
    def record(_name: str, _data: dict[str, Any]) -> None:
        raise OSError("disk full")

    desk = Desk("once", bash="allow")
    gate = Gate(lambda: desk.settings, desk.ask, record)
    with pytest.raises(OSError, match="disk full"):
        await gate.check("bash", detail="make", key="make", call=Call("s", 1, "c1", Cancel()))
