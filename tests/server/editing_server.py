"""``python editing_server.py [server options]``: the server with the agent of ``editing_agent.py``.

``VERIFY`` in the environment: seconds to wait for an edit to show, so that a lie need not cost a test the usual time,
and a busy machine does not make an honest client look like a liar.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ds4_lsp.server import run


def make_agent(editor: Any, listener: Any, start: Any) -> Any:
    """Imported late, as the real one is."""
    from editing_agent import Editing

    from ds4_lsp.server import applying

    applying.VERIFY = float(os.environ.get("VERIFY", applying.VERIFY))
    return Editing(editor, listener, start)


if __name__ == "__main__":
    sys.exit(run.main(sys.argv[1:], make_agent))
