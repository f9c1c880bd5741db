"""From a resolved edit to the one splice that the editor applies."""

from __future__ import annotations

from pathlib import Path

from ds4_lsp.edits.common import common_prefix, common_suffix
from ds4_lsp.edits.text import file_tag
from ds4_lsp.ports import FileEdit


def plan(
    *,
    uri: str,
    path: Path,
    version: int | None,
    before: str,
    start: int,
    end: int,
    new_text: str,
    label: str,
    create: bool = False,
    save: bool = True,
) -> FileEdit:
    """``before[start:end]`` becomes ``new_text``, as the smallest splice whose ends an LSP position can name."""
    low, high, text = trim(before, start, end, new_text)
    after = before[:low] + text + before[high:]
    return FileEdit(
        uri=uri,
        path=path,
        version=version,
        before=before,
        start=low,
        end=high,
        new_text=text,
        before_tag=file_tag(before),
        after_tag=file_tag(after),
        label=label,
        create=create,
        save=save,
    )


def trim(before: str, start: int, end: int, new_text: str) -> tuple[int, int, str]:
    """The smallest splice with the same outcome, no end of which stands between a CR and an LF, before or after."""
    old = before[start:end]
    head = common_prefix(old, new_text)
    tail = common_suffix(old[head:], new_text[head:])
    text = new_text[head : len(new_text) - tail]
    low, high = start + head, end - tail
    while low > 0 and before[low - 1] == "\r" and "\n" in (before[low : low + 1], (text + before[high:])[:1]):
        low -= 1
        text = "\r" + text
    while before[high : high + 1] == "\n" and "\r" in (before[high - 1 : high], (before[:low] + text)[-1:]):
        high += 1
        text += "\n"
    return low, high, text
