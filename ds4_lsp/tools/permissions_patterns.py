"""Which commands ``permissions.bashAllow`` lets pass without a question. Pure.

A command is parsed into its simple commands, and each must match a pattern. The parser knows a small, plain part of
the shell's language: words of ordinary characters, quotes without expansions, and the lists ``&&``, ``||``, ``;`` and
``|``. Whatever else occurs (expansions, globs, redirections, assignments, subshells, ``&``, comments, escapes, more
than one line, characters outside ASCII that are not quoted) makes the command one that no pattern covers: then the
user is asked, which costs a question and never safety.

A pattern is a list of words, split as the shell does. Each matches one word, with ``*``, ``?`` and ``[…]`` as in
``fnmatch``; a ``*`` as the last word matches any further words, none included. A word that only matches through a
wildcard and climbs with ``..`` does not pass, unless the pattern's word is a bare ``*``. ``git status`` matches just
that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase

Words = tuple[str, ...]

_PIECE = re.compile(
    r"""(?P<blank>[ \t]+)
      | (?P<operator>&&|\|\||;|\|)
      | (?P<plain>[A-Za-z0-9_@%+=:,./^-]+)
      | '(?P<single>[^']*)'
      | "(?P<double>[^"$`\\!]*)"
    """,
    re.VERBOSE,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def allowed(command: str, patterns: Sequence[str]) -> bool:
    """Whether every part of ``command`` matches one of ``patterns``."""
    parts = simple_commands(command)
    if not parts:
        return False
    split = [words for pattern in patterns if (words := _pattern_words(pattern))]
    return all(any(_matches(part, pattern) for pattern in split) for part in parts)


def simple_commands(command: str) -> list[Words] | None:
    """The simple commands of a list or pipeline, as words; None where it is more than that."""
    if not command.strip(" \t") or _CONTROL.search(command):
        return None
    parts: list[Words] = []
    words: list[str] = []
    word: str | None = None
    last = ""
    position = 0
    while position < len(command):
        match = _PIECE.match(command, position)
        if match is None:
            return None
        position = match.end()
        kind = match.lastgroup or ""
        if kind in ("plain", "single", "double"):
            word = (word or "") + match[kind]
            continue
        if word is not None:
            words.append(word)
            word = None
        if kind == "operator":
            if not words or _ASSIGNMENT.match(words[0]):
                return None
            parts.append(tuple(words))
            words, last = [], match[kind]
    if word is not None:
        words.append(word)
    if words:
        return None if _ASSIGNMENT.match(words[0]) else [*parts, tuple(words)]
    return parts if last == ";" else None


def _pattern_words(pattern: str) -> Words:
    try:
        return tuple(shlex.split(pattern))
    except ValueError:
        return ()


def _matches(words: Words, pattern: Words) -> bool:
    if pattern[-1] == "*":
        fixed = pattern[:-1]
        return len(words) >= len(fixed) and all(map(_word_matches, words, fixed))
    return len(words) == len(pattern) and all(map(_word_matches, words, pattern))


def _word_matches(word: str, pattern: str) -> bool:
    if word == pattern:
        return True
    climbs = pattern != "*" and ".." in word.split("/") and ".." not in pattern.split("/")
    return not climbs and fnmatchcase(word, pattern)
