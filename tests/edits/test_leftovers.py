import subprocess
import sys

import pytest

from ds4_lsp.edits import disk, leftovers
from ds4_lsp.edits.text import file_tag

DOOMED = """
import os, signal, sys
from pathlib import Path
from ds4_lsp.edits import leftovers
temporary = Path(sys.argv[1])
with leftovers.noted(temporary):
    temporary.write_text("half of it")
    print("written", flush=True)
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def writer(tmp_path):
    """A process in the middle of a write, and its temporary file."""
    temporary = tmp_path / ".ds4-0011223344556677.tmp"
    command = [sys.executable, "-c", DOOMED, str(temporary)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process, temporary
        process.kill()


def notes():
    return sorted(path.name for path in leftovers.directory().iterdir())


def test_what_a_killed_writer_left_is_cleared_and_what_a_living_one_writes_is_not(writer):
    process, temporary = writer
    assert leftovers.clear() == []
    assert temporary.exists()
    process.stdin.close()
    assert process.wait() == -9
    assert leftovers.clear() == [temporary]
    assert not temporary.exists()
    assert notes() == []
    assert leftovers.clear() == []


def test_a_write_leaves_no_note_whether_it_succeeds_or_not(tmp_path):
    path = tmp_path / "a"
    disk.write(path, "1\n", None)
    disk.write(path, "2\n", file_tag("1\n"))
    with pytest.raises(OSError, match="is left"), leftovers.noted(tmp_path / "c"):
        raise OSError("nothing is left")
    assert notes() == []


def test_only_the_file_that_a_note_was_made_of_is_removed(tmp_path):
    leftovers.directory().mkdir(parents=True)
    mine = tmp_path / "mine.txt"
    mine.write_text("mine\n")
    for name, content in (("note", str(mine)), ("mine.txt", "mine.txt"), ("empty", ""), ("half", str(tmp_path))):
        (leftovers.directory() / name).write_text(content)
    assert leftovers.clear() == []
    assert mine.read_text() == "mine\n"
    assert notes() == []


def test_without_a_place_for_notes_files_are_written_all_the_same(tmp_path):
    (tmp_path / "state").write_text("no folder")
    disk.write(tmp_path / "a", "1\n", None)
    assert leftovers.clear() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "state"]
