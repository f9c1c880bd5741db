from __future__ import annotations

from pathlib import Path

import pytest

from ds4_lsp.protocol import schema
from ds4_lsp.protocol.commands import COMMANDS


def test_the_reference_pages_are_up_to_date() -> None:
    assert schema.stale() == []


def test_a_stale_or_missing_page_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "DOCS", tmp_path)
    assert set(schema.stale(tmp_path)) == set(schema.pages())
    for name, text in schema.pages().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert schema.stale(tmp_path) == []
    (tmp_path / "settings.md").write_text("old", encoding="utf-8")
    assert schema.stale(tmp_path) == ["settings.md"]


def test_every_command_has_both_schemas() -> None:
    found = schema.protocol_schema()
    assert set(found["commands"]) == set(COMMANDS)
    for entry in found["commands"].values():
        for side in ("arguments", "result"):
            name = entry[side]["$ref"].removeprefix("#/$defs/")
            assert found["$defs"][name]["type"] == "object"


def test_a_wrong_option_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema.main(["--chekc"]) == 2
    assert "usage" in capsys.readouterr().err
