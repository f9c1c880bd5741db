"""Why an engine process died and what its user can do, in at most three lines; and how often in a row."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_state_path

from ds4_lsp.engine import build
from ds4_lsp.engine.requirements import in_words

CRASH = "Fatal Python error"
"""How faulthandler's stacks of all threads begin. What was said right before them tells more."""
KEPT_LOGS = 10
AGAIN = "The next prompt starts a new engine."
ENOUGH = (
    "It is the second such death in a row: no prompt loads the model again before its settings, its file or the build"
    " are changed. To try once more, load it yourself, or restart the server."
)
_MOST_CHARACTERS = 300
_NUMBER = re.compile(r"[0-9a-fx]*[0-9][0-9a-fx]*")
_NO_MEMORY = re.compile(r"out of memory|bad_alloc|(failed|unable) to allocate|cannot allocate", re.IGNORECASE)

Line = tuple[str, str]
"""A line of the engine's stderr: its level's letter (``D``, ``I``, ``W``, ``E``; empty for what is no log line), and
its text."""


@dataclass(frozen=True)
class Planned:
    """What the engine set out to load. ``weights``, ``kv`` and ``compute``: an estimate, in bytes; ``size`` and
    ``mtime_ns`` of the file as it was then."""

    name: str
    path: str
    size: int
    mtime_ns: int
    context_size: int
    kv_type: str
    gpu: bool
    layers: int
    gpu_layers: int
    weights: int
    kv: int
    compute: int


@dataclass(frozen=True)
class Death:
    """``reason`` is the same for deaths of one cause. ``what`` and ``remedy`` are a line each; no remedy is known
    where it is empty. ``log``: the file that holds what the engine said."""

    reason: str
    what: str
    remedy: str = ""
    log: Path | None = None

    def message(self, then: str) -> str:
        """Three lines at most; ``then``: what happens next."""
        where = f" Its log: {self.log}" if self.log is not None else ""
        return "\n".join(filter(None, [self.what, self.remedy, then + where]))


def diagnose(
    status: int,
    lines: Sequence[Line],
    planned: Planned | None,
    *,
    memory_ran_out: bool | None = None,
    file_now: tuple[int, int] | None = None,
) -> Death:
    """``status``: as ``subprocess`` has it. ``memory_ran_out``: whether the system ended a process for want of memory
    meanwhile; None where it does not say. ``file_now``: the model file's size and time; None when it is gone."""
    name = _signal_name(status)
    said = last_error(lines)
    if name == "SIGILL":
        what = "The engine was ended by an illegal instruction (SIGILL): the installed llama.cpp does not fit this CPU."
        command = build.install_command(portable=True)
        return Death(name, what, f"Install one that does, then send the prompt again: {command}")
    if name == "SIGKILL" and memory_ran_out is not False:
        return _no_memory(f"The system ended the engine (SIGKILL): memory ran out.{_needed(planned)}", planned)
    if name == "SIGBUS" and planned is not None:
        return _unreadable(planned, file_now)
    if name and _NO_MEMORY.search(said):
        return _no_memory(f"The engine had no memory left ({name}): {said}", planned)
    how = f"was ended by {name}" if name else f"exited with status {status}"
    # Numbers differ from one death to the next: addresses, sizes.
    reason = f"{name or status} {_NUMBER.sub('#', said)}"
    return Death(reason, f"The engine {how}: {said}" if said else f"The engine {how}, and told of no error.")


def last_error(lines: Sequence[Line]) -> str:
    """The last line that tells of an error, before the stacks that follow a crash; empty when there is none."""
    crash = next((at for at, (_, text) in enumerate(lines) if text.startswith(CRASH)), len(lines))
    before = lines[:crash]
    for wanted in (("E", ""), ("W",)):
        for letter, text in reversed(before):
            if letter in wanted:
                return text.strip()[:_MOST_CHARACTERS]
    return ""


def _signal_name(status: int) -> str:
    if status >= 0:
        return ""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _needed(planned: Planned | None) -> str:
    if planned is None:
        return ""
    total = in_words(planned.weights + planned.kv + planned.compute)
    return (
        f" {planned.name} needs about {total} (model {in_words(planned.weights)}, context of {planned.context_size}"
        f" tokens {in_words(planned.kv)}, work space {in_words(planned.compute)})."
    )


def _no_memory(what: str, planned: Planned | None) -> Death:
    ways = ["lower ds4.model.contextSize"]
    if planned is None or planned.kv_type in ("f32", "f16", "bf16"):
        ways.append("set ds4.model.kvCacheType to q8_0")
    if planned is not None and planned.gpu:
        ways.append("lower ds4.model.gpuLayers")
    remedy = f"To need less: {', '.join(ways)}, or choose a smaller model. Or end what else takes memory."
    return Death("memory", what, remedy)


def _unreadable(planned: Planned, now: tuple[int, int] | None) -> Death:
    what = f"The engine could not read its model any more (SIGBUS): {planned.path} "
    remedy = "Put the whole file back (ds4-lsp model fetch, or a copy), then send the prompt again."
    if now is None:
        return Death("SIGBUS", f"{what}is gone.", remedy)
    if now != (planned.size, planned.mtime_ns):
        change = f" ({planned.size} bytes when it was loaded, {now[0]} now)" if now[0] != planned.size else ""
        return Death("SIGBUS", f"{what}was changed while it was in use{change}.", remedy)
    return Death("SIGBUS", f"{what}is on a disk that fails.", "Copy the model to another disk, and set ds4.model.path.")


class Deaths:
    """Those in a row, without a reply between them. ``evidence``: all that a next load would depend on."""

    def __init__(self) -> None:
        self._last: Death | None = None
        self._count = 0
        self._evidence: object = None

    def note(self, death: Death, evidence: object) -> str:
        """The message for whoever waited."""
        same = self._last is not None and self._last.reason == death.reason
        self._count = self._count + 1 if same else 1
        self._last, self._evidence = death, evidence
        return death.message(AGAIN if self._count < 2 else ENOUGH)

    def forget(self) -> None:
        self._last, self._count = None, 0

    def refusal(self, evidence: object) -> str | None:
        """Why a model is not loaded by itself; None when it may be."""
        if self._last is None or self._count < 2 or evidence != self._evidence:
            return None
        return self._last.message(ENOUGH)


# --- what the system says ---------------------------------------------------------------------------------------------


def oom_kills() -> int | None:
    """Processes that the kernel ended for want of memory since it started; None where it does not count them."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def file_state(path: str) -> tuple[int, int] | None:
    """Size and time of last change; None where there is no such file."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns


def write_log(lines: Sequence[Line], pid: int) -> Path | None:
    """Keep what the engine said, for its user alone; None where nothing can be written."""
    folder = Path(user_state_path("ds4-lsp", appauthor=False)) / "log"
    path = folder / f"engine-{time.strftime('%Y%m%d-%H%M%S')}-{pid}.log"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = "".join(f"{letter or ' '} {text}\n" for letter, text in lines)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", errors="replace") as file:
            file.write(text)
        for old in sorted(folder.glob("engine-*.log"))[:-KEPT_LOGS]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return path
