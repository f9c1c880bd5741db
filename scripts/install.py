"""Create ``.venv`` from the lock files; compile llama-cpp-python once per machine type and keep its wheel.

``python3 scripts/install.py [VENV]``. Standard library only: it runs before anything is installed.

llama-cpp-python has no wheel on the registry. It is compiled from the source archive whose hash the lock pins, with
the tools that ``requirements-build.lock`` pins, and the wheel is kept in ``$XDG_CACHE_HOME/ds4-lsp/wheels``. The build
is tuned to this CPU (GGML_NATIVE), so the cache key holds the CPU's features, as well as version, Python, compiler
flags and ``CMAKE_ARGS``: with ``CMAKE_ARGS=-DGGML_CUDA=on make install`` a second wheel is built beside the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
BUILD_LOCK = ROOT / "requirements-build.lock"
COMPILED = "llama-cpp-python"
OURS = "-DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF -DGGML_RPC=ON"
"""No vision, HTTP or TLS code, which halves the build's time; RPC, so that machines can share a model."""


class InstallError(Exception):
    """A step that cannot succeed without the user; the message says what to do."""


def split_lock(text: str, package: str) -> tuple[str, str]:
    """The lock without ``package``'s entry, and that entry alone."""
    entry = re.search(rf"^{re.escape(package)}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if entry is None:
        raise InstallError(f"{package} is not in the lock file; run `make lock`")
    return text[: entry.start()] + text[entry.end() :], entry.group()


def cmake_args(environment: Mapping[str, str], recipe: Path) -> str:
    """The user's ``CMAKE_ARGS`` and then ours."""
    return f"{environment.get('CMAKE_ARGS', '')} {OURS} -DCMAKE_PROJECT_INCLUDE={recipe}".strip()


def cpu_features() -> str:
    """What a native build depends on: the CPU's instruction sets, as the system names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        found = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return found.stdout or platform.processor()
    wanted = [line for line in lines if line.startswith(("flags", "Features", "CPU part"))]
    return " ".join(sorted({word for line in wanted for word in line.partition(":")[2].split()}))


def wheel_key(entry: str, python_tag: str, machine: str, cpu: str, environment: Mapping[str, str]) -> str:
    """The folder name of a cached wheel: readable version and tag, and a hash of all that the build depends on."""
    version = entry.partition("==")[2].split()[0]
    flags = [environment.get(name, "") for name in ("CMAKE_ARGS", "CFLAGS", "CXXFLAGS", "CC", "CXX")]
    digest = hashlib.sha256("\0".join([entry, OURS, python_tag, machine, cpu, *flags]).encode()).hexdigest()[:16]
    return f"{version}-{python_tag}-{machine}-{digest}"


def cache_home(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ds4-lsp"


def run(*command: str | Path, env: Mapping[str, str] | None = None) -> None:
    try:
        subprocess.run([str(word) for word in command], check=True, env=env)
    except subprocess.CalledProcessError as error:
        raise InstallError(f"failed with status {error.returncode}: {' '.join(map(str, command))}") from None


def apt_install(package: str, missing: str) -> None:
    """Install a system package where that can be done without asking; else say what to do."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise InstallError(
            f"{missing}. Install it (on Debian or Ubuntu: sudo apt-get install {package}) and try again."
        )
    print(f"{missing}: installing {package}", flush=True)
    run(apt, "update", "-qq")
    run(apt, "install", "-y", "-qq", "--no-install-recommends", package)


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
    run(sys.executable, "-m", "venv", venv)


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


def compiled_wheel(entry: str) -> Path:
    """The cached wheel, built first where there is none."""
    python_tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheels = cache_home(os.environ) / "wheels"
    folder = wheels / wheel_key(entry, python_tag, platform.machine(), cpu_features(), os.environ)
    with exclusively(wheels):
        found = sorted(folder.glob("*.whl"))
        if not found:
            need_compiler(os.environ)
            build_wheel(entry, folder)
            found = sorted(folder.glob("*.whl"))
        else:
            print(f"using the compiled wheel {found[0]}", flush=True)
    if not found:
        raise InstallError(f"the build of {COMPILED} left no wheel in {folder}")
    return found[0]


def build_wheel(entry: str, folder: Path) -> None:
    print(f"compiling {COMPILED}: 5 to 10 minutes on two cores, once per machine", flush=True)
    with tempfile.TemporaryDirectory(prefix="ds4-lsp-build-") as name:
        work = Path(name)
        run(sys.executable, "-m", "venv", work / "venv")
        python = work / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", BUILD_LOCK)
        requirement = work / "compiled.txt"
        requirement.write_text(entry)
        recipe = work / "build.cmake"
        shutil.copy(ROOT / "scripts" / "build.cmake", recipe)
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
        environment = {**os.environ, "CMAKE_ARGS": cmake_args(os.environ, recipe), "PATH": path}
        # No cache: pip's own would answer with a wheel built with other flags or on another CPU.
        build = ("wheel", "--no-cache-dir", "--no-build-isolation", "--no-deps", "--no-binary", COMPILED)
        run(python, "-m", "pip", *build, "--require-hashes", "-w", work / "out", "-r", requirement, env=environment)
        folder.mkdir(parents=True, exist_ok=True)
        for wheel in (work / "out").glob("*.whl"):
            shutil.copy(wheel, folder / f"{wheel.name}.part")
            (folder / f"{wheel.name}.part").replace(folder / wheel.name)


def install(venv: Path) -> None:
    rest, entry = split_lock(LOCK.read_text(), COMPILED)
    create_venv(venv)
    python = venv / "bin" / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    with tempfile.TemporaryDirectory(prefix="ds4-lsp-install-") as name:
        requirements = Path(name) / "rest.txt"
        requirements.write_text(rest)
        run(*pip, "--require-hashes", "--no-deps", "-r", requirements)
    wheel = compiled_wheel(entry)
    # Forced: a wheel built with other flags has the same version.
    run(*pip, "--no-deps", "--no-index", "--force-reinstall", wheel)
    try:
        run(python, "-c", "import llama_cpp.llama_cpp as C; C.llama_backend_init()")
    except InstallError as error:
        raise InstallError(
            f"the compiled {COMPILED} does not load here. Remove {wheel.parent} and try again."
        ) from error
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)


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
