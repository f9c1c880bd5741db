"""The self-test of a build: it passes on a right one, and on nothing else."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ds4_lsp.engine import selftest

TYPES = {"F16", "Q8_0", "Q4_0", "Q4_K"}
BATCHES = (1, 8, 64, 512)

HOOK = """
import llama_cpp.llama_cpp as C
{body}
"""
ILLEGAL = """
from ds4_lsp.engine.fault import Faults
decode, fault = C.llama_decode, Faults("prefill:ill@{passage}", None)
def dying(*arguments):
    fault.hit("prefill")
    return decode(*arguments)
C.llama_decode = dying
"""
WRONG = """
import ctypes
real = C.llama_get_logits_ith
def wrong(*arguments):
    logits = real(*arguments)
    for index in range(64):
        logits[index] = {value}
    return logits
C.llama_get_logits_ith = wrong
"""

Hooked = Callable[[str], selftest.Outcome]


@pytest.fixture
def hooked(tmp_path: Path) -> Hooked:
    """Runs the self-test with an import hook that changes llama_cpp right after it is loaded."""

    def run(body: str) -> selftest.Outcome:
        spec = importlib.util.find_spec("llama_cpp")
        assert spec is not None and spec.origin is not None
        package = tmp_path / "llama_cpp"
        package.mkdir()
        real = Path(spec.origin).parent
        (package / "__init__.py").write_text(f"__path__.append({str(real)!r})\n" + HOOK.format(body=body))
        root = str(Path(selftest.__file__).parents[2])
        return selftest.run(sys.executable, {"PYTHONPATH": f"{tmp_path}:{root}"})

    return run


def test_the_installed_build_computes_what_numpy_computes_in_every_type() -> None:
    outcome = selftest.run(sys.executable)
    assert outcome.problem is None
    assert set(outcome.errors) == TYPES
    assert outcome.errors["F16"] < 0.01
    assert max(outcome.errors.values()) < 0.06


def test_every_type_is_evaluated_in_batches_of_every_size() -> None:
    done = subprocess.run([sys.executable, "-P", selftest.CHILD], capture_output=True, text=True, check=True, cwd="/")
    batches = set(re.findall(r'"a batch of (\d+) in (\w+)"', done.stdout))
    assert batches == {(str(size), name) for name in TYPES for size in BATCHES}


def test_a_build_that_meets_an_illegal_instruction_is_told_with_the_step(hooked: Hooked) -> None:
    # Two calls for each of four batches: the eleventh call is the second batch of the second type.
    outcome = hooked(ILLEGAL.format(passage=11))
    assert outcome.died == "SIGILL"
    assert outcome.problem == ("dies of an illegal instruction (SIGILL), at this step: a batch of 8 in Q8_0")


@pytest.mark.parametrize("value", ["3.0", "float('nan')", "-logits[index]"])
def test_a_build_that_computes_wrongly_is_caught(hooked: Hooked, value: str) -> None:
    outcome = hooked(WRONG.format(value=value))
    assert outcome.problem is not None
    assert outcome.problem.startswith("computes wrongly: a batch of 1 in F16")


def test_a_build_that_cannot_be_imported_is_told_with_the_reason(hooked: Hooked) -> None:
    outcome = hooked("raise ImportError('libcuda.so.1: no such file')")
    assert outcome.problem == "does not start: ImportError: libcuda.so.1: no such file"


def test_a_build_that_hangs_is_ended(tmp_path: Path) -> None:
    package = tmp_path / "llama_cpp"
    package.mkdir()
    (package / "__init__.py").write_text("import time\ntime.sleep(3600)\n")
    outcome = selftest.run(sys.executable, {"PYTHONPATH": str(tmp_path)}, timeout=1.0)
    assert outcome.problem is not None and outcome.problem.startswith("did not come to an end in 1 s")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    assert selftest.run(sys.executable, {"TMPDIR": str(tmp_path)}).problem is None
    assert list(tmp_path.iterdir()) == []
    missing = shutil.which("no-such-python") or str(tmp_path / "no-such-python")
    assert "cannot be started" in (selftest.run(missing).problem or "")
