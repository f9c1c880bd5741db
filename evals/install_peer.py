"""``make eval-peer``, the first step: an environment for mini-swe-agent and the llama.cpp that is compiled here.

Nothing of it enters the product's environment; the packages are MIT and are only run.
"""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-peer"
PEER = "mini-swe-agent==2.4.6"


def wheel() -> Path:
    """The newest wheel that ``make install`` compiled. Raises ``SystemExit`` where there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = sorted(cache.glob("ds4-lsp/wheels/*/llama_cpp_python-*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SystemExit("no compiled wheel of llama-cpp-python is in the cache: run `make install` first")
    return found[-1]


def main() -> None:
    done = FOLDER / ".stamp-peer"
    if done.exists() and done.read_text() == PEER:
        return
    venv.create(FOLDER, with_pip=True, clear=True)
    subprocess.run([FOLDER / "bin" / "pip", "install", "--quiet", PEER, f"{wheel()}[server]"], check=True)
    done.write_text(PEER)


if __name__ == "__main__":
    main()
