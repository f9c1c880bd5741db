"""Which build of llama.cpp is installed: it has decoded here, and it is the one that was chosen."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pty
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ds4_lsp.engine import build

ROOT = Path(__file__).resolve().parents[2]
ENTRY = "llama-cpp-python==0.3.36 --hash=sha256:ab"
AVX512 = "fma sse2 sse4_2 avx avx2 bmi2 f16c avx512f avx_vnni amx_tile ht"
OLD = "sse2 sse4_2 ht"
DYING = """
from ds4_lsp.engine.fault import Faults
import llama_cpp.llama_cpp as C
decode, fault = C.llama_decode, Faults("prefill:ill", None)
def dying(*arguments):
    fault.hit("prefill")
    return decode(*arguments)
C.llama_decode = dying
"""


@pytest.fixture(scope="module")
def install() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield importlib.import_module("install")


@pytest.fixture(scope="module")
def llama_wheel(install: ModuleType) -> ModuleType:
    return importlib.import_module("llama_wheel")


def wheel(folder: Path, body: str = "", version: str = "0.3.36") -> Path:
    """A wheel whose llama_cpp is the installed one, and ``body``."""
    found = importlib.util.find_spec("llama_cpp")
    assert found is not None and found.origin is not None
    lines = ["import sys", f"__path__.append({str(Path(found.origin).parent)!r})", f"sys.path.append({str(ROOT)!r})"]
    path = folder / f"llama_cpp_python-{version}-py3-none-any.whl"
    info = f"llama_cpp_python-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llama_cpp/__init__.py", "\n".join([*lines, body]))
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


# --- the self-test decides --------------------------------------------------------------------------------------------


def test_a_wheel_that_dies_is_told_in_one_line_and_the_next_one_is_used(
    install: ModuleType, llama_wheel: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good").mkdir()
    bad, good = wheel(tmp_path, DYING), wheel(tmp_path / "good")
    tried = [
        llama_wheel.Source("the tuned build", ("avx2",), lambda: bad),
        llama_wheel.Source("the plain build", (), lambda: good),
    ]
    source, used = install.working_wheel(tried, sys.executable)
    assert (source, used) == (tried[1], good)
    lines = capfd.readouterr().out.splitlines()
    assert re.fullmatch(r"decoding with the tuned build \.\.\. \d+\.\d s", lines[0])
    assert lines[1] == (
        "not usable: the tuned build dies of an illegal instruction (SIGILL), at this step: a batch of 1 in F16"
    )
    assert re.fullmatch(r"decoding with the plain build \.\.\. \d+\.\d s", lines[2])
    assert len(lines) == 3


def test_a_chosen_wheel_that_dies_is_refused_and_nothing_is_compiled_behind_the_users_back(
    install: ModuleType, llama_wheel: ModuleType, tmp_path: Path
) -> None:
    chosen = llama_wheel.sources(ENTRY, {"LLAMA_CPP_WHEEL": str(wheel(tmp_path, DYING))}, AVX512)
    with pytest.raises(
        install.InstallError, match=r"SIGILL.*Choose another wheel, or compile: CMAKE_ARGS= make install"
    ):
        install.working_wheel(chosen, sys.executable)


# --- where a wheel is from --------------------------------------------------------------------------------------------


def test_a_tuned_build_comes_first_and_a_plain_one_after_it(llama_wheel: ModuleType) -> None:
    tuned, plain = llama_wheel.sources(ENTRY, {}, AVX512)
    assert "avx512f" in tuned.needs and "avx_vnni" in tuned.needs
    assert set(plain.needs) == {"sse4_2", "avx", "avx2", "bmi2", "fma", "f16c"}
    [only] = llama_wheel.sources(ENTRY, {"LLAMA_CPP_NATIVE": "off"}, AVX512)
    assert only.name == plain.name


def test_without_native_tuning_only_old_instruction_sets_are_used_and_only_those_that_the_cpu_has(
    llama_wheel: ModuleType,
) -> None:
    given = {"CMAKE_ARGS": "-DGGML_CUDA=on -DGGML_AVX_VNNI=ON", "CFLAGS": "-O2 -march=native -mfma4", "CXX": "clang++"}
    found = llama_wheel.portable(given, AVX512)
    assert found["CFLAGS"] == "-O2"
    assert found["CXX"] == "clang++"
    words = found["CMAKE_ARGS"].split()
    # CMake takes the last of two.
    assert words.index("-DGGML_AVX_VNNI=OFF") > words.index("-DGGML_AVX_VNNI=ON")
    assert {"-DGGML_CUDA=on", "-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_AVX512=OFF", "-DGGML_AMX_TILE=OFF"} <= set(
        words
    )
    assert {"-DGGML_SSE42=ON", "-DGGML_AVX=OFF", "-DGGML_AVX2=OFF", "-DGGML_FMA=OFF"} <= set(
        llama_wheel.portable({}, OLD)["CMAKE_ARGS"].split()
    )
    assert llama_wheel.portable({}, "fp asimd")["CMAKE_ARGS"] == "-DGGML_NATIVE=OFF"


def test_the_two_builds_have_wheels_of_their_own(llama_wheel: ModuleType) -> None:
    base = (ENTRY, "cp311", "x86_64", AVX512)
    assert llama_wheel.wheel_key(*base, {}) != llama_wheel.wheel_key(*base, llama_wheel.portable({}, AVX512))


def test_a_wheel_is_taken_from_a_path_and_from_an_index_of_the_users_choice(
    llama_wheel: ModuleType, tmp_path: Path
) -> None:
    made = wheel(tmp_path)
    [source] = llama_wheel.sources(ENTRY, {"LLAMA_CPP_WHEEL": str(made)}, AVX512)
    assert source.get().read_bytes() == made.read_bytes()
    page = tmp_path / "simple" / "llama-cpp-python"
    page.mkdir(parents=True)
    (page / "index.html").write_text(f'<a href="{made.as_uri()}">{made.name}</a>')
    [source] = llama_wheel.sources(ENTRY, {"LLAMA_CPP_INDEX": (tmp_path / "simple").as_uri()}, AVX512)
    assert source.get().read_bytes() == made.read_bytes()


def test_a_wheel_of_another_version_and_what_is_no_wheel_are_refused(llama_wheel: ModuleType, tmp_path: Path) -> None:
    def get(chosen: str) -> None:
        llama_wheel.sources(ENTRY, {"LLAMA_CPP_WHEEL": chosen}, AVX512)[0].get()

    with pytest.raises(llama_wheel.InstallError, match=r"ds4-lsp needs llama-cpp-python 0\.3\.36"):
        get(str(wheel(tmp_path, version="0.3.35")))
    for wrong in (tmp_path / "missing.whl", tmp_path):
        with pytest.raises(llama_wheel.InstallError, match="is no wheel"):
            get(str(wrong))


# --- when something is to be done -------------------------------------------------------------------------------------


@pytest.fixture
def record(install: ModuleType) -> build.Record:
    return build.Record("a build", ("avx2",), ("avx2", "fma"), install.inputs(), (("CMAKE_ARGS", "-DGGML_CUDA=on"),))


def test_what_is_installed_as_wanted_is_left_alone(install: ModuleType, record: build.Record) -> None:
    assert install.why(record, dict(record.choices), ("fma", "avx2")) is None


def test_another_cpu_other_inputs_another_choice_and_no_record_each_install_anew(
    install: ModuleType, record: build.Record
) -> None:
    choices = dict(record.choices)
    assert install.why(record, choices, ("avx2",)) == "what is installed is for another CPU: a build"
    assert install.why(record, {}, record.cpu) == ""
    assert install.why(dataclasses.replace(record, inputs="x"), choices, record.cpu) == ""
    assert install.why(None, choices, record.cpu) == ""


def test_a_choice_stands_until_another_is_made(install: ModuleType, record: build.Record) -> None:
    assert install.chosen({}, record) == {"CMAKE_ARGS": "-DGGML_CUDA=on"}
    assert install.chosen({"LLAMA_CPP_NATIVE": "off"}, record) == {"LLAMA_CPP_NATIVE": "off"}
    assert install.chosen({"CMAKE_ARGS": ""}, record) == {}
    assert install.chosen({}, None) == {}


def test_the_record_is_read_as_it_was_written_and_a_damaged_one_is_none(tmp_path: Path, record: build.Record) -> None:
    build.write(tmp_path, record)
    assert build.read(tmp_path) == record
    (tmp_path / build.RECORD).write_text("[]")
    assert build.read(tmp_path) is None
    assert build.read(tmp_path / "none") is None


def test_only_instruction_sets_that_the_build_may_use_can_be_missing(record: build.Record) -> None:
    assert build.missing(record, ("avx2",)) == ()
    assert build.missing(record, ("fma",)) == ("avx2",)
    assert build.missing(None, ()) == ()
    assert build.instruction_sets(AVX512) == tuple(word for word in AVX512.split() if word not in ("ht", "amx_tile"))
    assert build.instruction_sets("fp asimd") == ("fp", "asimd")


# --- what is shown ----------------------------------------------------------------------------------------------------

COMPILES = """
import sys
from pathlib import Path
sys.path.insert(0, {scripts!r})
from stages import run_logged, stage
import re
with stage("compiling") as progress:
    def on_line(line):
        if done := re.search(r"\\[\\d+/\\d+\\]", line):
            progress(done.group())
    run_logged([sys.executable, "-c", "print('[1/2] Building x'); print('[2/2] Linking y')"], Path({log!r}), on_line)
"""


def test_a_stage_is_one_line_with_its_time_and_on_a_terminal_it_shows_how_far_it_is(tmp_path: Path) -> None:
    code = COMPILES.format(scripts=str(ROOT / "scripts"), log=str(tmp_path / "log"))
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"compiling \.\.\. \d+\.\d s\n", quiet)
    assert "[1/2] Building x" in (tmp_path / "log").read_text()
    main, other = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stdout=other, check=True)
    os.close(other)
    shown = os.read(main, 4096).decode()
    os.close(main)
    assert "compiling [1/2]" in shown and "compiling [2/2]" in shown
    assert re.search(r"compiling \.\.\. \d+\.\d s\r\n$", shown)


def test_a_command_that_fails_is_told_with_its_last_lines_and_its_log(install: ModuleType, tmp_path: Path) -> None:
    run_logged = importlib.import_module("stages").run_logged
    with pytest.raises(install.InstallError, match=r"status 3; its log is .*/log, and ends with\n  no such header$"):
        run_logged([sys.executable, "-c", "print('no such header'); exit(3)"], tmp_path / "log", lambda _line: None)
