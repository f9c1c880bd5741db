"""Which file a path names, and whether it is the agent's to touch.

Paths are relative to the workspace, absolute, or ``file`` URIs. What counts is the real path: ``..`` and symlinks are
followed before anything is compared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from weakref import WeakKeyDictionary

from ds4_lsp.edits.uris import from_path, to_path
from ds4_lsp.ports import Editor
from ds4_lsp.protocol.errors import InvalidRequest, NotApplied, OutsideWorkspace
from ds4_lsp.protocol.settings import Settings
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.permissions import Gate

_OTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|untitled:")
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class Workspace:
    """The workspace folders of one session, as the editor has them now."""

    def __init__(self, editor: Editor, gate: Gate, settings: Callable[[], Settings]) -> None:
        self._editor = editor
        self._gate = gate
        self._settings = settings
        self._left: WeakKeyDictionary[Call, set[Path]] = WeakKeyDictionary()
        """Paths outside that a call was let out to."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders' real paths, the one that relative paths are tried against first in front."""
        roots, current = self._editor.roots, self._editor.current_root
        return roots if current is None else (current, *(root for root in roots if root != current))

    async def resolve(self, name: str, call: Call) -> Path:
        """The real path that ``name`` means; it need not exist.

        ``OutsideWorkspace``, or ``Denied`` where the user was asked: it is in no workspace folder. ``InvalidRequest``:
        it is no path.
        """
        path = self.locate(name)
        await self._admit(path, name, call)
        return path

    async def check(self, path: Path, call: Call) -> None:
        """Look once more, right before a file is changed, whether a real path still leads where it did.

        Since it was resolved a folder may have become a link, or left the workspace: a question takes the user minutes.
        ``NotApplied``: it leads elsewhere. ``OutsideWorkspace``, ``Denied``: as in :meth:`resolve`.
        """
        if _real(path) != path:
            raise NotApplied(
                f"{self.display(path)} was not changed: its path leads somewhere else now, since it or a folder of it "
                "has become a link. Look again where it leads.",
                reason="its path leads somewhere else now",
            )
        await self._admit(path, str(path), call)

    async def _admit(self, path: Path, name: str, call: Call) -> None:
        if self.contains(path) or path in self._left.get(call, ()):
            return
        await self._leave(path, name, call)
        self._left.setdefault(call, set()).add(path)

    def locate(self, name: str) -> Path:
        """The real path that ``name`` means, wherever it leads."""
        path = _spelled(name)
        if path.is_absolute():
            return _real(path)
        roots = self.roots
        if not roots:
            raise OutsideWorkspace(
                f"{name}: no workspace folder is open, so relative paths mean nothing. Tell the user."
            )
        found = next((root / path for root in roots if os.path.lexists(root / path)), None)
        if found is None and os.name != "nt" and _WINDOWS.match(str(path)):
            raise InvalidRequest(f"{name} is a path of Windows, which this machine is not: give one like src/x.py.")
        return _real(found or roots[0] / path)

    def contains(self, path: Path) -> bool:
        """Whether a real path is a workspace folder or in one."""
        return any(path.is_relative_to(root) for root in self._editor.roots)

    def display(self, path: Path) -> str:
        """The shortest name that :meth:`locate` takes for that real path: relative where that is certain.

        A URI where neither can be shown (see :func:`is_plain`).
        """
        for root in self.roots:
            if path.is_relative_to(root):
                name = path.relative_to(root).as_posix()
                # In a second folder a relative name may mean a file of the first one.
                if is_plain(name) and (root == self.roots[0] or self.locate(name) == path):
                    return name
        return str(path) if is_plain(str(path)) else from_path(path)

    async def _leave(self, path: Path, name: str, call: Call) -> None:
        if self._settings().permissions.outside_workspace == "deny":
            folders = ", ".join(map(str, self.roots)) or "none is open"
            where = "" if name == str(path) else f" (really {self.display(path)})"
            raise OutsideWorkspace(
                f"{name}{where} is outside the workspace folders ({folders}), where nothing may be read or changed. "
                "Use a path inside, or tell the user what you need from there.",
                path=self.display(path),
            )
        await self._gate.check("outsideWorkspace", detail=self.display(path), key=str(path), call=call)


def _spelled(name: str) -> Path:
    """The path that a path or a ``file`` URI spells. ``InvalidRequest``: no local file has that name."""
    text = name.strip()
    if not text or "\0" in text:
        raise InvalidRequest("The path is empty or contains NUL: give a workspace-relative path.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        shown = text.encode("ascii", "backslashreplace").decode()
        raise InvalidRequest(f"{shown} contains half of a surrogate pair, which no path can.") from None
    if text[:5].lower() == "file:":
        path = to_path(text)
        if path is None:
            raise InvalidRequest(f"{text} names another machine or contains NUL: only local files can be used.")
        return path
    if _OTHER_SCHEME.match(text):
        raise InvalidRequest(f"{text} is no file: only paths and file: URIs can be used.")
    return Path(text).expanduser() if text.startswith("~/") else Path(text)


def is_plain(name: str) -> bool:
    """Whether a path can be shown, and given back, as it is spelled.

    Not one that holds control or formatting characters, ends lines, or is no valid UTF-8: it would forge what stands
    around it, or could not be sent. Nor one that is read as something else: with white space at its ends, a URI, a home
    directory.
    """
    return (
        name.isprintable()
        and name == name.strip()
        and not name.startswith("~/")
        and name[:5].lower() != "file:"
        and not _OTHER_SCHEME.match(name)
    )


def _real(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{path} is no usable path: {error}") from None
