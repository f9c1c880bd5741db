"""From a path that a model wrote to the file that is there.

Models guess paths. The only file of that base name is simply taken, and the result says so; else the refusal names the
nearest ones. Nothing outside the workspace, and nothing that ignore files leave out, is guessed.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ds4_lsp.edits.uris import from_path
from ds4_lsp.protocol.errors import NotFound, OutsideWorkspace
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.inventory import Inventory, inventory
from ds4_lsp.tools.workspace import is_plain

MOST_NAMES = 3
"""Nearest names in a refusal."""
COMPARED = 5000
"""Files whose names are compared: some tens of milliseconds."""


@dataclass(frozen=True)
class Existing:
    """``note``: what its author is told of a path that was taken for another one; empty where it was right."""

    path: Path
    note: str = ""


async def existing(files: Files, name: str, call: Call, *, folders: bool = False) -> Existing:
    """The file that ``name`` means; with ``folders`` that or a folder.

    Where nothing comes near, the path as it is. ``NotFound``: something does. ``OutsideWorkspace``, ``Denied``,
    ``InvalidRequest`` as :meth:`~ds4_lsp.tools.workspace.Workspace.resolve`.
    """
    try:
        path = await files.workspace.resolve(name, call)
    except OutsideWorkspace as error:
        near = _near(name, await inventory(files.workspace.roots, call.cancel))
        if not near:
            raise
        raise OutsideWorkspace(f"{error.message} Did you mean {_list(near)}?", **error.data) from None
    if await files.exists(path) or files.views.any(from_path(path)):
        return Existing(path)
    found = await inventory(files.workspace.roots, call.cancel)
    base = PurePosixPath(name.strip().replace("\\", "/")).name
    same = found.named(base) or (_folders(found, base) if folders else [])
    if len(same) == 1 and base:
        path = await files.workspace.resolve(str(same[0]), call)
        shown = files.workspace.display(path)
        return Existing(path, f"[{name.strip()} does not exist; {shown} is the only one of that name]")
    near = [files.workspace.display(one) for one in same[:MOST_NAMES]] or _near(name, found)
    if not near:
        return Existing(path)
    raise NotFound(f"{files.workspace.display(path)} does not exist. There is {_list(near)}.")


def _near(name: str, found: Inventory) -> list[str]:
    """The names most like it: by the base name, then by the whole path. All of them where there are no more."""
    paths = [path.as_posix() for _root, path in found.files[:COMPARED] if is_plain(path.as_posix())]
    if len(paths) <= MOST_NAMES:
        return paths
    wanted = name.strip().replace("\\", "/")
    bases: dict[str, list[str]] = {}
    for path in paths:
        bases.setdefault(path.rsplit("/", 1)[-1].lower(), []).append(path)
    base = wanted.rsplit("/", 1)[-1].lower()
    near = [path for one in difflib.get_close_matches(base, bases, MOST_NAMES, 0.6) for path in bases[one]]
    near += difflib.get_close_matches(wanted, paths, MOST_NAMES, 0.6)
    return list(dict.fromkeys(near))[:MOST_NAMES]


def _folders(found: Inventory, base: str) -> list[Path]:
    here = {root / parent for root, path in found.files for parent in path.parents if parent.name == base}
    return sorted(here)


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
