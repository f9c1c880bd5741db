"""Which files there are in the workspace: bounded, cancellable, ignore files respected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.tools.search_rg import End, find_rg, run

MOST = 20_000
"""Files looked at, in order of their paths."""
SECONDS = 3.0
_WALK = ("--files", "--hidden", "--glob=!.git", "--no-require-git", "--no-config", "--no-messages", "--sort=path")


@dataclass(frozen=True)
class Inventory:
    """``files``: real paths, each below its root. ``whole``: whether these are all."""

    files: tuple[tuple[Path, PurePosixPath], ...]
    """(root, path below it)."""
    whole: bool = True

    def named(self, name: str) -> list[Path]:
        """Files with that base name; where none has it, those that have it but for upper and lower case."""
        exact = [root / path for root, path in self.files if path.name == name]
        return exact or [root / path for root, path in self.files if path.name.lower() == name.lower()]


async def inventory(roots: Sequence[Path], cancel: Cancel, most: int = MOST, seconds: float = SECONDS) -> Inventory:
    """The files of the folders, those of a folder within another one once. Never raises: what cannot be listed is
    not there. Errors: ``Cancelled``."""
    found: list[tuple[Path, PurePosixPath]] = []
    whole = True
    for root in roots:
        if any(root != other and root.is_relative_to(other) for other in roots):
            continue
        end = await _walk(root, found, most, cancel, seconds)
        whole = whole and end == "done"
    return Inventory(tuple(found), whole)


async def _walk(root: Path, found: list[tuple[Path, PurePosixPath]], most: int, cancel: Cancel, seconds: float) -> End:
    def take(line: bytes) -> bool:
        # A name with a line break comes as two that are not there.
        found.append((root, PurePosixPath(line.decode("utf-8", "surrogateescape"))))
        return len(found) < most

    try:
        return await run([find_rg(), *_WALK, "--", "."], root, b"", take, cancel=cancel, seconds=seconds)
    except (Ds4Error, OSError):
        if cancel.is_set:
            raise
        return "timeout"
