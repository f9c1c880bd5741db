import os
import socket
import subprocess
import sys

import pytest

from ds4_lsp.edits import disk
from ds4_lsp.edits.text import Encoding, Text, encode, file_tag
from ds4_lsp.protocol.errors import InvalidRequest, NotApplied, NotFound, StaleFileTag

ENCODINGS = [
    Encoding(),
    Encoding("utf-8", True),
    Encoding("utf-16-le", True),
    Encoding("utf-16-be", True),
]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_write_keeps_encoding_mark_endings_and_mode(tmp_path, encoding):
    path = tmp_path / "a"
    path.write_bytes(encode("1\r\né", encoding))
    path.chmod(0o640)
    disk.write(path, "2\r\n😀\rx", file_tag("1\r\né"))
    assert disk.read(path) == Text("2\r\n😀\rx", encoding)
    assert path.stat().st_mode & 0o7777 == 0o640
    assert names(tmp_path) == ["a"]


def test_the_target_of_a_symlink_is_written_and_the_link_stays(tmp_path):
    target = tmp_path / "real" / "a"
    target.parent.mkdir()
    target.write_text("1\n")
    link = tmp_path / "link"
    link.symlink_to("real/a")
    disk.write(link, "2\n", file_tag("1\n"))
    assert target.read_text() == "2\n"
    assert link.is_symlink()


def test_a_text_that_changed_on_disk_is_not_overwritten(tmp_path):
    path = tmp_path / "a"
    path.write_text("typed\n")
    with pytest.raises(StaleFileTag, match="changed on disk"):
        disk.write(path, "2\n", file_tag("1\n"))
    with pytest.raises(StaleFileTag, match="exists already"):
        disk.write(path, "2\n", None)
    with pytest.raises(NotFound):
        disk.write(tmp_path / "none", "2\n", file_tag("1\n"))
    assert path.read_text() == "typed\n"
    assert names(tmp_path) == ["a"]


def test_a_new_file_is_made_with_its_folders_and_the_users_mask(tmp_path):
    path = tmp_path / "x/y/a"
    mask = os.umask(0o027)
    try:
        disk.write(path, "é\n", None)
    finally:
        os.umask(mask)
    assert path.read_bytes() == "é\n".encode()
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotApplied, match="could not be written"):
        disk.write(tmp_path / "file" / "a", "x", None)
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        disk.write(tmp_path / "b", "\ud800", None)
    assert names(tmp_path) == ["file"]


def test_only_regular_files_below_the_limit_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    server.close()
    with (tmp_path / "big").open("wb") as file:
        file.truncate(disk.SIZE_LIMIT)
    for name, reason in {
        tmp_path: "is a directory",
        tmp_path / "pipe": "is a pipe",
        tmp_path / "socket": "is a socket",
        "/dev/zero": "is a device",
        tmp_path / "big": "too large .50,000,000 bytes; the limit is 50,000,000",
        tmp_path / ("x" * 300): "cannot be read",
        tmp_path / "pipe" / "x": "cannot be read",
    }.items():
        with pytest.raises(InvalidRequest, match=reason):
            disk.read(tmp_path / name)


def test_a_file_just_below_the_limit_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "SIZE_LIMIT", 11)
    (tmp_path / "a").write_text("0123456789")
    assert disk.read(tmp_path / "a").text == "0123456789"
    (tmp_path / "a").write_text("01234567890")
    with pytest.raises(InvalidRequest, match="too large"):
        disk.read(tmp_path / "a")


WRITER = """
import sys
from pathlib import Path
from ds4_lsp.edits import disk
from ds4_lsp.edits.text import file_tag
texts = ["a" * 3_000_000, "b" * 3_000_000]
tags = [file_tag(text) for text in texts]
path = Path(sys.argv[1])
turn = 0
while True:
    disk.write(path, texts[1 - turn], tags[turn])
    turn = 1 - turn
    print(turn, flush=True)
"""


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one_whole(tmp_path, writes):
    path = tmp_path / "a"
    path.write_text("a" * 3_000_000)
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    with process:
        for _ in range(writes):
            process.stdout.readline()
        # It is somewhere in its next write.
        process.kill()
    assert path.read_text() in ("a" * 3_000_000, "b" * 3_000_000)


def test_what_another_program_saves_while_the_new_text_is_written_is_not_overwritten(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("1\n")
    flush = os.fsync

    def slow(descriptor):
        path.write_text("typed\n")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(StaleFileTag, match="changed on disk"):
        disk.write(path, "2\n", file_tag("1\n"))
    assert path.read_text() == "typed\n"
    assert names(tmp_path) == ["a"]


def test_a_file_with_the_longest_name_can_be_written(tmp_path):
    path = tmp_path / ("語" * 85)
    disk.write(path, "1\n", None)
    disk.write(path, "2\n", file_tag("1\n"))
    assert path.read_text() == "2\n"


def test_a_file_that_nobody_may_write_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_text("1\n")
    path.chmod(0o444)
    with pytest.raises(NotApplied, match=r"read-only \(mode 0444\)"):
        disk.write(path, "2\n", file_tag("1\n"))
    assert (path.read_text(), names(tmp_path)) == ("1\n", ["a"])


def test_no_file_is_made_that_would_be_too_large_to_read(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "SIZE_LIMIT", 20)
    path = tmp_path / "a"
    path.write_bytes("1\n".encode("utf-16"))
    for to, before in ((path, file_tag("1\n")), (tmp_path / "b", None)):
        with pytest.raises(InvalidRequest, match="too large"):
            disk.write(to, "x" * 20, before)
    # Ten characters are 22 bytes here.
    with pytest.raises(InvalidRequest, match="too large"):
        disk.write(path, "x" * 10, file_tag("1\n"))
    assert names(tmp_path) == ["a"]
    assert disk.read(path).text == "1\n"


def test_a_file_that_is_not_its_owners_any_more_runs_as_nobody(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("1\n")
    path.chmod(0o6755)
    disk.write(path, "2\n", file_tag("1\n"))
    assert path.stat().st_mode & 0o7777 == 0o6755

    def forbidden(*_arguments):
        raise PermissionError

    # As for anybody but the superuser, whose file it then is.
    monkeypatch.setattr(os, "fchown", forbidden)
    found = os.fstat

    def foreign(descriptor):
        status = list(found(descriptor))
        status[4] += 1
        return os.stat_result(status)

    monkeypatch.setattr(disk.os, "fstat", foreign)
    disk.write(path, "3\n", file_tag("2\n"))
    assert path.stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("when", ["new", "old"])
def test_a_folder_that_becomes_a_link_while_the_text_is_written_leads_nowhere(tmp_path, monkeypatch, when):
    folder, outside = tmp_path / "d", tmp_path / "outside"
    for place in (folder, outside):
        place.mkdir()
        if when == "old":
            (place / "a").write_text("1\n")
    flush = os.fsync

    def swapped(descriptor):
        flush(descriptor)
        if not folder.is_symlink():
            folder.rename(tmp_path / "moved")
            folder.symlink_to(outside, target_is_directory=True)

    monkeypatch.setattr(os, "fsync", swapped)
    with pytest.raises(NotApplied, match="somewhere else"):
        disk.write(folder / "a", "2\n", None if when == "new" else file_tag("1\n"))
    assert names(outside) == ([] if when == "new" else ["a"])
    assert when == "new" or (outside / "a").read_text() == "1\n"


def test_a_file_is_removed_only_where_its_path_still_leads_to_it(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("1\n")
    (tmp_path / "d").symlink_to("outside", target_is_directory=True)
    with pytest.raises(NotApplied, match="somewhere else"):
        disk.remove(tmp_path / "d" / "a")
    disk.remove(tmp_path / "outside" / "a")
    assert names(tmp_path / "outside") == []
