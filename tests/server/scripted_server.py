"""``python scripted_server.py [server options]``: the server with the agent of ``scripted_agent.py``."""

from __future__ import annotations

import sys
from typing import Any

from ds4_lsp.server import run


def make_agent(editor: Any, listener: Any, start: Any) -> Any:
    """Imported late, as the real one is."""
    from scripted_agent import Scripted

    return Scripted(editor, listener, start)


if __name__ == "__main__":
    sys.exit(run.main(sys.argv[1:], make_agent))
