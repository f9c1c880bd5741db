"""The test seam: scripted replies that choose the next tokens, and nothing else.

``DS4_LSP_SCRIPT`` names a file of JSON lines ``{"purpose": "turn" | "summary", "text": …, "delay_ms"?: N, "until"?:
PATH}``, each consumed by the next reply of its purpose. An exhausted script leaves the choice to the sampler.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from pathlib import Path
from typing import Literal

from ds4_lsp.ports import Forced
from ds4_lsp.protocol.errors import InvalidRequest

log = logging.getLogger(__name__)

Purpose = Literal["turn", "summary"]


class Script:
    """Replies still to come, in order, per purpose."""

    def __init__(self, path: Path | None) -> None:
        self._replies: dict[str, deque[Forced]] = {"turn": deque(), "summary": deque()}
        if path is not None:
            self._load(path)

    def next(self, purpose: Purpose) -> Forced | None:
        replies = self._replies[purpose]
        return replies.popleft() if replies else None

    def _load(self, path: Path) -> None:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"DS4_LSP_SCRIPT: cannot read {path}: {error}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                forced = Forced(str(entry["text"]), float(entry.get("delay_ms", 0)) / 1000, str(entry.get("until", "")))
                self._replies[entry["purpose"]].append(forced)
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidRequest(
                    f"DS4_LSP_SCRIPT: {path} line {number} is not "
                    f'{{"purpose": "turn" | "summary", "text": "…"}}: {error}'
                ) from error
        log.warning("replies are scripted by %s: %d", path, sum(map(len, self._replies.values())))
