"""What is said of a death: three lines, the cause, one thing to do."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import pytest

from ds4_lsp.engine.death import AGAIN, CRASH, ENOUGH, Deaths, Line, Planned, diagnose, last_error

PLANNED = Planned(
    name="Model",
    path="/models/m.gguf",
    size=2**30,
    mtime_ns=5,
    context_size=32768,
    kv_type="f16",
    gpu=False,
    layers=29,
    gpu_layers=0,
    weights=2**30,
    kv=2**29,
    compute=2**28,
)
LOG: list[Line] = [("I", "fine"), ("E", "decode: failed"), ("I", "bye"), ("", f"{CRASH}: Aborted"), ("", "File x")]


@pytest.mark.parametrize("number", [*signal.Signals, 0, -1], ids=str)
@pytest.mark.parametrize("planned", [PLANNED, None], ids=["planned", "unplanned"])
def test_every_death_is_told_in_three_lines_with_its_log(number: int, planned: Planned | None) -> None:
    death = dataclasses.replace(diagnose(-number, LOG, planned), log=Path("/var/log/x"))
    for then in (AGAIN, ENOUGH):
        lines = death.message(then).splitlines()
        assert 2 <= len(lines) <= 3
        assert lines[-1] == f"{then} Its log: /var/log/x"


def test_short_memory_is_told_with_what_was_needed_and_the_settings_that_lower_it() -> None:
    death = diagnose(-9, LOG, PLANNED, memory_ran_out=True)
    assert "Model needs about 1.8 GiB (model 1.0 GiB, context of 32768 tokens 512 MiB" in death.what
    assert "ds4.model.contextSize" in death.remedy
    assert "ds4.model.kvCacheType" in death.remedy
    assert "gpuLayers" not in death.remedy
    assert "gpuLayers" in diagnose(-9, LOG, dataclasses.replace(PLANNED, gpu=True), memory_ran_out=True).remedy
    assert "kvCacheType" not in diagnose(-9, LOG, dataclasses.replace(PLANNED, kv_type="q8_0")).remedy


def test_a_kill_while_memory_was_not_short_does_not_blame_it() -> None:
    death = diagnose(-9, LOG, PLANNED, memory_ran_out=False)
    assert (death.what, death.remedy) == ("The engine was ended by SIGKILL: decode: failed", "")


@pytest.mark.parametrize("line", ["CUDA error: out of memory", "what():  std::bad_alloc", "failed to allocate buffer"])
def test_an_abort_for_want_of_memory_is_told_as_such(line: str) -> None:
    death = diagnose(-6, [("", line), *LOG[3:]], PLANNED)
    assert death.reason == "memory"
    assert line in death.what


def test_a_model_file_that_changed_is_told_from_a_disk_that_fails() -> None:
    def what(file_now: tuple[int, int] | None) -> str:
        return diagnose(-signal.SIGBUS, LOG, PLANNED, file_now=file_now).what

    assert what((10, 5)).endswith(
        "m.gguf was changed while it was in use (1073741824 bytes when it was loaded, 10 now)."
    )
    assert what((2**30, 6)).endswith("was changed while it was in use.")
    assert what((2**30, 5)).endswith("is on a disk that fails.")
    assert what(None).endswith("is gone.")


@pytest.mark.parametrize(
    "lines, found",
    [
        (LOG, "decode: failed"),
        ([("", "GGML_ASSERT(x) failed"), ("I", "later"), *LOG[3:]], "GGML_ASSERT(x) failed"),
        ([("I", "a"), ("W", "careful"), ("I", "b")], "careful"),
        ([("", f"{CRASH}: Aborted"), ("E", "not this")], ""),
    ],
)
def test_the_last_error_is_what_was_said_before_the_stacks(lines: list[Line], found: str) -> None:
    assert last_error(lines) == found


def test_two_deaths_that_differ_in_numbers_alone_are_of_one_cause() -> None:
    reasons = {diagnose(-6, [("E", f"no block of {size} at 0x7f{size}")], None).reason for size in (17, 4242)}
    assert len(reasons) == 1
    assert diagnose(-11, LOG, None).reason != diagnose(-6, LOG, None).reason


def test_only_the_second_in_a_row_keeps_a_model_from_loading_and_only_as_long_as_all_is_the_same() -> None:
    deaths = Deaths()
    aborted, killed = diagnose(-6, LOG, PLANNED), diagnose(-9, LOG, PLANNED)
    assert AGAIN in deaths.note(aborted, "same")
    assert deaths.refusal("same") is None
    assert ENOUGH in deaths.note(aborted, "same")
    refused = deaths.refusal("same")
    assert refused is not None and aborted.what in refused
    assert deaths.refusal("other") is None
    assert AGAIN in deaths.note(killed, "same")
    assert deaths.refusal("same") is None
    deaths.forget()
    assert AGAIN in deaths.note(killed, "same")
