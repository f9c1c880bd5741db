"""DSML's marks: what opens, what closes, and what may become either.

Opening tags are exact, but for one slip: ``tool_calls`` without its first bar. Inside a closing tag white space (at
most four characters in a place) and an extra bar are accepted. Bars are U+FF5C.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ds4_lsp.ports import Quiet, StopRule

BAR = "｜"
DSML = f"{BAR}DSML{BAR}"

TOOL_CALLS_OPEN = f"<{DSML}tool_calls>"
TOOL_CALLS_CLOSE = f"</{DSML}tool_calls>"
INVOKE_CLOSE = f"</{DSML}invoke>"
PARAMETER_CLOSE = f"</{DSML}parameter>"
THINK_OPEN = "<think>"
THINK_CLOSE = "</think>"

_SPACE = "[ \t\r\n]{0,4}"
_NAME = r'([^"<>\r\n]{1,64})'


@dataclass(frozen=True)
class Marker:
    """A mark in a stream: ``full`` matches it whole, ``partial`` any text that could still become it."""

    full: re.Pattern[str]
    partial: re.Pattern[str]

    def at(self, text: str, position: int) -> re.Match[str] | None:
        return self.full.match(text, position)

    def may_begin(self, text: str, position: int) -> bool:
        """Whether the rest of ``text`` is a beginning of this mark: more input must decide."""
        return self.partial.fullmatch(text, position) is not None


def _marker(*parts: str | tuple[str]) -> Marker:
    """``parts`` in order: a text stands for itself, a 1-tuple holds a pattern that takes characters one by one."""
    pieces: list[str] = []
    for part in parts:
        pieces += [part[0]] if isinstance(part, tuple) else [re.escape(character) for character in part]
    partial = ""
    for piece in reversed(pieces):
        partial = f"(?:{piece}{partial})?"
    return Marker(re.compile("".join(pieces)), re.compile(partial))


def _closing(name: str) -> Marker:
    bars = (f"{BAR}{{1,2}}",)
    space = (_SPACE,)
    return _marker("</", space, bars, space, "DSML", space, bars, space, name, space, (f"{BAR}?",), space, ">")


def _stray(name: str) -> Marker:
    return _marker("<", (f"[|{BAR} ]{{0,2}}",), "DSML", (f"[|{BAR} ]{{1,2}}",), name)


CALLS_OPENINGS = (_marker(TOOL_CALLS_OPEN), _marker(f"<DSML{BAR}tool_calls>"))
CALLS_CLOSING = _closing("tool_calls")
INVOKE_OPENING = _marker(f'<{DSML}invoke name="', (_NAME,), '">')
INVOKE_CLOSING = _closing("invoke")
PARAMETER_TEXT_OPENING = _marker(f'<{DSML}parameter name="', (_NAME,), '" string="true">')
PARAMETER_JSON_OPENING = _marker(f'<{DSML}parameter name="', (_NAME,), '" string="false">')
PARAMETER_CLOSING = _closing("parameter")
STRAYS = tuple(_stray(name) for name in ("tool_calls", "function_calls", "invoke", "parameter"))
"""Tags that look like DSML where none may be, or with the wrong bars."""
THINK_OPENING = _marker(THINK_OPEN)
THINK_CLOSING = _marker(THINK_CLOSE)

CLOSE_PATTERN = CALLS_CLOSING.full.pattern
"""Every accepted spelling of the tag that ends a block of calls."""

CALLS_STOP = StopRule("tool_calls", CLOSE_PATTERN, keep=True)
"""Ends a reply when its block of calls is complete."""

SUMMARY_STOPS = (
    StopRule("think", "</think>", keep=False),
    StopRule("dsml", f"<[/|{BAR} ]{{0,4}}DSML", keep=False),
)
"""A summary ends before it turns into thinking or into markup, whatever the bars look like."""


def thinking_quiet(initially: bool) -> Quiet:
    """The span in which the engine looks for neither stops nor calls."""
    return Quiet((THINK_OPEN,), (THINK_CLOSE,), initially)
