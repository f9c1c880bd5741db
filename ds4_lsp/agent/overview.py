"""The workspace's files in a few lines, for the first message of a conversation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from ds4_lsp.tools.inventory import Inventory
from ds4_lsp.tools.workspace import is_plain

PER_FOLDER = 40
"""Names of one folder that are listed at most."""

_DULL = re.compile(
    r"\..*|.*\.(png|jpe?g|gif|ico|svg|webp|pdf|zip|gz|tar|woff2?|ttf|otf|mp[34]|lock|map|bin|so|o|a|dll|exe|pyc|class|jar)"
)
"""Names of what is seldom asked about: listed last."""


def overview(inventory: Inventory, room: int, wanted: str = "") -> str:
    """At most ``room`` code points; empty for no files. Folders whose files the prompt ``wanted`` speaks of come
    first, then those near the root."""
    paths = [path for _root, path in inventory.files if is_plain(path.as_posix())]
    if not paths:
        return ""
    folders: dict[PurePosixPath, list[PurePosixPath]] = {}
    for path in paths:
        folders.setdefault(path.parent, []).append(path)
    words = {word for word in _words(wanted) if len(word) > 2}
    order = sorted(folders, key=lambda folder: (-_likeness(folders[folder], words), len(folder.parts), folder))
    count = f"{len(paths)}{'' if inventory.whole else ' or more'}"
    lines = [f"[Files of the workspace: {count}]"]
    room -= len(lines[0])
    listed = 0
    for folder in order:
        names = sorted(folders[folder], key=lambda path: (-_likeness([path], words), _is_dull(path), path.name))
        line, taken = _line(folder, [path.name for path in names], room - 60)
        if not taken:
            break
        lines.append(line)
        room -= len(line) + 1
        listed += taken
    if listed < len(paths):
        lines.append(f"[{len(paths) - listed} more: `list` and `search` show them]")
    return "\n".join(lines) if listed else ""


def _line(folder: PurePosixPath, names: list[str], room: int) -> tuple[str, int]:
    """One folder, and how many of its files are named."""
    line = "" if folder == PurePosixPath(".") else f"{folder.as_posix()}/: "
    taken = 0
    for name in names[:PER_FOLDER]:
        piece = name if not taken else f", {name}"
        if len(line) + len(piece) > room:
            break
        line += piece
        taken += 1
    return (line + (", …" if taken < len(names) else "")), taken


def _likeness(paths: Iterable[PurePosixPath], words: set[str]) -> int:
    return max((len(words & _words(path.as_posix())) for path in paths), default=0) if words else 0


def _words(text: str) -> set[str]:
    return set("".join(c.lower() if c.isalnum() else " " for c in text).split())


def _is_dull(path: PurePosixPath) -> bool:
    return _DULL.fullmatch(path.name.lower()) is not None
