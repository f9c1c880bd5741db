"""Which files ignore files name, as ripgrep and git see it."""

from __future__ import annotations

from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
"""Later ones win over earlier ones in the same folder, and deeper folders over higher ones."""


class Ignores:
    """The rules that hold in one folder: those of the folder itself and of all above it."""

    def __init__(self, folder: Path) -> None:
        self._levels = [(level, spec) for level in (*reversed(folder.parents), folder) for spec in _specs(level)]

    def names(self, path: Path, *, folder: bool) -> bool:
        """Whether a file, or a ``folder``, is to be left out. Folders above it are not asked about."""
        if path.name == ".git":
            return True
        verdict = False
        for level, spec in self._levels:
            name = path.relative_to(level).as_posix() + ("/" if folder else "")
            include = spec.check_file(name).include
            if include is not None:
                verdict = include
        return verdict


def ignored(path: Path, scope: Path) -> bool:
    """Whether a file is left out when ``scope`` is searched: it, or a folder between, is named by an ignore file."""
    between = [parent for parent in reversed(path.parents) if parent != scope and parent.is_relative_to(scope)]
    folders = any(Ignores(folder.parent).names(folder, folder=True) for folder in between)
    return folders or Ignores(path.parent).names(path, folder=False)


def _specs(folder: Path) -> list[GitIgnoreSpec]:
    found: list[GitIgnoreSpec] = []
    for name in IGNORE_FILES:
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found.append(GitIgnoreSpec.from_lines(text.splitlines()))
    return found
