from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ds4_lsp import __version__
from ds4_lsp.cli import main
from ds4_lsp.cli.catalogue import CATALOGUE


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from ds4_lsp.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_version_is_printed_without_loading_the_server() -> None:
    code = (
        "import sys; from ds4_lsp.cli.main import main; main(['--version']); "
        "print([name for name in ('pygls', 'llama_cpp', 'pydantic', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"ds4-lsp {__version__}\n[]\n"


@pytest.mark.parametrize("command", ["chat", "doctor", "model", "sessions"])
def test_each_command_explains_itself(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: ds4-lsp {command}")


@pytest.mark.parametrize(
    "arguments", [("--no-such-option",), ("no-such-command",), ("chat", "--no-such-option"), ("model",)], ids=" ".join
)
def test_a_wrong_option_is_named_and_exits_with_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: ds4-lsp" in done.stderr


@pytest.mark.parametrize(
    "given", [["--model", "smollm2-135m"], ["--model=smollm2-135m"]], ids=["two words", "one word"]
)
def test_the_server_is_told_the_path_of_a_model_of_the_catalogue(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = str(tmp_path / "ds4-lsp" / "models" / "smollm2-135m.gguf")
    monkeypatch.setenv("DS4_MODEL", "smollm2-135m")
    told = main._with_model_paths(["--stdio", *given])
    assert "=".join(told[1:]) == f"--model={path}"
    assert os.environ["DS4_MODEL"] == path


def test_the_catalogue_is_listed_with_sizes_and_licences(tmp_path: Path) -> None:
    done = run("model", "list", XDG_CACHE_HOME=str(tmp_path), COLUMNS="120")
    assert done.returncode == 0
    assert "qwen2.5-coder-1.5b *" in done.stdout
    assert "1.1 GB" in done.stdout
    assert str(tmp_path / "ds4-lsp" / "models") in done.stdout


def test_the_path_of_a_model_that_is_not_here_says_how_to_fetch_it(tmp_path: Path) -> None:
    done = run("model", "path", "smollm2-135m", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "ds4-lsp model fetch smollm2-135m" in done.stderr


def test_an_unknown_model_is_refused_with_the_names_that_exist() -> None:
    done = run("model", "fetch", "gpt-99")
    assert done.returncode == 1
    assert "no model is called gpt-99" in done.stderr
    assert "qwen2.5-coder-0.5b" in done.stderr


def test_a_fetched_models_path_alone_is_on_stdout(tmp_path: Path) -> None:
    [file] = CATALOGUE["smollm2-135m"].files(tmp_path / "ds4-lsp" / "models")
    file.parent.mkdir(parents=True)
    with file.open("wb") as sparse:
        sparse.truncate(CATALOGUE["smollm2-135m"].size)
    done = run("model", "path", "smollm2-135m", XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{file}\n")
