"""What a chat template writes for calls that are known: the material that a syntax is recognised from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SampleCall:
    """``arguments``: one string, one integer, one boolean. Names and values are sentinels. ``call_id``: what the
    rendering was given as the call's id (the two differ); a template may write it."""

    name: str
    arguments: Mapping[str, Any]
    call_id: str = ""


@dataclass(frozen=True)
class CallSamples:
    """What a template writes between the opening of a finished reply and its end, for replies with calls. None: the
    template refuses such a reply."""

    first: SampleCall
    second: SampleCall
    text: str
    """The sentinel of text before a call."""
    one: str | None
    """No text, one call."""
    two: str | None
    """No text, two calls."""
    after_text: str | None
    """Text, then one call."""
    empty: str | None
    """One call without arguments."""
