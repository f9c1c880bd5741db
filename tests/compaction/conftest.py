"""A host on a real log and a real surface. Only the engine is played: its tokenizer splits words, its answers are
scripted, and its KV is a list of what was evaluated."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.compaction import Item, Shortened, Speeds, Summary, SummaryRequest
from ds4_lsp.compaction.request import HEADINGS
from ds4_lsp.compaction.shorten import shorten
from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.settings import CompactionSettings
from ds4_lsp.session.events import Event, Header
from ds4_lsp.session.log import EventLog
from ds4_lsp.session.surface import Surface

SUMMARY = "\n".join(f"## {heading}\nnothing of note" for heading in HEADINGS)
APPEND = {"op": "append"}
FRAME = 6
PREFIX = 100


@lru_cache(maxsize=1024)
def count_tokens(text: str) -> int:
    """Pieces of up to five letters, and everything else singly: like BPE, words merge at the seams of joined texts."""
    return len(re.findall(r"\w{1,5}|\W", text))


class LogHost:
    """``before_step`` is called with the name of each step before it is done, and may raise, kill or change things."""

    def __init__(self, log: EventLog, surface: Surface, *, context: int = 4000) -> None:
        self.log = log
        self.tree = surface
        self.context = context
        self.settings = CompactionSettings()
        self.model = "scripted"
        self.turn = 1
        self.prefix_tokens = PREFIX
        self.frame_tokens = FRAME
        self.speeds = Speeds()
        self.script: list[str | Summary] = []
        self.requests: list[SummaryRequest] = []
        self.emitted: list[tuple[str, dict[str, Any]]] = []
        self.reports: list[tuple[str, int, int]] = []
        self.ended: list[str] = []
        self.before_step: Callable[[str], None] = lambda _step: None
        self.transcript: list[int] = []
        """seqs of the nodes that the played KV holds."""
        self._calls = 0

    @classmethod
    def create(cls, directory: Path, **options: Any) -> LogHost:
        directory.mkdir(parents=True, exist_ok=True)
        return cls(EventLog.create(directory, Header(directory.name, ("/w",), 1.0)), Surface(), **options)

    @classmethod
    def open(cls, directory: Path, **options: Any) -> LogHost:
        surface = Surface()
        return cls(EventLog.open(directory, surface.apply), surface, **options)

    # --- the Host protocol

    @property
    def revision(self) -> int:
        return self.tree.revision

    @property
    def next_seq(self) -> int:
        return self.log.next_seq

    def surface(self) -> Sequence[Item]:
        return [self._item(position, event) for position, event in enumerate(self.tree.events)]

    def events(self) -> Iterator[Event]:
        return self.log.events()

    def append(
        self, type: str, data: dict[str, Any], *, surface_op: dict[str, Any] | None = None, sources: Sequence[int] = ()
    ) -> Event:
        self.before_step(f"append {type}")
        return self.write(type, data, surface_op=surface_op, sources=sources)

    def sync(self) -> None:
        self.before_step("sync")
        self.log.sync()

    async def count(self, text: str) -> int:
        await asyncio.sleep(0)
        return count_tokens(text)

    async def shorten(self, item: Item, tail: int) -> Shortened | None:
        text = await shorten(item.text, tail, item.whole, self.count)
        if text is None or count_tokens(text) >= item.tokens - FRAME:
            return None
        data = {**self.tree[item.position].data, "text": text, "original": item.whole}
        return Shortened(item.seq, count_tokens(text) + FRAME, data)

    async def summarise(self, request: SummaryRequest, cancel: Cancel, on_text: Callable[[int, str], None]) -> Summary:
        self.requests.append(request)
        asked = self.prefix_tokens + sum(item.tokens for item in self.surface()[request.start : request.stop])
        asked += count_tokens(request.text) + self.frame_tokens
        if request.before is not None:
            asked += count_tokens(request.before) + self.frame_tokens
        assert asked + request.max_tokens <= self.context, "the request does not fit"
        self.before_step("summarise")
        await asyncio.sleep(0)
        answer = self.script.pop(0) if self.script else SUMMARY
        if cancel.is_set:
            return Summary("", 0, "cancelled")
        if isinstance(answer, Summary):
            return answer
        tokens = count_tokens(answer)
        on_text(tokens, answer)
        usage = {"promptTokens": count_tokens(request.text) + self.frame_tokens, "completionTokens": tokens}
        return Summary(answer, tokens, "end", usage)

    async def rebuild(self, cancel: Cancel, on_progress: Callable[[int, int], None]) -> None:
        self.before_step("rebuild")
        await asyncio.sleep(0)
        if not cancel.is_set:
            self.transcript = self.tree.seqs
            on_progress(1, 2)
            on_progress(2, 2)

    def emit(self, kind: str, *, seq: int | None = None, **data: Any) -> None:
        self.emitted.append((kind, data))

    def progress(self, message: str, *, done: int = 0, total: int = 0) -> None:
        self.reports.append((message, done, total))

    def progress_end(self, message: str) -> None:
        self.ended.append(message)

    # --- building a conversation

    def write(self, type: str, data: dict[str, Any], *, surface_op: Any = None, sources: Sequence[int] = ()) -> Event:
        event = self.log.prepare(type, data, surface_op=surface_op, sources=sources)
        self.tree.check(event)
        self.log.write(event)
        self.tree.apply(event)
        return event

    def user(self, text: str, kind: str = "prompt", **data: Any) -> Event:
        return self.write("user/message", {"turn": self.turn, "text": text, "kind": kind, **data}, surface_op=APPEND)

    def assistant(self, text: str, calls: int = 0) -> list[str]:
        ids = [f"c{self._calls + number}" for number in range(1, calls + 1)]
        self._calls += calls
        made = [{"callId": call, "name": "read", "arguments": {}} for call in ids]
        data = {"turn": self.turn, "round": 1, "text": text, "tokens": [], "calls": made, "stop": "end"}
        self.write("assistant/message", data, surface_op=APPEND)
        return ids

    def result(self, call: str, text: str, **data: Any) -> Event:
        body = {"turn": self.turn, "callId": call, "name": "read", "ok": True, "text": text, **data}
        return self.write("tool/result", body, surface_op=APPEND)

    def exchange(self, prompt: str, words: int = 200) -> None:
        """A prompt, a call with its result, and an answer: about ``words`` words in all."""
        self.user(prompt)
        [call] = self.assistant("let me look", 1)
        self.result(call, "word " * (words // 2))
        self.assistant("word " * (words // 2))

    @property
    def bottom(self) -> int:
        return self.prefix_tokens + sum(item.tokens for item in self.surface())

    def types(self, prefix: str = "compact/") -> list[str]:
        return [event.type for event in self.events() if event.type.startswith(prefix)]

    def _item(self, position: int, event: Event) -> Item:
        data = event.data
        role = {"user/message": "user", "assistant/message": "assistant", "tool/result": "tool"}[event.type]
        kind = data["kind"] if role == "user" else {"assistant": "reply", "tool": "result"}[role]
        return Item(
            seq=event.seq,
            position=position,
            role=role,
            kind=kind,
            tokens=count_tokens(data["text"]) + FRAME,
            text=data["text"],
            calls=frozenset(call["callId"] for call in data.get("calls", ())),
            result_for=data.get("callId"),
            name=data.get("name", ""),
            original=data.get("original"),
        )


@pytest.fixture
def make_host(tmp_path: Path) -> Iterator[Callable[..., LogHost]]:
    """Makes hosts with new logs, or with the log of ``reopen``; closes them."""
    hosts: list[LogHost] = []

    def make(*, reopen: LogHost | None = None, **options: Any) -> LogHost:
        if reopen is not None:
            reopen.log.close()
            host = LogHost.open(reopen.log.directory, **{"context": reopen.context, **options})
        else:
            host = LogHost.create(tmp_path / f"session-{len(hosts)}", **options)
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.log.close()


@pytest.fixture(scope="session")
def host_class() -> type[LogHost]:
    return LogHost


@pytest.fixture
def summary_text() -> str:
    return SUMMARY


@pytest.fixture(scope="session")
def tokens_of() -> Callable[[str], int]:
    return count_tokens
