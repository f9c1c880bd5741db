"""Who answers the agent's questions in a run: a command that stays inside the job's folder may run, nothing else.

This is no sandbox: a program that the model wrote runs with the user's rights. It keeps a model that merely errs from
the rest of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_FORBIDDEN = re.compile(
    r"\b(sudo|su|kill|pkill|killall|shutdown|reboot|mount|apt|apt-get|pip|pip3|npm|npx|curl|wget|ssh|scp|nc|dd|chown"
    r"|systemctl|crontab|git\s+push)\b|\$HOME|(?<![\w.])~(?![\w.])|\.\.(/|\s|$)|(?<!\S)/(?=[\s;*]|$)"
)
_ABSOLUTE = re.compile(r"(?<![\w./$}*\\])/[\w.][^\s'\";|&<>)]*")
_HARMLESS = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/usr/bin/", "/bin/")


def stays_inside(command: str, folder: Path) -> bool:
    """Whether a shell command names nothing outside ``folder`` and no program that reaches beyond it."""
    if _FORBIDDEN.search(command):
        return False
    return all(
        path.startswith(_HARMLESS) or path == str(folder) or path.startswith(f"{folder}/")
        for path in _ABSOLUTE.findall(command)
    )


def answer(question: str, actions: Sequence[str], folder: Path) -> str | None:
    """One of ``actions`` for ``window/showMessageRequest``; its first line is the title, the rest the command."""
    title, _, detail = question.partition("\n")
    allowed = "command" in title and stays_inside(detail, folder)
    wanted = "Allow once" if allowed else "Deny"
    return wanted if wanted in actions else None
