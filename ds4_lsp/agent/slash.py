"""Slash prompts: a prompt whose whole text is a command acts as that command, in every client. Pure."""

from __future__ import annotations

from dataclasses import dataclass

HELP = """\
/compact [what to keep in mind]  replace older conversation by a checkpoint
/new [title]                     start a new session
/list                            list this workspace's sessions
/switch ID                       make another session current (any unique prefix)
/history [N]                     show the last N turns (3)
/save                            write the session's KV snapshot now
/help                            this text"""


@dataclass(frozen=True)
class Slash:
    """``name`` without the slash; ``rest`` is what follows it, stripped."""

    name: str
    rest: str


LONGEST_COUNT = 6
"""Digits of a number of turns."""
NAMES = frozenset({"compact", "new", "list", "switch", "history", "save", "help"})
_WITHOUT_REST = frozenset({"list", "save", "help"})


def parse(text: str) -> Slash | None:
    """The command that ``text`` is, or None for a prompt. Text that merely begins with a slash is a prompt."""
    stripped = text.strip()
    if not stripped.startswith("/"):
        return None
    head, _, rest = stripped[1:].partition(" ") if "\n" not in stripped.split(" ", 1)[0] else ("", "", "")
    rest = rest.strip()
    if head not in NAMES or (rest and head in _WITHOUT_REST):
        return None
    if head == "history" and rest and not (rest.isascii() and rest.isdecimal() and len(rest) <= LONGEST_COUNT):
        return None
    return Slash(head, rest)
