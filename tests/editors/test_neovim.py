"""The Neovim plugin's own suite: real Neovim, real server, real model (``editors/neovim/tests``)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 900.0
"""Seconds for the whole suite, on a machine that does other things too."""


def neovim() -> str:
    """Neovim's path; it is fetched into the user's cache the first time."""
    command = [sys.executable, ROOT / "scripts" / "neovim.py", "nvim"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def test_the_plugins_suite_passes_in_a_real_neovim(small_model: Path, tiny_chat_model: Path) -> None:
    suite = ROOT / "editors" / "neovim" / "tests" / "run.lua"
    # For what takes thousands of tokens and scripts every reply: random weights behind the small model's vocabulary.
    environment = os.environ | {
        "DS4_TEST_PYTHON": sys.executable,
        "DS4_MODEL": str(small_model),
        "DS4_TEST_FAST_MODEL": str(tiny_chat_model),
    }
    ran = subprocess.run(
        [neovim(), "--clean", "--headless", "-l", suite],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    passed = re.search(r"^(\d+) passed, 0 failed", ran.stdout, re.MULTILINE)
    assert passed is not None, ran.stdout
    assert int(passed[1]) > 40
