"""Where in a reply's text something stands: at a line's start, in a code fence, behind a quotation mark."""

from __future__ import annotations

import re

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_KEPT = 120
"""Characters of the current line: a fence shows at its start."""


class Lines:
    """Told all text in order."""

    def __init__(self) -> None:
        self._line = ""
        self._last = ""
        self._fence = ""
        self.fence_is_new = False
        """In a fence, with nothing but white space since its first line."""

    @property
    def blank(self) -> bool:
        """Only white space so far in this line."""
        return not self._line.strip()

    @property
    def in_fence(self) -> bool:
        return bool(self._fence)

    @property
    def quotes(self) -> bool:
        """What follows is quoted: code, or a word in quotation marks."""
        return self.in_fence or (self._last in "`\"'" and self._last != "")

    def say(self, text: str) -> None:
        if not text:
            return
        *ended, rest = text.split("\n")
        for line in ended:
            self._end_line((self._line + line)[:_KEPT])
            self._line = ""
        self._line = (self._line + rest)[:_KEPT]
        self._last = text[-1]
        if rest.strip():
            self.fence_is_new = False

    def _end_line(self, line: str) -> None:
        fence = _FENCE.match(line)
        if fence is None:
            if line.strip():
                self.fence_is_new = False
        elif not self._fence:
            self._fence, self.fence_is_new = fence.group(1), True
        elif fence.group(1).startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence, self.fence_is_new = "", False
