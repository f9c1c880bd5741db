"""What a job has come to: the workspace as it was left, and the answer. Checks look at nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.job import Job

PATIENCE = 60.0
"""Seconds until a program that the model wrote counts as one that does not end."""

IGNORED_PARTS = frozenset({"__pycache__", ".pytest_cache", ".git"})


@dataclass(frozen=True)
class Ran:
    status: int
    output: str
    """Standard output and standard error together."""


@dataclass(frozen=True)
class After:
    folder: Path
    answer: str
    start: Mapping[str, bytes]

    def text(self, path: str) -> str:
        """A file's text with its line ends as they are; empty where it is none."""
        file = self.folder / path
        return file.read_bytes().decode(errors="replace") if file.is_file() else ""

    def json(self, path: str) -> Any:
        """Errors: ``ValueError``."""
        return json.loads(self.text(path))

    def run(self, *command: str) -> Ran:
        """Run a program in the workspace. Status 124: it did not end."""
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Ran(124, "")
        except OSError as error:
            return Ran(127, str(error))
        return Ran(done.returncode, done.stdout)


def snapshot(folder: Path) -> dict[str, bytes]:
    """The files under ``folder``, caches of interpreters left out. Links are not followed: their target is the text."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if IGNORED_PARTS.intersection(name.parts):
            continue
        if path.is_symlink():
            found[name.as_posix()] = b"-> " + os.fsencode(path.readlink())
        elif path.is_file():
            found[name.as_posix()] = path.read_bytes()
    return found


def fill(workspace: Path, job: Job) -> None:
    """Empty the workspace and put the job's files there."""
    workspace.mkdir(parents=True, exist_ok=True)
    for path in workspace.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, text in job.start().items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(text)
