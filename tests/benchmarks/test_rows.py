"""Every group of rows, run for real on the smallest sizes, so that none of them can rot. Figures are not judged: only
counts are exact on any machine."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import counts, edits, latency, llama_server, log, restore, speed, start
from benchmarks.__main__ import groups, measure
from benchmarks.bare import Setup
from benchmarks.measure import Row
from benchmarks.report import table, verdict
from benchmarks.sizes import TINY


@pytest.fixture
def no_peer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DS4_LLAMA_SERVER", raising=False)
    monkeypatch.setattr(llama_server, "home", lambda: tmp_path / "nothing")


async def test_a_tool_loop_and_a_compaction_evaluate_exactly_what_they_must(setup: Setup) -> None:
    rows = await counts.rows(setup, TINY)
    assert [row.met for row in rows] == [True, True], table(rows)


@pytest.mark.usefixtures("no_peer")
async def test_without_its_peer_the_speed_rows_say_so_and_measure_the_rest(setup: Setup) -> None:
    rows = await speed.rows(setup, TINY)
    assert [row.missing for row in rows] == [False, True, False, True, True, False, False]
    assert all(len(rows[at].figures["ours"]) == TINY.rounds for at in (0, 2, 4))
    assert all("make bench-server" in row.value for row in rows if row.missing)
    assert rows[5].figures["tokens"] > 0


async def test_with_its_peer_every_speed_row_is_measured(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS4_LLAMA_SERVER", str(Path(__file__).with_name("peer.py")))
    rows = await speed.rows(setup, TINY)
    assert not any(row.missing for row in rows)
    assert all(verdict(row) is not None for row in rows[:-1])
    assert rows[-1].figures["processor"] > 0
    assert len(rows[4].figures["theirs"]) == TINY.rounds


def test_a_peer_that_is_named_and_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS4_LLAMA_SERVER", "/nowhere/llama-server")
    with pytest.raises(SystemExit, match="is no program"):
        llama_server.find()


async def test_latency_and_cancels_are_measured_in_every_phase_and_plotted(setup: Setup, tmp_path: Path) -> None:
    rows = await latency.rows(setup, TINY, tmp_path)
    assert [len(row.figures["milliseconds"]) >= 1 for row in rows] == [True] * 5
    assert all(len(row.figures["milliseconds"]) >= TINY.probes for row in rows[:3])
    assert ElementTree.parse(tmp_path / "latency.svg").getroot().findall("{*}polyline")


async def test_start_and_memory_are_measured_against_a_bare_server(setup: Setup) -> None:
    [start_row, _, memory] = await start.rows(setup, TINY)
    assert len(start_row.figures["theirs"]) == TINY.starts
    assert memory.figures["engine"] > memory.figures["llama"] > 0
    assert memory.figures["server"] > 0


def test_logs_are_opened_as_a_starting_server_does_and_plotted(tmp_path: Path) -> None:
    rows = log.rows(TINY.events, rounds=1, plots=tmp_path)
    assert [row.what.split(",")[0] for row in rows] == ["append", "open"] * len(TINY.events)
    assert all(row.figures["seconds"] > 0 for row in rows[1::2])
    assert ElementTree.parse(tmp_path / "open.svg").getroot().findall("{*}circle")


async def test_a_restore_is_compared_with_a_prefill(setup: Setup) -> None:
    [row] = await restore.compare(setup.model, TINY.restored, TINY.restores)
    assert len(row.figures["quotients"]) == TINY.restores
    assert row.figures["quotients"][0] > 0


def test_edits_are_compared_with_a_checksum() -> None:
    rows = edits.rows(TINY.edits, TINY.lines)
    assert rows
    assert all(verdict(row) is not None for row in rows)


def test_the_command_line_runs_the_named_groups_and_refuses_others(setup: Setup) -> None:
    made: list[str] = []

    def group(name: str) -> list[Row]:
        made.append(name)
        return [Row(name, "")]

    named = {name: lambda name=name: group(name) for name in groups(setup, setup, TINY, None)}
    assert [row.what for row in measure(named, ["log", "edits"])] == ["log", "edits"] == made
    with pytest.raises(SystemExit, match="there is no nonsense"):
        measure(named, ["nonsense"])
    assert [row.what for row in measure(named, [])] == list(named)
