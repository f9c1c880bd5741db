"""The table of chat templates in docs/models.md: python -m benchmarks.template_page [--page docs/models.md].

Needs the templates' archive (see ``archive``) and the Qwen2.5-Coder 0.5B file, whose vocabulary counts tokens.
"""

from __future__ import annotations

import argparse
import ctypes
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.archive import templates
from benchmarks.conversations import SPECS
from benchmarks.equality import equals, info_of
from benchmarks.template_differences import DIFFERENCES
from ds4_lsp.chat.derive import derive
from ds4_lsp.chat.frames import Frames
from ds4_lsp.chat.thinking import LEVELS, Level
from ds4_lsp.chat.tools import with_tools
from ds4_lsp.cli.catalogue import models_directory
from ds4_lsp.syntax.block import MadeCall, Syntax
from ds4_lsp.syntax.registry import named, recognise

BEGIN, END = "<!-- templates: begin -->", "<!-- templates: end -->"
VOCABULARY = "qwen2.5-coder-0.5b.gguf"
READ: MadeCall = ("read", {"path": "src/server/app.py", "start_line": 40}, "123456789")
EDIT: MadeCall = (
    "edit",
    {"path": "src/server/app.py", "old": "    return total / count", "new": "    return total / count if count else 0"},
    "123456789",
)
_CONTROL = re.compile(r"<[|｜](?!DSML)[^<>\s]*>|<[^<>\s]*[|｜]>|\[/?[A-Z_]+\]")
"""Marks that are one token in their own vocabulary, by the look of them."""
_ORDER: tuple[Level, ...] = ("on", "off", "high", "max", "low", "medium")
"""The name that a level gets where several are the same."""
Count = Callable[[str], int]


@dataclass(frozen=True)
class Row:
    name: str
    frames: Frames
    tooled: Frames | None
    syntax: Syntax | None
    same: dict[str, bool | None]


def rows() -> list[Row]:
    """All templates, two processes at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda item: _row(*item), templates().items()))


def _row(name: str, template: str) -> Row:
    info = info_of(name, template)
    frames = derive(info)
    syntax = recognise(frames.called.samples) if frames.called else None
    tooled = with_tools(info, frames, SPECS)
    return Row(name, frames, tooled, syntax, equals(info, frames, syntax))


def counter(model: Path) -> Count:
    """Tokens of a text in the vocabulary of ``model``, marks that look like control tokens counting as one each."""
    import llama_cpp.llama_cpp as C

    silent = C.llama_log_callback(lambda *_: None)
    C.llama_log_set(silent, ctypes.c_void_p(0))
    parameters = C.llama_model_default_params()
    parameters.vocab_only = True
    vocab = C.llama_model_get_vocab(C.llama_model_load_from_file(str(model).encode(), parameters))

    def count(text: str) -> int:
        total = len(_CONTROL.findall(text))
        for part in _CONTROL.split(text):
            data = part.encode()
            buffer = (C.llama_token * (len(data) + 8))()
            total += C.llama_tokenize(vocab, data, len(data), buffer, len(buffer), False, True)
        return total

    return count


def page(found: Sequence[Row], count: Count) -> str:
    dsml = named("dsml")
    read, edit = (count(dsml.render([call])) for call in (READ, EDIT))
    lines = [
        "| template | system, tools | thinking | levels | calls | read | edit | equal |",
        "|---|---|---|---|---|---|---|---|",
        f"| none: what is taught (DSML) | as text | | | dsml | {read} | {edit} | |",
    ]
    lines += [_line(row, count) for row in found]
    whole = [row for row in found if all(value is not False for value in row.same.values())]
    lines += ["", f"{len(whole)} of {len(found)} are equal in everything that they can write. The others:", ""]
    for row in found:
        wrong = [name for name, value in row.same.items() if value is False]
        for reason in dict.fromkeys(DIFFERENCES.get(row.name, {}).get(name, "?") for name in wrong):
            which = [name for name in wrong if DIFFERENCES.get(row.name, {}).get(name, "?") == reason]
            lines.append(f"- {row.name} ({', '.join(which)}): {reason}.")
    return "\n".join(lines)


def _line(row: Row, count: Count) -> str:
    frames, syntax = row.frames, row.syntax
    judged = [value for value in row.same.values() if value is not None]
    cost = [str(count(syntax.render([call]))) for call in (READ, EDIT)] if syntax else ["", ""]
    cells = [
        row.name,
        f"{'in the first message' if frames.merges_system else 'own message'}, {_tools(row)}",
        _thinking(frames),
        _levels(frames),
        syntax.name if syntax else "dsml",
        *cost,
        f"{judged.count(True)} of {len(judged)}",
    ]
    return f"| {' | '.join(cells)} |"


def _tools(row: Row) -> str:
    if row.tooled is None:
        return "as text"
    return "behind it" if row.tooled.environment_in_user else "before it"


def _thinking(frames: Frames) -> str:
    thinking = frames.thinking
    if thinking is None:
        return ""
    opened = "begun" if frames.begins_thinking else "free"
    return f"{_code(thinking.open)} … {_code(thinking.close)}, {opened}".removeprefix(" … ")


def _levels(frames: Frames) -> str:
    if frames.thinking is None:
        return ""
    distinct: dict[object, str] = {}
    for level in _ORDER:
        at = frames.at(level)
        distinct.setdefault((at.system, at.user, at.assistant_open), level)
    return ", ".join(sorted(distinct.values(), key=list(LEVELS).index))


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def write(path: Path, text: str) -> None:
    """Put ``text`` between the marks of ``path``. Raises ``ValueError`` where it has none."""
    before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no place for the table")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.template_page", description=__doc__)
    parser.add_argument("--page", type=Path, help="the page to write the table into; without it, it is printed")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    text = page(rows(), counter(models_directory() / VOCABULARY))
    if options.page:
        write(options.page, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
