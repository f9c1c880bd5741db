"""A project's own instructions for agents: ``AGENTS.md``, nearest first, else what other tools read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.tools.files import Files

NAME = "AGENTS.md"
OTHERS = (".github/copilot-instructions.md", "CLAUDE.md")
"""Read from the workspace folder where there is no ``AGENTS.md``."""
LARGEST = 6000
"""Code points read of one file."""
MOST = 4


@dataclass(frozen=True)
class Instructions:
    """``name``: what the user is told was read."""

    name: str
    uri: str
    text: str


async def instructions(files: Files, places: Sequence[Path]) -> list[Instructions]:
    """Those that hold for the files at ``places``, nearest first, the workspace folders' last. Plain text: nothing in
    it is a mark of the conversation."""
    roots = files.workspace.roots
    folders: dict[Path, None] = {}
    for place in places:
        inside = [folder for folder in place.parents if any(folder.is_relative_to(root) for root in roots)]
        folders |= dict.fromkeys(inside)
    folders |= dict.fromkeys(roots)
    found = [one for folder in folders if (one := await _read(files, folder / NAME)) is not None]
    if not found:
        found = [one for root in roots for name in OTHERS if (one := await _read(files, root / name)) is not None]
    return found[:MOST]


async def _read(files: Files, path: Path) -> Instructions | None:
    # What a link leads to may lie outside, and is not the project's then.
    try:
        real = files.workspace.locate(str(path))
        if not files.workspace.contains(real):
            return None
        loaded = await files.load(real)
    except Ds4Error:
        return None
    text = loaded.text.strip()
    if not text:
        return None
    cut = "\n[cut: the file is longer; `read` shows it]" if len(text) > LARGEST else ""
    return Instructions(files.workspace.display(real), loaded.uri, text[:LARGEST] + cut)
