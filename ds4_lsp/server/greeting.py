"""The answer to ``initialize``, given while most of the server is still being loaded.

The LSP library alone takes half a second to load, and an editor shows nothing of a server before this answer. What
follows waits, in order, until the server is there.
"""

from __future__ import annotations

import json
from typing import Any

from ds4_lsp.server.capabilities import initialize_result
from ds4_lsp.server.client import read
from ds4_lsp.server.transport import frame


class Greeting:
    """For one connection."""

    def __init__(self) -> None:
        self._answered: int | str | None = None

    def __call__(self, message: Any) -> bytes | None:
        """The framed answer to the first message; None where that is no ``initialize``, or one to look at closely."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or message.get("method") != "initialize":
            return None
        identity, params = message.get("id"), message.get("params")
        if not isinstance(identity, int | str) or isinstance(identity, bool) or not isinstance(params, dict):
            return None
        self._answered = identity
        return frame(json.dumps({"jsonrpc": "2.0", "id": identity, "result": initialize_result(read(params))}))

    def has_answered(self, identity: int | str) -> bool:
        """Whether this request was answered here. Ids may come again: it is said once."""
        if self._answered is None or identity != self._answered:
            return False
        self._answered = None
        return True
