"""The VS Code extension: sets up what its suites need, once per machine, and runs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

EXTENSION = Path(__file__).parents[2] / "editors" / "vscode"
BROWSER = ("chromium", "fonts-noto-color-emoji")


def run(command: Sequence[str | Path], **env: str) -> str:
    """The output of a command that has to succeed."""
    done = subprocess.run(
        command,
        check=False,  # the assertion below has the output
        cwd=EXTENSION,
        env=os.environ | env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-12000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def npm() -> str:
    """npm, with the extension's packages as its lock file has them."""
    found = shutil.which("npm")
    assert found, "The extension's tests need Node.js 20 or newer, with npm."
    lock, installed = EXTENSION / "package-lock.json", EXTENSION / "node_modules" / ".stamp-lock"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        run([found, "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        installed.write_bytes(lock.read_bytes())
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        run(["apt-get", "update"])
        run(["apt-get", "install", "-y", "--no-install-recommends", *BROWSER], DEBIAN_FRONTEND="noninteractive")
        found = shutil.which("chromium")
    assert found, f"The workbench tests need Chromium: install {' and '.join(BROWSER)}."
    return found


def test_units(npm: str) -> None:
    run([npm, "test", "--silent"])


def test_the_package_holds_what_runs_and_nothing_else(npm: str) -> None:
    run([npm, "run", "--silent", "package"])
    with zipfile.ZipFile(EXTENSION / "ds4-lsp.vsix") as package:
        names = {name.removeprefix("extension/") for name in package.namelist() if name.startswith("extension/")}
        manifest = json.loads(package.read("extension/package.json"))
        bundle = package.getinfo("extension/dist/extension.js").file_size
    assert {"dist/extension.js", "dist/webview.js", "dist/webview.css", "media/icon.png", "readme.md"} <= names
    assert not [name for name in names if name.startswith(("src/", "node_modules/", "test"))]
    assert manifest["capabilities"]["untrustedWorkspaces"]["supported"] is False
    assert bundle < 700_000


def test_what_a_workspace_must_not_choose_belongs_to_the_machine() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text())
    scopes = {
        name: setting["scope"] for name, setting in manifest["contributes"]["configuration"]["properties"].items()
    }
    machine = {name.removeprefix("ds4.") for name, scope in scopes.items() if scope == "machine"}
    assert {"server.path", "server.arguments", "model.path", "model.rpcServers", "sessions.directory"} <= machine
    assert {name for name in scopes if name.startswith("ds4.permissions.")} <= {f"ds4.{name}" for name in machine}


def test_a_user_session_in_the_real_workbench(
    npm: str, chromium: str, small_model: Path, tiny_chat_model: Path
) -> None:
    server = Path(sys.executable).parent / "ds4-lsp"
    # Random weights behind the small model's vocabulary: for windows in which every reply is scripted.
    output = run(
        [npm, "run", "--silent", "test:workbench"],
        DS4_TEST_SERVER=str(server),
        DS4_TEST_MODEL=str(small_model),
        DS4_TEST_FAST_MODEL=str(tiny_chat_model),
        CHROMIUM=chromium,
    )
    assert " 0 failed" in output.splitlines()[-1], output
