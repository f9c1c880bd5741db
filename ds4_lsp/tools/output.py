"""What a command printed, as the model is shown it. Pure: bytes in, short readable text out.

Lines are counted as line feeds, sizes are in bytes of the raw output. A first look shows the beginning, later looks
the end of what is new, and both say what they leave out and where all of it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_LINES = 100
HEAD_BYTES = 8192
TAIL_BYTES = 4096
RUNNING_TAIL_LINES = 4
DONE_TAIL_LINES = 20
STREAM_BYTES = 65536
"""Most of one command's output that is streamed to the user while it runs."""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequences: colours, cursor movement
    r"|(?:\x1b[]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"  # the short ones
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(raw: bytes) -> str:
    """Output as a terminal would leave it: invalid UTF-8 replaced, escapes and controls removed, overwritten text
    (carriage returns, backspaces) gone. Ends of lines are LF."""
    text = _ESCAPES.sub("", raw.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(_last_written(line) for line in text.split("\n"))
    if "\b" in text:
        text = "".join(_without_backspaces(text))
    return _CONTROLS.sub("", text)


def unfinished(raw: bytes) -> int:
    """How many bytes at the end begin a code point of UTF-8 and do not complete it."""
    for count in range(1, min(3, len(raw)) + 1):
        byte = raw[-count]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return count if count < length else 0
        if byte < 0x80:
            return 0
    return 0


def _last_written(line: str) -> str:
    # A progress line ends in CR as often as it begins with one: the last one that shows something counts.
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def _without_backspaces(text: str) -> list[str]:
    kept: list[str] = []
    for character in text:
        if character != "\b":
            kept.append(character)
        elif kept and kept[-1] != "\n":
            kept.pop()
    return kept


def cut_head(text: str, lines: int = HEAD_LINES, size: int = HEAD_BYTES) -> str:
    """The longest prefix of at most ``lines`` lines and ``size`` UTF-8 bytes; ends after a line where it can."""
    kept = "".join(_lines(text)[:lines])
    if len(encoded := kept.encode()) <= size:
        return kept
    cut = encoded[:size].decode(errors="ignore")
    return cut[: cut.rfind("\n") + 1] or cut


def cut_tail(text: str, lines: int, size: int = TAIL_BYTES) -> str:
    """The longest suffix of at most ``lines`` lines and ``size`` UTF-8 bytes; begins with a line where it can."""
    kept = "".join(_lines(text)[-lines:])
    if len(encoded := kept.encode()) <= size:
        return kept
    cut = encoded[-size:].decode(errors="ignore")
    return cut[cut.find("\n", 0, -1) + 1 :]


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


@dataclass(frozen=True)
class Sample:
    """A part of the output file, from some byte to its end. ``head`` and ``tail`` are its first and last bytes; where
    ``whole``, both are all of it, otherwise they do not overlap."""

    size: int
    lines: int
    head: bytes
    tail: bytes
    whole: bool


def first_look(sample: Sample, *, done: bool, path: str) -> str:
    """The beginning; of a finished command that printed more also the end, where errors and totals stand."""
    text = clean(sample.head)
    shown = cut_head(text)
    if sample.whole and shown == text:
        return shown.rstrip("\n")
    rest = text[len(shown) :] if sample.whole else clean(sample.tail)
    note = f"[cut: {_amount(sample)} so far; all of it is in {path}]"
    if not done:
        return f"{shown.rstrip()}\n{note}"
    note = f"[cut: {_amount(sample)} in all, the last lines follow; all of it is in {path}]"
    return f"{shown.rstrip()}\n{note}\n{cut_tail(rest, DONE_TAIL_LINES).strip()}"


def later_look(sample: Sample, *, done: bool, path: str) -> str:
    """The end of what was printed since the look before; empty when that is nothing."""
    if sample.size == 0:
        return ""
    text = clean(sample.tail)
    shown = cut_tail(text, DONE_TAIL_LINES if done else RUNNING_TAIL_LINES)
    if sample.whole and shown == text:
        return shown.strip("\n")
    return f"[{_amount(sample)} since the last look, the last lines follow; all of it is in {path}]\n{shown.strip()}"


def _amount(sample: Sample) -> str:
    return f"{sample.lines:,} lines, {sample.size:,} bytes"


class Stream:
    """Output as it comes, for the user to watch: whole lines, cleaned, at most ``STREAM_BYTES`` of them."""

    def __init__(self) -> None:
        self._pending = b""
        self._left = STREAM_BYTES

    @property
    def full(self) -> bool:
        return self._left <= 0

    def feed(self, raw: bytes, *, last: bool = False) -> str:
        """New text to show; a line's beginning waits for its end, or for ``last``."""
        if self.full:
            return ""
        data = self._pending + raw
        end = len(data) if last or len(data) > HEAD_BYTES else data.rfind(b"\n") + 1
        ready, self._pending = data[: min(end, self._left)], data[end:]
        self._left -= len(ready)
        text = clean(ready)
        return f"{text}\n[more output is not shown here]\n" if self.full else text
