"""What the installed llama.cpp was built for, and whether that is this CPU. Standard library only.

A build that is tuned to one CPU dies on another at the first instruction that is missing there. ``scripts/install.py``
leaves a record in the virtual environment; ``make install`` and the engine compare it with the CPU they run on, before
llama.cpp is imported.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
RECORD = "llama-cpp-build.json"
"""The record's name, in the virtual environment's folder."""
_INSTRUCTIONS = re.compile(
    r"(pni|sse|ssse|avx|apx|fma|f16c|bmi|abm|lzcnt|popcnt|movbe|adx|xop|tbm|gfni|vaes|vpclmul|3dnow|sha)"
)
"""How the names of instruction sets begin that a compiler uses by itself, or llama.cpp on purpose. The system's list
has much else, which differs between kernels on one CPU; AMX is left out of our builds."""


@dataclass(frozen=True)
class Record:
    """``needs``: instruction sets that the build may use; empty where that is not known. ``cpu``: those of the CPU on
    which it was tested. ``source``: where it is from, in words. ``inputs``: what the install depended on."""

    source: str
    needs: tuple[str, ...]
    cpu: tuple[str, ...]
    inputs: str = ""
    choices: tuple[tuple[str, str], ...] = ()


def cpu_features() -> str:
    """The CPU's features as the system names them, sorted."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        found = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return found.stdout or platform.processor()
    wanted = [line for line in lines if line.startswith(("flags", "Features", "CPU part"))]
    return " ".join(sorted({word for line in wanted for word in line.partition(":")[2].split()}))


def instruction_sets(features: str) -> tuple[str, ...]:
    """What a build can depend on: x86's instruction sets, or all that another CPU has."""
    words = features.split()
    if "sse2" not in words:
        return tuple(words)
    return tuple(word for word in words if _INSTRUCTIONS.match(word))


def write(folder: Path, record: Record) -> None:
    path = folder / RECORD
    path.with_suffix(".part").write_text(json.dumps(asdict(record), indent=1) + "\n")
    path.with_suffix(".part").replace(path)


def read(folder: Path) -> Record | None:
    """The record, or None where there is none that can be read: nothing is known of such a build."""
    try:
        fields = json.loads((folder / RECORD).read_text())
        choices = tuple((str(name), str(value)) for name, value in fields["choices"])
        return Record(
            str(fields["source"]), _words(fields["needs"]), _words(fields["cpu"]), str(fields["inputs"]), choices
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _words(value: Any) -> tuple[str, ...]:
    return tuple(str(word) for word in value)


def missing(record: Record | None, present: Iterable[str]) -> tuple[str, ...]:
    """Instruction sets that the build may use and the CPU does not have."""
    if record is None:
        return ()
    return tuple(sorted(set(record.needs) - set(present)))


def unfit() -> str | None:
    """Why the installed build must not be started here, and the one command that mends it; None when all is well."""
    lacking = missing(read(Path(sys.prefix)), instruction_sets(cpu_features()))
    if not lacking:
        return None
    few = ", ".join(lacking[:4]) + (f" and {len(lacking) - 4} more" if len(lacking) > 4 else "")
    return (
        f"The installed llama.cpp was compiled for another CPU, one with {few}.\n"
        f"Install the one for this CPU, then send the prompt again: {install_command()}"
    )


def install_command(portable: bool = False) -> str:
    """The command that replaces the installed build: one for this CPU, or one ``portable`` that is not tuned to it."""
    if (CHECKOUT / "scripts" / "install.py").exists():
        return f"make -C {shlex.quote(str(CHECKOUT))} install" + (" LLAMA_CPP_NATIVE=off" if portable else "")
    arguments = 'CMAKE_ARGS="-DGGML_NATIVE=OFF" ' if portable else ""
    pip = f"{shlex.quote(sys.executable)} -m pip install --force-reinstall --no-cache-dir --no-deps"
    return f"{arguments}{pip} {_requirement()}"


def _requirement() -> str:
    from importlib import metadata

    try:
        return f"llama-cpp-python=={metadata.version('llama-cpp-python')}"
    except metadata.PackageNotFoundError:
        return "llama-cpp-python"
