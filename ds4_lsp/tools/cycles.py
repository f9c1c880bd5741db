"""The watch over calls that go in circles. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ds4_lsp.tools.base import ToolResult

LONGEST = 12
"""Calls in the longest cycle that is looked for."""
TOLD, ENDED = 2, 3
"""Rounds of a cycle after which the model is told, and after which the turn ends."""


@dataclass(frozen=True)
class Verdict:
    """``remind``: add ``text`` to the result. ``end``: end the turn, and tell the user ``text``."""

    action: Literal["go on", "remind", "end"]
    text: str = ""


class Cycles:
    """Looks for the same calls with the same results, one after the other again, within one turn."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._told: set[str] = set()

    def note(self, name: str, arguments: Mapping[str, Any], result: ToolResult) -> Verdict:
        """Say of each call, when its result is known, how the turn goes on."""
        self._seen.append(json.dumps([name, arguments, result.ok, _stable(result)], sort_keys=True, default=repr))
        period = self._period(ENDED)
        if period:
            what = f"the same call of {name}" if period == 1 else f"the same {period} calls"
            return Verdict(
                "end",
                f"The turn was ended: {what} gave the same result {ENDED} times in a row, so the model was going round "
                "in circles. Rephrase the request, or give a hint, and try again.",
            )
        period = self._period(TOLD)
        if not period:
            return Verdict("go on")
        what = f"This call of {name} has" if period == 1 else f"The last {period} calls have"
        return Verdict(
            "remind",
            f"Reminder: {what} been made before, with the same result, which will not change. Do something else; or if "
            "that is all, say so and what you found; or say what is in your way.",
        )

    def _period(self, rounds: int) -> int:
        """Length of the shortest cycle of which the last calls are so many rounds, 0 for none."""
        seen = self._seen
        for period in range(1, min(LONGEST, len(seen) // rounds) + 1):
            last = seen[-period:]
            if all(seen[len(seen) - period * (n + 1) : len(seen) - period * n] == last for n in range(1, rounds)):
                return period
        return 0


def _stable(result: ToolResult) -> str:
    # Every command is a new job: its number alone does not make a result a different one.
    job = result.data.get("job")
    return result.text if job is None else re.sub(rf"\bjob([ =-]){job}\b", r"job\1", result.text)
