"""The runner on the real server: what is solved, damaged, cut or refused is told apart. Replies are scripted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rig import call

from evals.__main__ import main, place
from evals.results import Result, read
from evals.runner import said

CHANGE = call("bash", command="sed -i 's/MAX_RETRIES = 3/MAX_RETRIES = 5/' limits.py")
SPOIL = call("bash", command="sed -i 's/.*/x/' limits.py; echo hi > stray.txt")
LOST = call("read", path="nowhere/at-all.py")


@pytest.fixture
def run(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run jobs with these replies; their results, in order."""

    def evaluate(*replies: str, only: str, options: tuple[str, ...] = ()) -> list[Result]:
        script = tmp_path / "script.jsonl"
        script.write_text("".join(json.dumps({"purpose": "turn", "text": reply}) + "\n" for reply in replies))
        monkeypatch.setenv("DS4_LSP_SCRIPT", str(script))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        out = tmp_path / "run.json"
        kept = ["--transcripts", str(tmp_path / "kept"), "--json", str(out)]
        assert main(["--model", str(tiny_model), "--only", only, *kept, *options]) == 0
        return read(out).results

    return evaluate


def test_a_claim_without_a_change_is_not_solved(run: Any) -> None:
    (result,) = run("Changed.", only="raise-limit")
    assert (result.solved, result.calls, result.rounds, result.damage) == (False, 0, 1, [])
    assert "prints '3 100 True'" in result.why


def test_only_what_the_model_says_answers() -> None:
    assert said("Changed.\n\n[Nothing was changed.]", ["[Nothing was changed.]"]) == "Changed."


def test_a_seed_gives_other_names_and_repeat_runs_each(run: Any) -> None:
    results = run("45", "45", "45", only="default-timeout", options=("--repeat", "3"))
    assert [result.seed for result in results] == [0, 1, 2]
    assert results[0].solved


def test_a_solved_job_counts_its_rounds_calls_and_tokens(run: Any, tmp_path: Path) -> None:
    (result,) = run(LOST, CHANGE, "Changed.", only="raise-limit")
    assert (result.solved, result.why, result.damage, result.ended) == (True, "", [], "end")
    assert (result.rounds, result.calls, result.failed) == (3, 2, 1)
    assert result.generated > 50 and result.evaluated > 50 and result.cached > 1000
    assert "MAX_RETRIES" in (tmp_path / "kept" / "edit-raise-limit.md").read_text()
    lines = (tmp_path / "kept" / "edit-raise-limit.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["type"] == "assistant/message" for line in lines) == 3


def test_damage_is_told_apart_from_what_is_solved(run: Any) -> None:
    (result,) = run(SPOIL, "Changed.", only="raise-limit")
    assert not result.solved
    assert result.damage == ["limits.py:1-6 were changed", "stray.txt was not asked for"]
    (result,) = run(CHANGE, call("bash", command="echo hi > stray.txt"), "Changed.", only="raise-limit")
    assert result.solved
    assert result.damage == ["stray.txt was not asked for"]


def test_a_job_ends_at_its_rounds_and_at_its_tokens(run: Any) -> None:
    (result,) = run(
        *(call("bash", command=f"echo {i}") for i in range(6)), only="raise-limit", options=("--rounds", "3")
    )
    assert (result.ended, result.solved) == ("rounds", False)
    assert result.calls >= 3
    (result,) = run(" ".join(map(str, range(100))), only="raise-limit", options=("--tokens", "50"))
    assert (result.ended, result.generated) == ("tokens", 50)


def test_a_command_that_leaves_the_folder_is_denied(run: Any, tmp_path: Path) -> None:
    (result,) = run(call("bash", command=f"echo hi > {tmp_path}/outside"), "Denied.", only="raise-limit")
    assert (result.calls, result.failed) == (1, 1)
    assert not (tmp_path / "outside").exists()


def test_a_run_is_compared_with_an_earlier_one_and_written_into_a_page(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("Changed.", only="raise-limit")
    old = tmp_path / "old.json"
    (tmp_path / "run.json").rename(old)
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- end of results -->\n\nThe rest.\n")
    told = ("--against", str(old), "--page", str(page))
    for _ in range(2):
        run(CHANGE, "Changed.", only="raise-limit", options=told)
        assert "edit raise-limit: now solved" in capsys.readouterr().out
    text = page.read_text()
    assert text.count("### tiny") == 1
    assert "| jobs solved | 0 of 1 | 1 of 1 |" in text
    assert "| edit | raise-limit | no | yes |" in text
    assert text.endswith("The rest.\n")


def test_a_run_beside_another_has_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with place() as first, place() as second:
        assert first != second
    with place() as again:
        assert again == first


def test_the_first_jobs_are_of_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--first", "8"]) == 0
    assert len({line.split()[0] for line in capsys.readouterr().out.splitlines()}) == 8


def test_what_cannot_be_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", str(tmp_path / "none.gguf")]) == 1
    assert main(["--only", "no-such-job"]) == 1
    assert main(["--against", str(tmp_path / "none.json")]) == 1
    told = capsys.readouterr().err
    assert "none.gguf" in told and "no-such-job" in told and "none.json" in told
