"""The fault seam itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ds4_lsp.engine.fault import Faults


@pytest.fixture
def fired(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    signals: list[int] = []
    monkeypatch.setattr("os.kill", lambda _pid, number: signals.append(int(number)))
    return signals


def test_only_the_named_point_fires_and_only_at_its_passage(fired: list[int]) -> None:
    faults = Faults("decode:kill@3", None)
    for point in ("decode", "prefill", "decode", "prefill"):
        faults.hit(point)
    assert fired == []
    faults.hit("decode")
    assert fired == [9]


def test_once_means_once_over_processes(fired: list[int], tmp_path: Path) -> None:
    for _ in range(2):
        Faults("load:abort", str(tmp_path / "once")).hit("load")
    assert fired == [6]


def test_nothing_fires_unless_asked(fired: list[int]) -> None:
    Faults(None, None).hit("load")
    assert fired == []


def test_an_unknown_signal_is_refused() -> None:
    with pytest.raises(ValueError, match="signal is one of"):
        Faults("load:sneeze", None)


def test_ill_is_an_instruction_and_no_signal_sent() -> None:
    code = "from ds4_lsp.engine.fault import Faults; import os; os.kill = None; Faults('load:ill', None).hit('load')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGILL
