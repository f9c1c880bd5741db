"""The chat templates that lie in llama.cpp's source: of many models, none of them in this repository.

The archive is the one that ``requirements.lock`` pins; pip checks its hash. Only the templates are kept, in the user's
cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
_PINNED = re.compile(r"^llama-cpp-python==(\S+) \\\n((?:\s+--hash=\S+(?: \\)?\n)+)", re.MULTILINE)
_MEMBER = re.compile(r"[^/]+/vendor/llama\.cpp/models/templates/([^/]+)\.jinja")


def templates() -> dict[str, str]:
    """Each template's text by its file's name, without the ending. Downloads 77 MB the first time."""
    pinned = _PINNED.search(LOCK.read_text("utf-8"))
    if pinned is None:
        raise LookupError("requirements.lock pins no llama-cpp-python")
    folder = _cache() / f"templates-{pinned[1]}"
    if not folder.is_dir():
        _fetch(pinned.group(), folder)
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob("*.jinja"))}


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ds4-lsp"


def _fetch(pinned: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        place = Path(name)
        (place / "requirements.txt").write_text(pinned, "utf-8")
        options = ["--no-deps", "--no-binary", ":all:", "--require-hashes", "--dest", name]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "-r", str(place / "requirements.txt")]
        subprocess.run(command, check=True)
        [archive] = place.glob("*.tar.gz")
        unpacked = place / "templates"
        unpacked.mkdir()
        with tarfile.open(archive) as source:
            for member in source:
                found = _MEMBER.fullmatch(member.name)
                data = source.extractfile(member) if found and member.isfile() else None
                if found and data:
                    (unpacked / f"{found[1]}.jinja").write_bytes(data.read())
        # At once or not at all: a folder that is there is whole.
        shutil.move(unpacked, folder)
