"""What an edit broke, where a cheap check exists: of Python, JSON, TOML, and YAML where PyYAML is there."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path

from ds4_lsp.ports import FileEdit

LARGEST = 1_000_000
"""Code points; a larger file is not checked."""
SECONDS = 5.0
"""After which nothing was found."""
LONGEST = 300
"""Code points of a problem."""

_CHILD = Path(__file__).with_name("syntax_child.py")
_KINDS = {
    ".py": "python",
    ".pyi": "python",
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


async def broken(edit: FileEdit) -> str:
    """The problem that ``edit`` brought into its file, in one line; empty where none was found."""
    kind = _KINDS.get(edit.path.suffix.lower())
    if kind is None or max(len(edit.before), len(edit.after)) > LARGEST:
        return ""
    asked = {"kind": kind, "before": None if edit.create else edit.before, "after": edit.after}
    found = await _ask(json.dumps(asked).encode())
    text = " ".join(found.decode("utf-8", "replace").split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


async def _ask(asked: bytes) -> bytes:
    pipe = asyncio.subprocess.PIPE
    # Isolated: nothing of the folder that the agent works in is imported.
    command = (sys.executable, "-I", str(_CHILD))
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, cwd=_CHILD.anchor
        )
    except OSError:
        return b""
    try:
        found, _ = await asyncio.wait_for(process.communicate(asked), SECONDS)
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return found if process.returncode == 0 else b""
