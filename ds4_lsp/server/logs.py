"""Where log lines go: stderr always, the client when it traces."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

LEVELS = {"messages": logging.INFO, "verbose": logging.DEBUG}
"""Least level sent to the client, by trace value."""
PRIVATE = ("ds4_lsp.server.transport", "ds4_lsp.server.protocol")
"""Loggers of sending itself: telling the client of these would go round in circles."""


def to_stderr() -> None:
    """Warnings of everything, and what ds4-lsp itself does."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("ds4_lsp").setLevel(logging.INFO)
    # Its own complaints about client slips are warnings that no user of an editor can act on.
    logging.getLogger("pygls").setLevel(logging.ERROR)


def message_type(level: int) -> int:
    """LSP's ``MessageType`` of a log level."""
    for least, kind in ((logging.ERROR, 1), (logging.WARNING, 2), (logging.INFO, 3)):
        if level >= least:
            return kind
    return 4


class ClientLog(logging.Handler):
    """Hands lines to ``send(kind, text)`` from whichever thread logged them."""

    def __init__(self, send: Callable[[int, str], None]) -> None:
        super().__init__()
        self._send = send
        self._logger = logging.getLogger("ds4_lsp")
        self._quiet = self._logger.level
        self.addFilter(lambda record: not record.name.startswith(PRIVATE))

    def trace(self, value: str) -> None:
        """Follow the client's trace value: ``off``, ``messages`` or ``verbose``."""
        level = LEVELS.get(value)
        self._logger.removeHandler(self)
        self._logger.setLevel(self._quiet if level is None else min(level, self._quiet or level))
        if level is not None:
            self.setLevel(level)
            self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._send(message_type(record.levelno), f"{record.name}: {record.getMessage()}")
        except Exception:
            self.handleError(record)
