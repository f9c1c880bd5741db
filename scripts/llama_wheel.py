"""The wheel of llama-cpp-python: compiled here and kept, or the user's own. Standard library only.

llama-cpp-python has no wheel on the registry. It is compiled from the source archive whose hash the lock pins, with
the tools that ``requirements-build.lock`` pins, and the wheel is kept in ``$XDG_CACHE_HOME/ds4-lsp/wheels``. The build
is tuned to this CPU (GGML_NATIVE), so the cache key holds the CPU's features, as well as version, Python, compiler
flags and ``CMAKE_ARGS``: with ``CMAKE_ARGS=-DGGML_CUDA=on make install`` a second wheel is built beside the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stages import InstallError, run, run_logged, stage

from ds4_lsp.engine import selftest
from ds4_lsp.engine.build import instruction_sets

ROOT = Path(__file__).resolve().parent.parent
BUILD_LOCK = ROOT / "requirements-build.lock"
COMPILED = "llama-cpp-python"
OURS = "-DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DGGML_RPC=ON"
"""No vision, HTTP or TLS code, which halves the build's time; RPC, so that machines can share a model."""
FLAGS = ("CMAKE_ARGS", "CFLAGS", "CXXFLAGS", "CC", "CXX")
_PORTABLE = {"SSE42": "sse4_2", "AVX": "avx", "AVX2": "avx2", "BMI2": "bmi2", "FMA": "fma", "F16C": "f16c"}
"""llama.cpp's options and the system's names of instruction sets that every compiler gets right; without native tuning
llama.cpp takes all of them for granted."""
_EXOTIC = ("AVX_VNNI", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_TILE", "AMX_INT8", "AMX_BF16")


@dataclass(frozen=True)
class Source:
    """A way to a wheel. ``needs``: instruction sets that it may use; empty where that is not known."""

    name: str
    needs: tuple[str, ...]
    get: Callable[[], Path]


def sources(entry: str, choices: Mapping[str, str], features: str) -> list[Source]:
    """The wheels to try, best first. ``choices``: what the user chose (``install.CHOICES``)."""
    if chosen := choices.get("LLAMA_CPP_WHEEL"):
        return [Source(f"the wheel {chosen}", (), lambda: given_wheel(entry, [_one(chosen)]))]
    if index := choices.get("LLAMA_CPP_INDEX"):
        wanted = ["--index-url", index, f"{COMPILED}=={_version(entry)}"]
        return [Source(f"the wheel from {index}", (), lambda: given_wheel(entry, wanted))]
    tuned = {name: os.environ.get(name, "") for name in FLAGS} | {"CMAKE_ARGS": choices.get("CMAKE_ARGS", "")}
    plain = portable(tuned, features)
    words = features.split()
    needs = tuple(name for name in _PORTABLE.values() if name in words)
    builds = [
        Source("llama.cpp for this CPU", instruction_sets(features), lambda: compiled_wheel(entry, features, tuned)),
        Source("llama.cpp without native tuning", needs, lambda: compiled_wheel(entry, features, plain)),
    ]
    return builds[1:] if choices.get("LLAMA_CPP_NATIVE", "").lower() in ("off", "0", "no") else builds


def portable(environment: Mapping[str, str], features: str) -> dict[str, str]:
    """The same without native tuning: of the CPU's instruction sets only the old ones, whatever else was asked for."""
    words = features.split()
    options = ["-DGGML_NATIVE=OFF"]
    if "sse2" in words:
        options += [f"-DGGML_{option}={'ON' if name in words else 'OFF'}" for option, name in _PORTABLE.items()]
        options += [f"-DGGML_{option}=OFF" for option in _EXOTIC]
    result = dict(environment)
    for name in ("CFLAGS", "CXXFLAGS"):
        result[name] = " ".join(word for word in environment.get(name, "").split() if not word.startswith("-m"))
    result["CMAKE_ARGS"] = " ".join([environment.get("CMAKE_ARGS", ""), *options]).strip()
    return result


def try_out(wheel: Path, python: Path) -> selftest.Outcome:
    """The self-test on a wheel that is not installed yet; ``python`` has what llama_cpp imports."""
    with tempfile.TemporaryDirectory(prefix="ds4-lsp-wheel-") as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        return selftest.run(python, {"PYTHONPATH": folder})


def given_wheel(entry: str, wanted: list[str]) -> Path:
    """The user's own wheel, in a folder that is removed when this process ends. Raises ``InstallError``."""
    folder = Path(_kept_folder())
    download = ("download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", COMPILED)
    try:
        run(sys.executable, "-m", "pip", *download, "-d", folder, *wanted)
    except InstallError as error:
        raise InstallError(f"{error}\nName a wheel of {COMPILED} {_version(entry)} for this platform.") from None
    [wheel] = folder.glob("*.whl")
    name, version = wheel.name.split("-")[:2]
    if name.lower() != COMPILED.replace("-", "_") or version.partition("+")[0] != _version(entry):
        raise InstallError(f"{wheel.name} is of another version: ds4-lsp needs {COMPILED} {_version(entry)}")
    return wheel


def _one(chosen: str) -> str:
    if "://" in chosen:
        return chosen
    path = Path(chosen).expanduser().absolute()
    if path.suffix != ".whl" or not path.is_file():
        raise InstallError(f"LLAMA_CPP_WHEEL={chosen} is no wheel: name a .whl file or the address of one")
    return str(path)


_folders: list[tempfile.TemporaryDirectory[str]] = []


def _kept_folder() -> str:
    _folders.append(tempfile.TemporaryDirectory(prefix="ds4-lsp-given-"))
    return _folders[-1].name


def _version(entry: str) -> str:
    return entry.partition("==")[2].split()[0]


# --- compiling --------------------------------------------------------------------------------------------------------


def cmake_args(environment: Mapping[str, str], recipe: Path) -> str:
    """The user's ``CMAKE_ARGS`` and then ours."""
    return f"{environment.get('CMAKE_ARGS', '')} {OURS} -DCMAKE_PROJECT_INCLUDE={recipe}".strip()


def wheel_key(entry: str, python_tag: str, machine: str, cpu: str, environment: Mapping[str, str]) -> str:
    """The folder name of a cached wheel: readable version and tag, and a hash of all that the build depends on."""
    flags = [environment.get(name, "") for name in FLAGS]
    digest = hashlib.sha256("\0".join([entry, OURS, python_tag, machine, cpu, *flags]).encode()).hexdigest()[:16]
    return f"{_version(entry)}-{python_tag}-{machine}-{digest}"


def cache_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ds4-lsp"


def apt_install(package: str, missing: str) -> None:
    """Install a system package where that can be done without asking; else say what to do."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise InstallError(
            f"{missing}. Install it (on Debian or Ubuntu: sudo apt-get install {package}) and try again."
        )
    with stage(f"{missing}: installing {package}"):
        run(apt, "update", "-qq")
        run(apt, "install", "-y", "-qq", "--no-install-recommends", package)


def need_compiler(environment: Mapping[str, str]) -> None:
    if environment.get("CXX") or any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return
    apt_install("g++", "no C++ compiler is installed, and llama-cpp-python is compiled from source")


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """One build at a time: a second checkout waits and then finds the wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def compiled_wheel(entry: str, features: str, environment: Mapping[str, str]) -> Path:
    """The cached wheel, built first where there is none."""
    python_tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheels = cache_home(os.environ) / "wheels"
    folder = wheels / wheel_key(entry, python_tag, platform.machine(), features, environment)
    with exclusively(wheels):
        found = sorted(folder.glob("*.whl"))
        if not found:
            need_compiler(environment)
            build_wheel(entry, folder, environment)
            found = sorted(folder.glob("*.whl"))
    if not found:
        raise InstallError(f"the build of {COMPILED} left no wheel in {folder}")
    return found[0]


def build_wheel(entry: str, folder: Path, environment: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="ds4-lsp-build-") as name:
        work = Path(name)
        python = work / "venv" / "bin" / "python"
        with stage("the build's tools"):
            run(sys.executable, "-m", "venv", work / "venv")
            run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", BUILD_LOCK)
        requirement = work / "compiled.txt"
        requirement.write_text(entry)
        recipe = work / "build.cmake"
        shutil.copy(ROOT / "scripts" / "build.cmake", recipe)
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
        flags = {name: value for name, value in environment.items() if value or name in os.environ}
        flags |= {"CMAKE_ARGS": cmake_args(environment, recipe), "PATH": path}
        # No cache: pip's own would answer with a wheel built with other flags or on another CPU.
        build = ("wheel", "-v", "--no-cache-dir", "--no-build-isolation", "--no-deps", "--no-binary", COMPILED)
        command = [python, "-m", "pip", *build, "--require-hashes", "-w", work / "out", "-r", requirement]
        tuned = "" if "-DGGML_NATIVE=OFF" not in flags["CMAKE_ARGS"] else " without native tuning"
        with stage(f"compiling llama.cpp{tuned}, 2 to 10 minutes on two cores") as progress:

            def on_line(line: str) -> None:
                # Ninja's count of what is compiled.
                if done := re.search(r"\[\d+/\d+\]", line):
                    progress(done.group())

            run_logged(command, folder.with_name(f"{folder.name}.log"), on_line, env={**os.environ, **flags})
        folder.mkdir(parents=True, exist_ok=True)
        for wheel in (work / "out").glob("*.whl"):
            shutil.copy(wheel, folder / f"{wheel.name}.part")
            (folder / f"{wheel.name}.part").replace(folder / wheel.name)
