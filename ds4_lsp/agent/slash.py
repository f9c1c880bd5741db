"""Slash words: a prompt whose whole text is a command acts as that command, in every client. Pure.

A text that begins with ``/`` and one plain word is meant as a command: what is none is refused, with the nearest one,
before it costs a turn. Paths (``/etc/hosts``), texts of several lines and texts that begin with a space are prompts.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from ds4_lsp.protocol.errors import InvalidRequest

LONGEST_COUNT = 6
"""Digits of a number of turns, events, jobs."""
AS_PROMPT = "To send the text as a prompt, begin it with a space."

_WORD = re.compile(r"/([A-Za-z][A-Za-z-]{0,40})(?=\s|$)")
_COUNT = re.compile(rf"[0-9]{{1,{LONGEST_COUNT}}}")
Check = Callable[[str], bool]


@dataclass(frozen=True)
class Slash:
    """``name`` without the slash; ``rest`` is what follows it, stripped."""

    name: str
    rest: str


@dataclass(frozen=True)
class Word:
    """One slash word. ``fits``: whether a text may follow it."""

    name: str
    usage: str
    help: str
    fits: Check


def _nothing(rest: str) -> bool:
    return not rest


def _anything(rest: str) -> bool:
    return True


def _one_word(rest: str) -> bool:
    return len(rest.split()) == 1


def _number(rest: str) -> bool:
    return _COUNT.fullmatch(rest.removeprefix("#")) is not None


def _maybe(check: Check) -> Check:
    return lambda rest: not rest or check(rest)


def _number_and_text(rest: str) -> bool:
    number, _, text = rest.partition(" ")
    return _number(number) and bool(text.strip())


def _format(rest: str) -> bool:
    return rest in ("", "markdown", "jsonl")


WORDS = (
    Word("compact", "[what to keep in mind]", "replace older conversation by a checkpoint", _anything),
    Word("new", "[title]", "start a new session", _anything),
    Word("list", "", "list this workspace's sessions", _nothing),
    Word("switch", "ID", "make another session current (any unique prefix)", _one_word),
    Word("history", "[N]", "show the last N turns (3)", _maybe(_number)),
    Word("fork", "[EVENT]", "copy the session up to an event, and go on in the copy", _maybe(_number)),
    Word("delete", "ID", "delete a session", _one_word),
    Word("export", "[markdown|jsonl]", "write the session to a file", _format),
    Word("save", "", "write the session's KV snapshot now", _nothing),
    Word("undo", "[TURN]", "restore the files that a turn changed (the last one)", _maybe(_number)),
    Word("stop", "", "stop what the agent is doing; what is queued waits", _nothing),
    Word("queue", "", "show what waits, with its numbers", _nothing),
    Word("unqueue", "NUMBER", "take a queued prompt back", _number),
    Word("requeue", "NUMBER TEXT", "change the text of a queued prompt", _number_and_text),
    Word("send", "[NUMBER]", "let a held prompt run; without a number all, at once", _maybe(_number)),
    Word("status", "", "what the server is doing", _nothing),
    Word("jobs", "", "the commands that the agent started", _nothing),
    Word("kill", "JOB", "stop one of them", _number),
    Word("load", "[PATH]", "load a model", _anything),
    Word("unload", "", "free the model's memory", _nothing),
    Word("help", "", "this text", _nothing),
)
NAMES = {word.name: word for word in WORDS}
HELP = "\n".join(f"{f'/{word.name} {word.usage}'.strip():<32} {word.help}" for word in WORDS)


def parse(text: str) -> Slash | None:
    """The command that ``text`` is; None for a prompt. Errors: ``InvalidRequest`` for a word that is no command, or
    one that something follows which it does not take."""
    match = _WORD.match(text)
    if match is None:
        return None
    rest = text[match.end() :].strip()
    word = NAMES.get(match.group(1))
    if (word is None or not word.fits(rest)) and "\n" in text.strip():
        return None
    if word is None:
        raise InvalidRequest(f"There is no command /{match.group(1)}.{_nearest(match.group(1))} {AS_PROMPT}")
    if not word.fits(rest):
        raise InvalidRequest(f"/{word.name} is written: {f'/{word.name} {word.usage}'.strip()}. {AS_PROMPT}")
    return Slash(word.name, rest)


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.5)
    return f" Did you mean /{close[0]}?" if close else " /help lists them."
