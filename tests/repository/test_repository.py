"""Rules about the repository's own files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Written in pieces, so that this file does not hold what it looks for.
MACHINE_PATHS = ("/wor" + "k/", "/roo" + "t/", "/far" + "m/")
REGISTRY_HOSTS = ("pypi" + r"\.org", "pythonhosted" + r"\.org", "registry" + r"\.npmjs", "deb" + r"\.debian")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def lines_with(pattern: str) -> list[str]:
    found = []
    for path in tracked():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if re.search(pattern, line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    return found


def test_no_file_names_a_path_of_someones_machine() -> None:
    assert lines_with(r"(^|[^A-Za-z0-9_.])(" + "|".join(MACHINE_PATHS) + ")") == []


def test_no_file_names_a_package_registrys_host() -> None:
    assert lines_with("|".join(REGISTRY_HOSTS)) == []


def test_every_client_knows_the_same_slash_words() -> None:
    from ds4_lsp.agent.slash import WORDS

    lua = (ROOT / "editors" / "neovim" / "lua" / "ds4" / "slash.lua").read_text()
    listed = re.findall(r"^  '([a-z]+)',$", lua, re.MULTILINE)
    assert listed == [word.name for word in WORDS]


def test_the_changelog_has_an_entry_for_this_version() -> None:
    from ds4_lsp import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
