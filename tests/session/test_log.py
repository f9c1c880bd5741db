from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.protocol.errors import CorruptSession, Ds4Error, InvalidRequest, NotFound, StorageFailed
from ds4_lsp.session.events import APPEND, Event, Header
from ds4_lsp.session.log import EventLog
from ds4_lsp.session.reader import read_descriptor, read_file
from ds4_lsp.session.session import Session

HEADER = Header("0123456789abcdef", ("/w",), 1.0)


@pytest.fixture
def log(tmp_path: Path) -> Any:
    opened = EventLog.create(tmp_path, HEADER)
    yield opened
    opened.close()


def _fill(log: EventLog, count: int) -> None:
    for number in range(count):
        log.append("user/message", {"turn": 1, "text": f"äöü {number}", "kind": "prompt"}, surface_op=APPEND)


def _reopened(directory: Path) -> list[Event]:
    log = EventLog.open(directory)
    try:
        return list(log.events())
    finally:
        log.close()


def test_what_was_appended_is_read_back_with_contiguous_seqs(log: EventLog, tmp_path: Path) -> None:
    written = [log.append("user/message", {"n": (1, 2), 3: "x"}, surface_op=APPEND) for _ in range(5)]
    assert written[0].data == {"n": [1, 2], "3": "x"}
    assert list(log.events())[1:] == written
    log.close()
    events = _reopened(tmp_path)
    assert events[1:] == written
    assert [event.seq for event in events] == list(range(6))


def test_a_stream_shows_what_was_there_when_it_began(log: EventLog) -> None:
    _fill(log, 2)
    stream = log.events()
    next(stream)
    _fill(log, 2)
    assert [event.seq for event in stream] == [1, 2]
    assert len(list(log.events())) == 5


def test_opening_changes_no_byte_of_a_whole_log(log: EventLog, tmp_path: Path) -> None:
    _fill(log, 3)
    log.close()
    before = log.path.read_bytes()
    EventLog.open(tmp_path).close()
    assert log.path.read_bytes() == before
    assert not (tmp_path / "events.jsonl.torn").exists()


@pytest.mark.parametrize("torn", [b"{", b'{"seq":4,"type":"turn/end"', b"\0\0\0\0", b"\xff\xfe"])
def test_a_torn_last_line_is_kept_aside_and_the_log_goes_on(log: EventLog, tmp_path: Path, torn: bytes) -> None:
    _fill(log, 3)
    log.close()
    good = log.path.read_bytes()
    log.path.write_bytes(good + torn)
    again = EventLog.open(tmp_path)
    assert log.path.read_bytes() == good
    assert (tmp_path / "events.jsonl.torn").read_bytes() == torn + b"\n"
    assert again.append("turn/end", {"turn": 1}).seq == 4
    again.close()
    assert len(_reopened(tmp_path)) == 5


def test_a_last_event_that_lacks_only_its_line_feed_is_kept(log: EventLog, tmp_path: Path) -> None:
    _fill(log, 3)
    log.close()
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-1])
    assert len(_reopened(tmp_path)) == 4
    assert log.path.read_bytes() == whole


def test_whatever_the_last_line_feed_became_its_event_is_kept(log: EventLog, tmp_path: Path) -> None:
    _fill(log, 3)
    log.close()
    whole = log.path.read_bytes()
    for byte in range(256):
        log.path.write_bytes(whole[:-1] + bytes([byte]))
        assert len(list(read_file(tmp_path))) == 4
        assert len(_reopened(tmp_path)) == 4
        assert log.path.read_bytes() == whole
    assert not (tmp_path / "events.jsonl.torn").exists()


def test_without_a_checksum_to_prove_it_a_line_with_something_behind_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    data = b'{"format":1,"sessionId":"a","workspace":[],"createdAt":1}'
    header = b'{"seq":0,"type":"session/header","time":1,"data":%b}' % data
    turn = b'{"seq":1,"type":"turn/start","time":1,"data":{"turn":1}}'
    path.write_bytes(header + b"\n" + turn + b"\x0b")
    assert len(_reopened(tmp_path)) == 1
    assert (tmp_path / "events.jsonl.torn").read_bytes() == turn + b"\x0b\n"


@settings(deadline=None, max_examples=25)
@given(part=st.floats(0, 1), flip=st.integers(1, 255))
def test_a_flipped_byte_before_the_end_refuses_with_its_line_and_changes_nothing(
    part: float, flip: int, lawful: Any
) -> None:
    actions = [("turn", 1, "x"), ("reply", 2, "y"), ("result", 3, "z"), ("turn", 0, "")]
    with lawful.played(actions) as directory:
        path = directory / "events.jsonl"
        content = bytearray(path.read_bytes())
        position = int(part * (len(content) - 2))
        content[position] ^= flip
        path.write_bytes(content)
        line = path.read_bytes()[:position].count(b"\n") + 1
        files = sorted(item.name for item in directory.iterdir())
        with pytest.raises(CorruptSession) as refused:
            Session.open(directory)
        assert refused.value.data["line"] in (line, line + 1)
        assert path.read_bytes() == bytes(content)
        assert sorted(item.name for item in directory.iterdir()) == files


@settings(deadline=None, max_examples=25)
@given(data=st.data(), part=st.floats(0, 1))
def test_any_byte_prefix_opens_to_a_prefix_of_the_events_or_is_refused(
    data: st.DataObject, part: float, lawful: Any
) -> None:
    with lawful.played(data.draw(lawful.actions)) as directory:
        path = directory / "events.jsonl"
        original = list(read_file(directory))
        content = path.read_bytes()
        cut = int(part * len(content))
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        try:
            session = Session.open(directory)
        except CorruptSession:
            # Only a log that lacks its header has nothing to open.
            assert whole == 0
            assert path.read_bytes() == content[:cut]
            return
        events = list(session.events())
        kept = len(events) - len(session.recovered)
        session.close()
        assert kept in (whole, whole + 1)
        assert events[:kept] == original[:kept]
        assert [event.seq for event in events] == list(range(len(events)))


def test_a_log_without_checksums_is_read_and_continued_without_them(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    header = (
        '{"seq":0,"type":"session/header","time":1,"data":{"format":1,"sessionId":"a","workspace":[],"createdAt":1}}'
    )
    path.write_text(header + "\n")
    log = EventLog.open(tmp_path)
    log.append("turn/start", {"turn": 1})
    log.close()
    assert b"crc" not in path.read_bytes()
    assert len(_reopened(tmp_path)) == 2


def test_a_line_that_lost_its_checksum_is_damaged(log: EventLog, tmp_path: Path) -> None:
    _fill(log, 2)
    log.close()
    lines = log.path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][: lines[1].rindex(b',"crc"')] + b"}\n"
    log.path.write_bytes(b"".join(lines))
    with pytest.raises(CorruptSession, match="line 2 is damaged"):
        EventLog.open(tmp_path)


@pytest.mark.parametrize("position", [1, 2])
def test_a_newer_version_is_refused_with_that_reason(log: EventLog, tmp_path: Path, position: int) -> None:
    _fill(log, 1)
    log.append("later/thing", {}, ignorable=True)
    _fill(log, 1)
    log.close()
    assert len(_reopened(tmp_path)) == 4
    lines = log.path.read_text().splitlines(keepends=True)
    lines = [line[: line.rindex(',"crc"')] + "}\n" for line in lines]
    lines[0] = lines[0].replace('"format":1', '"format":99') if position == 1 else lines[0]
    lines[2] = lines[2].replace(',"ignorable":true', "")
    log.path.write_text("".join(lines))
    before = log.path.read_bytes()
    with pytest.raises(CorruptSession, match="written by a newer version"):
        EventLog.open(tmp_path)
    assert log.path.read_bytes() == before


def test_an_unknown_type_must_be_ignorable_to_be_written(log: EventLog) -> None:
    with pytest.raises(InvalidRequest):
        log.append("later/thing", {})
    with pytest.raises(InvalidRequest):
        log.append("turn/end", {}, surface_op=APPEND)
    with pytest.raises(InvalidRequest):
        log.append("user/message", {})
    nested: list[Any] = []
    for _ in range(200_000):
        nested = [nested]
    for unfit in (object(), nested, float("nan")):
        with pytest.raises(InvalidRequest):
            log.append("turn/end", {"x": unfit})
    with pytest.raises(InvalidRequest):
        log.append("turn/end", {}, sources=[1])
    assert log.next_seq == 1


def test_a_missing_log_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        EventLog.open(tmp_path)


def test_a_vanished_directory_is_said_and_the_events_can_still_be_read(log: EventLog, tmp_path: Path) -> None:
    _fill(log, 2)
    shutil.rmtree(tmp_path)
    with pytest.raises(StorageFailed, match="put it back"):
        _fill(log, 1)
    with pytest.raises(StorageFailed):
        log.sync()
    assert len(list(log.events())) == 3


def test_another_file_in_the_logs_place_is_not_written_to(log: EventLog) -> None:
    _fill(log, 1)
    log.path.unlink()
    log.path.write_bytes(b"mine")
    with pytest.raises(StorageFailed, match="another file took its place"):
        _fill(log, 1)
    assert log.path.read_bytes() == b"mine"


def test_a_log_that_another_wrote_to_is_neither_written_to_nor_cut(log: EventLog, tmp_path: Path) -> None:
    _fill(log, 2)
    other = EventLog.open(tmp_path)
    _fill(other, 3)
    other.sync()
    other.close()
    theirs = log.path.read_bytes()
    for write in (lambda: _fill(log, 1), log.sync, log.check_place):
        with pytest.raises(StorageFailed, match="changed by another program") as refused:
            write()
        assert "restart this server" in refused.value.message
    log.close()
    assert log.path.read_bytes() == theirs
    assert len(_reopened(tmp_path)) == 6


def test_a_log_that_another_cut_is_not_written_to(log: EventLog, tmp_path: Path) -> None:
    _fill(log, 2)
    lines = log.path.read_bytes().splitlines(keepends=True)
    os.truncate(log.path, len(b"".join(lines[:2])))
    with pytest.raises(StorageFailed, match="changed by another program"):
        _fill(log, 1)
    assert len(_reopened(tmp_path)) == 2


def test_a_line_that_grows_while_the_log_is_opened_is_another_writers_and_is_not_cut(
    log: EventLog, tmp_path: Path
) -> None:
    _fill(log, 2)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[:-5])
    events = read_descriptor(log._fd, len(whole), "log")
    with pytest.raises(StopIteration) as end:
        while True:
            next(events)
    tail = end.value.value
    assert tail.torn
    log.path.write_bytes(whole)
    with pytest.raises(StorageFailed, match="changed by another program"):
        EventLog(tmp_path, os.dup(log._fd), HEADER, tail, 2)._mend(tail)
    assert log.path.read_bytes() == whole
    assert not (tmp_path / "events.jsonl.torn").exists()


def test_a_directory_that_is_a_file_is_a_storage_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed):
        EventLog.create(tmp_path / "file", HEADER)
    with pytest.raises(Ds4Error):
        EventLog.open(tmp_path / "file")


def test_a_closed_log_refuses_to_be_written(log: EventLog) -> None:
    log.close()
    log.close()
    with pytest.raises(StorageFailed, match="closed"):
        _fill(log, 1)


def test_bytes_that_no_fsync_confirmed_are_written_again(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(log, 2)
    content = log.path.read_bytes()

    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(StorageFailed, match="Input/output error"):
            log.sync()
    rewritten: list[int] = []
    pwrite = os.pwrite

    def watch(fd: int, data: bytes, position: int) -> int:
        rewritten.append(len(data))
        return pwrite(fd, data, position)

    monkeypatch.setattr(os, "pwrite", watch)
    log.sync()
    assert sum(rewritten) == len(content) - len(content.splitlines(keepends=True)[0])
    assert log.path.read_bytes() == content


def test_opening_costs_calls_in_proportion_to_events(tmp_path: Path) -> None:
    def calls(count: int) -> int:
        directory = tmp_path / str(count)
        directory.mkdir()
        log = EventLog.create(directory, HEADER)
        for number in range(count):
            log.append("job/started", {"job": 1, "pid": number, "command": "c", "callId": "c1"})
        log.close()
        counted = 0

        def profile(frame: Any, event: str, argument: Any) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            EventLog.open(directory).close()
        finally:
            sys.setprofile(None)
        return counted

    assert calls(1600) < 4.2 * calls(400)
