from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-build.lock")


def script(name: str) -> ModuleType:
    """A script as a module; those that it imports by their plain names are the same ones."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="module")
def install() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield script("install")


@pytest.fixture(scope="module")
def llama_wheel(install: ModuleType) -> ModuleType:
    return script("llama_wheel")


def test_the_lock_splits_into_the_compiled_package_and_the_rest(install: ModuleType) -> None:
    text = (ROOT / "requirements.lock").read_text()
    rest, entry = install.split_lock(text, "llama-cpp-python")
    assert entry.startswith("llama-cpp-python==") and "--hash=sha256:" in entry
    assert "llama-cpp-python" not in rest
    assert len(rest) + len(entry) == len(text)


def test_a_lock_without_the_compiled_package_is_refused(install: ModuleType) -> None:
    with pytest.raises(install.InstallError, match="make lock"):
        install.split_lock("other==1\n", "llama-cpp-python")


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_an_exact_version_and_a_hash(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.findall(r"^[a-z].*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(entries) > 3
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", entry), entry[:80]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_no_address_and_no_path(name: str) -> None:
    assert not re.search(r"://|--index|--find-links|file:", (ROOT / name).read_text())


def test_the_lock_holds_every_direct_dependency() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [item for extra in project["optional-dependencies"].values() for item in extra]
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert {re.split(r"[<>=]", item)[0] for item in wanted} <= locked


def test_the_users_cmake_arguments_come_first_and_ours_are_kept(llama_wheel: ModuleType, tmp_path: Path) -> None:
    args = llama_wheel.cmake_args({"CMAKE_ARGS": "-DGGML_CUDA=on"}, tmp_path / "x.cmake").split()
    assert args[0] == "-DGGML_CUDA=on"
    assert f"-DCMAKE_PROJECT_INCLUDE={tmp_path / 'x.cmake'}" in args


@pytest.mark.parametrize(
    "other",
    [
        {"cpu": "sse4"},
        {"machine": "aarch64"},
        {"python_tag": "cp312"},
        {"entry": "llama-cpp-python==0.3.36 --hash=sha256:cd"},
        {"environment": {"CMAKE_ARGS": "-DGGML_CUDA=on"}},
        {"environment": {"CXX": "clang++"}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_whatever_changes_the_build_changes_the_wheels_key(llama_wheel: ModuleType, other: dict[str, object]) -> None:
    base = {
        "entry": "llama-cpp-python==0.3.36 --hash=sha256:ab",
        "python_tag": "cp311",
        "machine": "x86_64",
        "cpu": "avx2",
        "environment": {},
    }
    key = llama_wheel.wheel_key(**base)
    assert key.startswith("0.3.36-cp311-x86_64-")
    assert llama_wheel.wheel_key(**base) == key != llama_wheel.wheel_key(**(base | other))


def test_our_own_build_options_are_part_of_the_wheels_key(
    llama_wheel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ("llama-cpp-python==0.3.36 --hash=sha256:ab", "cp311", "x86_64", "avx2", {})
    key = llama_wheel.wheel_key(*base)
    monkeypatch.setattr(llama_wheel, "OURS", "-DGGML_RPC=OFF")
    assert llama_wheel.wheel_key(*base) != key


def test_without_a_compiler_and_without_root_the_message_says_what_to_install(
    llama_wheel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(llama_wheel.InstallError, match=r"g\+\+"):
        llama_wheel.need_compiler({})


def test_the_makefile_lists_its_targets() -> None:
    make = shutil.which("make")
    assert make is not None
    done = subprocess.run([make, "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("install", "check", "test", "demo", "lock", "clean"):
        assert re.search(rf"^  make {target}\b", done.stdout, re.MULTILINE)


def test_the_install_script_is_standard_library_only() -> None:
    code = f"import runpy; runpy.run_path({str(ROOT / 'scripts' / 'install.py')!r}, run_name='x')"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
