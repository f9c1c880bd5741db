"""What an install does, while it does it: one line for each stage, with its time. Standard library only."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


class InstallError(Exception):
    """A step that cannot succeed without the user; the message says what to do."""


@contextmanager
def stage(name: str) -> Iterator[Callable[[str], None]]:
    """Around a stage. What it yields shows how far the stage is, on a terminal; elsewhere it does nothing."""
    begun = time.monotonic()
    print(f"{name} ...", end="", flush=True)

    def progress(text: str) -> None:
        if sys.stdout.isatty():
            print(f"\r\033[K{name} {text}", end="", flush=True)

    try:
        yield progress
    except BaseException:
        print(f" failed after {time.monotonic() - begun:.0f} s", flush=True)
        raise
    progress("...")
    print(f" {time.monotonic() - begun:.1f} s", flush=True)


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> None:
    try:
        subprocess.run([str(word) for word in command], check=True, env=env)
    except subprocess.CalledProcessError as error:
        raise InstallError(f"failed with status {error.returncode}: {' '.join(map(str, command))}") from None


def run_logged(
    command: list[str | Path], log: Path, on_line: Callable[[str], None], env: Mapping[str, str] | None = None
) -> None:
    """Run with the output in ``log``. When it fails, its last lines are in the error, and where the rest is."""
    words = [str(word) for word in command]
    with (
        log.open("w", errors="replace") as file,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=env
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            on_line(line)
    if process.returncode:
        last = log.read_text(errors="replace").splitlines()[-6:]
        tail = "".join(f"\n  {line[:200]}" for line in last)
        raise InstallError(f"failed with status {process.returncode}; its log is {log}, and ends with{tail}")
