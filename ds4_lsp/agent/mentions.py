"""Which files a prompt speaks of, as it is written. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST = 40
"""Candidates looked at."""

_QUOTED = re.compile(r"`([^`\n]{1,200})`")
_WORD = re.compile(r"[^\s`'\"()<>\[\]{},;!?*|]{2,300}")
_LINE = re.compile(r"(.+?)(?::(\d{1,7})(?:[-:]\d{1,7})?|#L(\d{1,7})(?:-L?\d{1,7})?)")
_NAME = re.compile(r"[\w.@+~-]*\.[A-Za-z][\w-]{0,14}|[A-Z][\w-]*file|[A-Z]{4,}")


@dataclass(frozen=True)
class Mention:
    """``name``: a path or a base name. ``line``: 1-based, where the prompt points at one."""

    name: str
    line: int | None = None


def mentions(prompt: str) -> list[Mention]:
    """What may be files, in the order of the text, each name once. Most are none: the workspace decides."""
    words = [(match.start(), match[1], True) for match in _QUOTED.finditer(prompt)]
    words += [(match.start(), match[0], False) for match in _WORD.finditer(prompt)]
    found: dict[str, Mention] = {}
    for _at, word, quoted in sorted(words):
        mention = _mention(word, quoted)
        if mention is not None and (mention.name not in found or found[mention.name].line is None):
            found[mention.name] = mention
        if len(found) == MOST:
            break
    return list(found.values())


def _mention(word: str, quoted: bool) -> Mention | None:
    text = word.strip().rstrip(".:")
    line = None
    pointed = _LINE.fullmatch(text)
    if pointed is not None:
        text, line = pointed[1], int(pointed[2] or pointed[3])
    if "://" in text:
        return None
    name = text.replace("\\", "/").removeprefix("./")
    base = name.rsplit("/", 1)[-1]
    if not base or not (quoted or "/" in name or _NAME.fullmatch(base)):
        return None
    return Mention(name, line)
