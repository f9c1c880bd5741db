"""A process that writes sessions and dies in the middle: run by the tests of this folder.

``kill WHEN BASE WORKSPACE``: for each append of a scripted turn, a child of its own dies at it by SIGKILL; one JSON
line per child says which session it wrote and what had been acknowledged.
``full BASE WORKSPACE``: meets a limit on file size, then goes on when it is lifted.
``late BASE WORKSPACE``: records what has happened while there is no room for it, and then with room.
``hold BASE WORKSPACE ID``: opens a session and keeps it until stdin ends.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

from ds4_lsp.protocol.errors import StorageFailed
from ds4_lsp.session.events import APPEND, Event, encode, replace
from ds4_lsp.session.log import EventLog
from ds4_lsp.session.session import Session
from ds4_lsp.session.store import SessionStore


def scripted_turn(session: Session) -> None:
    """Every durability point of a turn with a tool, a job, an edit and a compaction."""
    queued = session.append("prompt/queued", {"text": "do it", "context": []})
    session.append("turn/start", {"turn": 1, "queued": queued.seq})
    user = session.append("user/message", {"turn": 1, "text": "do it", "kind": "prompt"}, surface_op=APPEND)
    session.sync()
    calls = [{"callId": session.next_call_id(), "name": name, "arguments": {}} for name in ("bash", "read")]
    reply = {"turn": 1, "round": 1, "text": "…", "tokens": [1, 2], "tokenizer": "t", "thinking": False, "calls": calls}
    assistant = session.append("assistant/message", {**reply, "stop": "tool"}, surface_op=APPEND)
    shadowed = [user.seq, assistant.seq]
    for call in calls:
        session.append("tool/started", {"turn": 1, "callId": call["callId"], "name": call["name"]})
        session.sync()
        session.append("job/started", {"job": 1, "pid": 1, "command": "true", "callId": call["callId"]})
        session.append("job/ended", {"job": 1, "state": "exited", "exitStatus": 0})
        result = {"turn": 1, "callId": call["callId"], "name": call["name"], "ok": True, "text": "done"}
        shadowed.append(session.append("tool/result", result, surface_op=APPEND).seq)
    start = session.append("compact/start", {"trigger": "soft", "turn": 1, "bottom": 9})
    session.sync()
    summary = session.append("compact/summary", {"summary": "s", "shadowedSeqs": shadowed})
    session.append(
        "user/message",
        {"turn": 1, "text": "checkpoint", "kind": "checkpoint"},
        surface_op=replace(0, len(shadowed) - 1),
        sources=[start.seq, summary.seq, *shadowed],
    )
    session.append("compact/end", {"turn": 1})
    session.append("turn/end", {"turn": 1, "stopReason": "end"})
    session.sync()


class Dying(EventLog):
    """Dies at its ``at``-th append."""

    at = 0
    when = "after"
    acknowledge = -1

    def write(self, event: Event) -> None:
        self.at -= 1
        if self.at == 0 and self.when != "after":
            if self.when == "half":
                line = encode(event)
                os.write(self._fd, line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(event)
        if self.at == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(self.acknowledge, b"%d\n" % event.seq)


def kill(when: str, store: SessionStore) -> None:
    at = 0
    while True:
        at += 1
        session = store.create()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            log = Dying.open(session.directory)
            log.at, log.when, log.acknowledge = at, when, write
            session.log = log
            scripted_turn(session)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as acknowledged:
            seqs = [int(line) for line in acknowledged]
        _, status = os.waitpid(child, 0)
        session.log.close()
        session._lock.release()
        if os.WIFEXITED(status):
            return
        print(json.dumps({"session": session.id, "acknowledged": seqs}), flush=True)


def full(store: SessionStore) -> None:
    session = store.create()
    session.append("prompt/queued", {"text": "small", "context": []})
    size = session.log.length
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
    refused = []
    for _ in range(3):
        try:
            session.append("prompt/queued", {"text": "x" * 500, "context": []})
        except StorageFailed as error:
            refused.append(error.message)
    after = session.log.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    event = session.append("prompt/queued", {"text": "y" * 500, "context": []})
    queued = len(session.queued())
    session.close()
    report = {"session": session.id, "refused": refused, "before": size, "after": after, "seq": event.seq, "n": queued}
    print(json.dumps(report))


def late(store: SessionStore) -> None:
    session = store.create()
    resource.setrlimit(resource.RLIMIT_FSIZE, (session.log.length + 10, resource.RLIM_INFINITY))
    edits = [session.record("edit/applied", {"turn": 0, "path": path}) for path in ("a", "b")]
    owed = [event.data["path"] for event in session.owed]
    try:
        session.append("session/title", {"title": "x"})
        refused = False
    except StorageFailed:
        refused = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    title = session.append("session/title", {"title": "x"}).seq
    resource.setrlimit(resource.RLIMIT_FSIZE, (session.log.length + 10, resource.RLIM_INFINITY))
    edits.append(session.record("edit/applied", {"turn": 0, "path": "c"}))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    session.close()
    report = {"session": session.id, "edits": edits, "owed": owed, "refused": refused, "title": title}
    print(json.dumps(report))


def hold(store: SessionStore, identity: str) -> None:
    session = store.open(identity)
    print("held", flush=True)
    sys.stdin.read()
    session.close()


def main() -> None:
    verb, *rest = sys.argv[1:]
    if verb == "kill":
        kill(rest[0], SessionStore(Path(rest[1]), [Path(rest[2])]))
    elif verb == "late":
        late(SessionStore(Path(rest[0]), [Path(rest[1])]))
    elif verb == "full":
        full(SessionStore(Path(rest[0]), [Path(rest[1])]))
    else:
        hold(SessionStore(Path(rest[0]), [Path(rest[1])]), rest[2])


if __name__ == "__main__":
    main()
