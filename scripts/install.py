"""Create ``.venv`` from the lock files, with a llama.cpp that has decoded on this CPU. See ``llama_wheel``.

``python3 scripts/install.py [VENV]``. Standard library only: it runs before anything is installed. What was installed,
and for which CPU, is recorded in the environment; when that is what is wanted, nothing is done.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for _folder in (ROOT, ROOT / "scripts"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

from llama_wheel import (  # noqa: E402
    BUILD_LOCK,
    COMPILED,
    OURS,
    Source,
    apt_install,
    cache_home,
    exclusively,
    sources,
    try_out,
)
from stages import InstallError, run, stage  # noqa: E402

from ds4_lsp.engine import build  # noqa: E402

__all__ = ["ROOT", "InstallError", "cache_home", "exclusively", "main", "run", "split_lock"]

LOCK = ROOT / "requirements.lock"
CHOICES = ("CMAKE_ARGS", "LLAMA_CPP_WHEEL", "LLAMA_CPP_INDEX", "LLAMA_CPP_NATIVE")
"""Environment variables by which the user chooses the build. A choice stands until another one is made."""
INPUTS = (LOCK, BUILD_LOCK, ROOT / "pyproject.toml", ROOT / "scripts" / "build.cmake")


def split_lock(text: str, package: str) -> tuple[str, str]:
    """The lock without ``package``'s entry, and that entry alone."""
    entry = re.search(rf"^{re.escape(package)}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if entry is None:
        raise InstallError(f"{package} is not in the lock file; run `make lock`")
    return text[: entry.start()] + text[entry.end() :], entry.group()


def inputs() -> str:
    """A hash of what an installation depends on, besides the user's choices and the CPU."""
    parts = [path.read_bytes() for path in INPUTS] + [OURS.encode(), sys.version.encode()]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]


def chosen(environment: Mapping[str, str], record: build.Record | None) -> dict[str, str]:
    """The user's choices: those made now, or else those that were made for what is installed."""
    now = {name: environment[name] for name in CHOICES if name in environment}
    if now:
        return {name: value for name, value in now.items() if value}
    return dict(record.choices) if record is not None else {}


def why(record: build.Record | None, choices: Mapping[str, str], cpu: tuple[str, ...]) -> str | None:
    """What has to be said of an installation before it is replaced; None when it is what is wanted."""
    if record is None:
        return ""
    if set(record.cpu) != set(cpu):
        return f"what is installed is for another CPU: {record.source}"
    if record.inputs != inputs() or dict(record.choices) != dict(choices):
        return ""
    return None


def create_venv(venv: Path) -> None:
    python = venv / "bin" / "python"
    if python.exists():
        code = "import sys; print(*sys.version_info[:2])"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.split()
        if found == [str(part) for part in sys.version_info[:2]]:
            return
        shutil.rmtree(venv)
    if importlib.util.find_spec("ensurepip") is None:  # Debian has it in a package of its own
        apt_install("python3-venv", "this Python cannot create virtual environments")
    with stage(f"creating {venv}"):
        run(sys.executable, "-m", "venv", venv)


def working_wheel(choices: list[Source], python: Path) -> tuple[Source, Path]:
    """The first wheel that passes the self-test. Raises ``InstallError`` with what is wrong with the last."""
    problem = ""
    for source in choices:
        wheel = source.get()
        with stage(f"decoding with {source.name}"):
            outcome = try_out(wheel, python)
        if outcome.problem is None:
            return source, wheel
        problem = f"{source.name} {outcome.problem}"
        print(f"not usable: {problem}", flush=True)
    if choices[0].needs:
        raise InstallError(f"no build works here: {problem}. Try another compiler: CC=clang CXX=clang++ make install")
    raise InstallError(f"{problem}. Choose another wheel, or compile: CMAKE_ARGS= make install")


def install(venv: Path) -> None:
    record = build.read(venv)
    choices = chosen(os.environ, record)
    features = build.cpu_features()
    cpu = build.instruction_sets(features)
    reason = why(record, choices, cpu)
    if reason is None:
        return
    if reason:
        print(reason, flush=True)
    rest, entry = split_lock(LOCK.read_text(), COMPILED)
    create_venv(venv)
    if record is not None:
        # Until all is done, what is installed is not what is wanted.
        build.write(venv, dataclasses.replace(record, inputs=""))
    python = venv / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    with stage("packages of the lock file"), tempfile.TemporaryDirectory(prefix="ds4-lsp-install-") as name:
        requirements = Path(name) / "rest.txt"
        requirements.write_text(rest)
        run(*pip, "--require-hashes", "--no-deps", "-r", requirements)
    source, wheel = working_wheel(sources(entry, choices, features), python)
    with stage(f"installing {source.name}"):
        # Forced: a wheel built with other flags has the same version.
        run(*pip, "--no-deps", "--no-index", "--force-reinstall", wheel)
        run(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    made = tuple((choice, choices[choice]) for choice in CHOICES if choice in choices)
    build.write(venv, build.Record(source.name, source.needs, cpu, inputs(), made))


def main(arguments: list[str]) -> int:
    if sys.hexversion < 0x030B0000:
        print(f"install: Python 3.11 or newer is needed, and this is {platform.python_version()}", file=sys.stderr)
        print("install: name another one: make install PYTHON=python3.12", file=sys.stderr)
        return 1
    try:
        install(Path(arguments[0] if arguments else ROOT / ".venv").absolute())
    except InstallError as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
