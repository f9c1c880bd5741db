"""The environment of a command: without secrets, and with nothing that waits for a person."""

from __future__ import annotations

from collections.abc import Mapping

SECRET_WORDS = ("TOKEN", "KEY", "SECRET", "PASSWORD")
"""A variable whose name holds one of these, in any case, is not passed on."""
OWN_PREFIX = "DS4_"

QUIET: dict[str, str] = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""No pager, no editor, no question: a job has neither a terminal nor stdin, and a person is not watching it."""


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` for a command: secrets and the server's own variables removed, programs told not to ask."""
    kept = {name: value for name, value in base.items() if not _withheld(name.upper())}
    return kept | QUIET


def _withheld(name: str) -> bool:
    return name.startswith(OWN_PREFIX) or any(word in name for word in SECRET_WORDS)
