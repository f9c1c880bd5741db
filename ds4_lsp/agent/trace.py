"""``--trace FILE``: every prompt, token and tool event as JSON lines, for debugging.

The file holds the user's code and prompts in full: it is made readable by its owner alone.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, TextIO

from ds4_lsp.protocol.errors import StorageFailed


class Trace:
    """Appends lines to a file; does nothing without one. A full disk ends the trace, never the turn."""

    def __init__(self, path: Path | None) -> None:
        self._file: TextIO | None = None
        if path is None:
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageFailed(f"--trace: cannot write {path}: {error.strerror}. Name a writable file.") from error
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass", buffering=1)

    @property
    def on(self) -> bool:
        return self._file is not None

    def record(self, what: str, **data: Any) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps({"time": time.time(), "what": what, **data}, ensure_ascii=False) + "\n")
        except OSError:
            self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                return
