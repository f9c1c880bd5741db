"""What the settings refuse by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ds4_lsp.protocol.schema import settings_fields
from ds4_lsp.protocol.settings import SessionSettings, Settings


def refused(key: str, value: Any) -> str:
    section, _, name = key.rpartition(".")
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({section: {name: value}} if section else {name: value})
    return str(caught.value)


@pytest.mark.parametrize("directory", ["~nosuchuser/x", "~a\0b/x", "/a\0b", "/\ud800", "sessions", "~\ud800"])
def test_a_directory_that_cannot_exist_is_refused_where_it_is_read(directory: str) -> None:
    assert "directory" in refused("sessions.directory", directory)


def test_a_directory_is_used_with_its_home_folder_found() -> None:
    assert SessionSettings(directory="~/s").base == Path.home() / "s"
    assert SessionSettings(directory="/var/s").base == Path("/var/s")
    assert SessionSettings().base is None


@pytest.mark.parametrize(
    ("key", "most"), [("model.threads", 512), ("model.gpuLayers", 100_000), ("model.contextSize", 2**31 - 1)]
)
def test_a_number_that_llama_cpp_cannot_take_is_refused(key: str, most: int) -> None:
    for value in (most + 1, 2**31, 2**63, 10**12, 10**30):
        assert "less than or equal" in refused(key, value)
    section, name = key.split(".")
    assert Settings.model_validate({section: {name: most}})


@pytest.mark.parametrize(
    "key", [key for key, info in settings_fields(Settings) if info.annotation in (str, str | None)]
)
def test_text_that_is_no_unicode_is_refused_in_every_setting(key: str) -> None:
    assert "unicode" in refused(key, "/a\ud800b")


@pytest.mark.parametrize("key", ["model.rpcServers", "permissions.bashAllow"])
def test_text_that_is_no_unicode_is_refused_within_lists(key: str) -> None:
    assert "unicode" in refused(key, ["fine", "a\ud800b"])
