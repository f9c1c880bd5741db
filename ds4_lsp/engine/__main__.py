"""``python -m ds4_lsp.engine``: the engine process; with ``--probe``, a JSON description of llama.cpp on stdout."""

from __future__ import annotations

import os
import sys

# Whatever a library prints must not reach the protocol's stream, so this comes before every other import.
_stdout = os.dup(1)
os.dup2(2, 1)


def _main() -> int:
    if sys.argv[1:] == ["--probe"]:
        import json

        from ds4_lsp.engine.llama import describe

        with os.fdopen(_stdout, "w") as out:
            out.write(json.dumps(describe()) + "\n")
        return 0
    os.close(_stdout)
    from ds4_lsp.engine.process import serve

    return serve(int(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(_main())
