"""``python editing_server.py [server options]``: the server with the agent of ``editing_agent.py``.

``VERIFY`` in the environment: seconds to wait for an edit to show, so that a lie need not cost a test the usual time,
and a busy machine does not make an honest client look like a liar. ``WORKING``: seconds that a client may take to open
or save a file, as many unless given.

``MEDDLE``: a file that may come to hold ``{"when", "path", "data"}``. It is obeyed once: when the server is about to
write a file itself (``before``), or has written the new text and not yet put it in place (``during``), the file at
``path`` is saved with ``data`` (hexadecimal), as another program would.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ds4_lsp.server import run


def let_meddle(order: Path) -> None:
    from ds4_lsp.edits import disk

    write, flush = disk.write, os.fsync

    def meddle(when: str) -> None:
        found = json.loads(order.read_text()) if order.exists() else {}
        if found.get("when") == when:
            order.unlink()
            Path(found["path"]).write_bytes(bytes.fromhex(found["data"]))

    def written(*arguments: Any) -> None:
        meddle("before")
        write(*arguments)

    def flushed(descriptor: int) -> None:
        meddle("during")
        flush(descriptor)

    disk.write, os.fsync = written, flushed


def make_agent(editor: Any, listener: Any, start: Any) -> Any:
    """Imported late, as the real one is."""
    from editing_agent import Editing

    from ds4_lsp.server import applying

    if "MEDDLE" in os.environ:
        let_meddle(Path(os.environ["MEDDLE"]))
    if "VERIFY" in os.environ:
        applying.VERIFY = float(os.environ["VERIFY"])
        applying.WORKING = float(os.environ.get("WORKING", applying.VERIFY))
    return Editing(editor, listener, start)


if __name__ == "__main__":
    sys.exit(run.main(sys.argv[1:], make_agent))
