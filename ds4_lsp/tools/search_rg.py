"""ripgrep as a process: where it is, how it is run, what it finds."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ds4_lsp.edits.text import content, lines
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.errors import Cancelled, InvalidRequest, NotFound

CHUNK = 1 << 16


@dataclass(frozen=True)
class Hit:
    """A line with a match: 1-based number, its text without ending, code points before the first match."""

    line: int
    text: str
    column: int


@dataclass(frozen=True)
class Query:
    text: str
    regex: bool
    case_sensitive: bool

    @property
    def options(self) -> list[str]:
        flags = ["--json", "--crlf", "--no-config", "--no-messages"]
        flags += [] if self.regex else ["--fixed-strings"]
        flags += ["--case-sensitive" if self.case_sensitive else "--ignore-case"]
        return [*flags, f"--regexp={self.text}"]


OnHit = Callable[[Path, Hit], bool]
"""(path relative to the folder searched, hit): whether to go on."""
End = Literal["done", "enough", "timeout"]


def find_rg() -> str:
    """The ripgrep that came with this Python environment, else the user's own. ``NotFound``."""
    beside = Path(sys.executable).with_name("rg")
    found = str(beside) if beside.is_file() else shutil.which("rg")
    if found is None:
        raise NotFound("ripgrep is not installed, so `search` cannot work. Tell the user: pip install ripgrep.")
    return found


async def search_folder(
    query: Query, folder: Path, options: Sequence[str], on_hit: OnHit, *, cancel: Cancel, seconds: float
) -> End:
    """Search the files in a folder, in order of their paths, honouring ignore files.

    ``InvalidRequest``: not a regular expression. ``Cancelled``.
    """
    walk = ["--hidden", "--glob=!.git", "--no-require-git", "--sort=path", "--max-filesize=50M"]
    command = [find_rg(), *query.options, *walk, *options, "--", "."]
    return await run(command, folder, b"", lambda line: _feed(line, on_hit), cancel=cancel, seconds=seconds)


async def search_text(query: Query, text: str, *, cancel: Cancel, seconds: float) -> list[Hit]:
    """Search one text, whose lines are ours: a CR ends one."""
    rows = [content(line) for line in lines(text)]
    data = "\n".join(rows).encode("utf-8", "replace")
    hits: list[Hit] = []

    def on_hit(_path: Path, hit: Hit) -> bool:
        if hit.line <= len(rows):
            hits.append(Hit(hit.line, rows[hit.line - 1], hit.column))
        return True

    command = [find_rg(), *query.options, "--text", "-"]
    await run(command, None, data, lambda line: _feed(line, on_hit), cancel=cancel, seconds=seconds)
    return hits


def _feed(line: bytes, on_hit: OnHit) -> bool:
    message = json.loads(line)
    if message["type"] != "match":
        return True
    data = message["data"]
    raw = _bytes(data["lines"])
    # The pattern may match the line's ending alone, or nothing at all.
    before = raw[: data["submatches"][0]["start"]] if data["submatches"] else b""
    text = raw.decode("utf-8", "replace").rstrip("\r\n")
    hit = Hit(data["line_number"], text, len(before.decode("utf-8", "replace")))
    return on_hit(Path(_bytes(data["path"]).decode("utf-8", "surrogateescape")), hit)


def _bytes(value: dict[str, Any]) -> bytes:
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])


async def run(
    command: Sequence[str],
    cwd: Path | None,
    stdin: bytes,
    on_line: Callable[[bytes], bool],
    *,
    cancel: Cancel,
    seconds: float,
) -> End:
    """Run a command; ``on_line`` gets each line of its output until it answers False. However it ends, it is gone.

    ``Cancelled``; ``InvalidRequest``: it failed (status 2) and said why.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe)
    ended: list[End] = []

    def stop(why: End | None = None) -> None:
        if why is not None:
            ended.append(why)
        with suppress(ProcessLookupError):
            process.kill()

    forget = cancel.on_set(stop)
    timer = asyncio.get_running_loop().call_later(seconds, stop, "timeout")
    try:
        _, _, stderr = await asyncio.gather(_write(process, stdin), _lines(process, on_line, stop), _all(process))
        code = await process.wait()
    finally:
        timer.cancel()
        forget()
        if process.returncode is None:
            stop()
            await process.wait()
    if cancel.is_set:
        raise Cancelled("The search was interrupted by the user.")
    if not ended and code == 2 and stderr.strip():
        raise InvalidRequest(f"The search could not be done: {stderr.decode('utf-8', 'replace').strip()}")
    return ended[0] if ended else "done"


async def _write(process: asyncio.subprocess.Process, data: bytes) -> None:
    assert process.stdin is not None
    # rg may end before it has read everything.
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _lines(
    process: asyncio.subprocess.Process, on_line: Callable[[bytes], bool], stop: Callable[[End], None]
) -> None:
    assert process.stdout is not None
    rest, enough = b"", False
    while chunk := await process.stdout.read(CHUNK):
        # After the last line of interest the pipe is still emptied, so that it is closed in order.
        if enough:
            continue
        *whole, rest = (rest + chunk).split(b"\n")
        if not all(on_line(line) for line in whole):
            enough, rest = True, b""
            stop("enough")


async def _all(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr is not None
    return await process.stderr.read()
