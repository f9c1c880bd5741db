"""Session logs as a test sees them: plain JSON, read without the package's own reader, so that neither hides the
other's mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rig import Rig

Event = dict[str, Any]


def directory(rig: Rig, session_id: str) -> Path:
    [found] = (rig.state / "ds4-lsp" / "sessions").glob(f"*/{session_id}")
    return found


def log_path(rig: Rig, session_id: str) -> Path:
    return directory(rig, session_id) / "events.jsonl"


def parse(data: bytes) -> list[Event]:
    """The events of whole lines."""
    events = [json.loads(line) for line in data.split(b"\n")[:-1]]
    assert [event["seq"] for event in events] == list(range(len(events)))
    return events


def read(rig: Rig, session_id: str) -> list[Event]:
    return parse(log_path(rig, session_id).read_bytes())


def only(events: list[Event], kind: str) -> list[Event]:
    return [event for event in events if event["type"] == kind]


def surface(events: list[Event]) -> list[Event]:
    """What the model sees, in order."""
    nodes: list[Event] = []
    for event in events:
        op = event.get("surfaceOp")
        if op is None:
            continue
        if op["op"] == "append":
            nodes.append(event)
        else:
            gone = [node["seq"] for node in nodes[op["start"] : op["end"] + 1]]
            assert set(gone) <= set(event["sourceEventSeqs"]), "a replacement cites what it shadows"
            nodes[op["start"] : op["end"] + 1] = [event]
    return nodes


def check(events: list[Event]) -> None:
    """What has to be true of a log that nobody is writing to."""
    waiting: set[str] = set()
    turn = compaction = None
    for event in events:
        data = event["data"]
        match event["type"]:
            case "turn/start":
                assert turn is None
                turn = data["turn"]
            case "turn/end":
                assert turn == data["turn"]
                turn = None
            case "compact/start":
                assert compaction is None
                compaction = event["seq"]
            case "compact/end":
                assert compaction is not None
                compaction = None
            case "assistant/message" if event["surfaceOp"]["op"] == "append":
                waiting |= {call["callId"] for call in data["calls"]}
            case "tool/result" if event["surfaceOp"]["op"] == "append":
                assert data["callId"] in waiting, "exactly one result for each call"
                waiting.remove(data["callId"])
    assert (turn, compaction, waiting) == (None, None, set())
    surface(events)
