from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.session.events import APPEND, Damaged, Event, Header, Newer, decode, encode, replace

_TEXT = st.text(st.characters(), max_size=20)  # lone surrogates included
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_DATA = st.dictionaries(_TEXT, _JSON, max_size=4)


@settings(deadline=None)
@given(_DATA, st.integers(1, 10**6), st.booleans())
def test_any_json_data_survives_the_way_to_a_line_and_back(data: dict[str, Any], seq: int, ignorable: bool) -> None:
    event = Event(seq, "user/message", 1.5, data, APPEND, (0, seq - 1), ignorable)
    line = encode(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line[:-1], seq) == event


@settings(deadline=None)
@given(_DATA, st.data())
def test_no_changed_byte_in_a_line_goes_unnoticed(data: dict[str, Any], draw: st.DataObject) -> None:
    line = bytearray(encode(Event(7, "turn/end", 1.5, data))[:-1])
    position = draw.draw(st.integers(0, len(line) - 1))
    line[position] ^= draw.draw(st.integers(1, 255))
    # A lone line without any checksum is legal, and a log is not: see the log's test for that.
    if b'"crc"' in line or position < len(line) - 18:
        with pytest.raises((Damaged, Newer)):
            decode(bytes(line), 7)


@pytest.mark.parametrize("data", [{"x": float("nan")}, {"x": object()}, {"x": b""}])
def test_what_is_not_json_is_refused_when_it_is_written(data: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(Event(1, "turn/end", 1.0, data))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "not JSON"),
        (b"[]", "not an object"),
        (b'{"seq":2,"type":"turn/end","time":1,"data":{}}', "seq"),
        (b'{"seq":true,"type":"turn/end","time":1,"data":{}}', "seq"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":[]}', "garbled"),
        (b'{"seq":1,"type":"turn/end","time":"now","data":{}}', "garbled"),
        (b'{"seq":1,"type":"turn/end","time":NaN,"data":{}}', "garbled"),
        (b'{"seq":1,"type":"turn/end","time":1e300,"data":{}}', "garbled"),
        (b'{"seq":1,"type":"turn/end","time":true,"data":{}}', "garbled"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":{"a":' + b"[" * 200_000, "not JSON"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":{},"surfaceOp":{"op":"append"}}', "carries a surfaceOp"),
        (b'{"seq":1,"type":"user/message","time":1,"data":{}}', "lacks its surfaceOp"),
        (b'{"seq":1,"type":"user/message","time":1,"data":{},"surfaceOp":{"op":"replace","start":2,"end":1}}', "garb"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":{},"sourceEventSeqs":[1]}', "earlier events"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":{},"sourceEventSeqs":"0"}', "earlier events"),
        (b'{"seq":1,"type":"session/header","time":1,"data":{}}', "header"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":{},"extra":1}', "unknown members"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":{},"crc":"00000000"}', "checksum"),
        (b'{"seq":1,"type":"turn/end","time":1,"data":{},"crc":"XYZ"}', "checksum"),
    ],
)
def test_a_line_that_breaks_a_rule_is_damaged(line: bytes, complaint: str) -> None:
    with pytest.raises(Damaged, match=complaint):
        decode(line, 1)


def test_an_unknown_type_is_newer_unless_it_may_be_ignored() -> None:
    line = b'{"seq":1,"type":"later/thing","time":1,"data":{}}'
    with pytest.raises(Newer, match="later/thing"):
        decode(line, 1)
    assert decode(line[:-1] + b',"ignorable":true}', 1).ignorable


def test_a_header_survives_and_a_later_format_is_newer() -> None:
    header = Header("ab", ("/w",), 2.0, "title", ("cd", 7))
    event = Event(0, "session/header", 2.0, header.to_data())
    assert Header.from_event(event) == header
    with pytest.raises(Newer):
        Header.from_event(Event(0, "session/header", 2.0, {**header.to_data(), "format": 2}))
    garbled: dict[str, list[Any]] = {
        "sessionId": [None, 1],
        "workspace": [None, "/w", [1], {}],
        "createdAt": [None, "1", True, float("nan"), float("inf"), 10**400],
        "title": [1, ["x"]],
        "parent": [[], "cd", {"sessionId": "cd"}, {"sessionId": "cd", "seq": -1}, {"sessionId": 1, "seq": 1}],
        "format": [None, "1"],
    }
    for name, values in garbled.items():
        for value in values:
            with pytest.raises(Damaged):
                Header.from_event(Event(0, "session/header", 2.0, {**header.to_data(), name: value}))


def test_a_replacement_names_an_inclusive_span() -> None:
    assert replace(1, 2) == {"op": "replace", "start": 1, "end": 2}
