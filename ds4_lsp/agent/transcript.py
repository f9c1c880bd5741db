"""The token rendering of system prompt and surface: what the engine's KV must mirror.

A node is rendered once and never again; the transcript changes only at its end, or as a whole when a compaction
replaces nodes. Sampled ids are taken from the log, so that what was sampled is never tokenised anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ds4_lsp.agent.rendering import reply_segments, result_of, user_text
from ds4_lsp.agent.speech import Speech
from ds4_lsp.chat import render
from ds4_lsp.chat.frames import Frames
from ds4_lsp.ports import Cancel, Engine, ModelInfo, Segment
from ds4_lsp.protocol.errors import Cancelled
from ds4_lsp.session.events import Event
from ds4_lsp.session.surface import Surface

DENSE = 8
"""Code points per token of the context above which a text is first counted in pieces: hardly any such text fits."""
PIECE = 50_000
"""Code points in a piece: some hundredths of a second of the tokenizer's time."""
CERTAIN = 2
"""Contexts that the pieces must need before the whole is taken not to fit. Where a text is cut changes tokens only
around the cut."""


def tokenizer_name(info: ModelInfo) -> str:
    """Names the vocabulary that token ids belong to."""
    return f"{info.architecture}:{info.name}:{info.vocabulary_size}"


def is_large(length: int, info: ModelInfo) -> bool:
    """Whether so many code points are hardly ever few enough tokens for the context."""
    return length > DENSE * info.context_size


@dataclass
class Transcript:
    """Tokens of one session on one loaded model. Owned by the session worker."""

    engine: Engine
    frames: Frames
    info: ModelInfo
    speech: Speech
    system: list[int] = field(default_factory=list)
    shared: int = 0
    """Tokens at the head of ``system`` that every workspace has."""
    _nodes: dict[int, tuple[tuple[object, ...] | None, list[int]]] = field(default_factory=dict)
    """By seq: where the node stood when it was rendered, which is a part of how, and its tokens."""
    retokenised: int = 0
    """Assistant nodes whose stored ids belong to another vocabulary."""

    async def set_system(self, segments: Sequence[Segment]) -> None:
        """``segments``: the first is the same in every workspace; what describes the machine follows it."""
        self.system = await self.engine.tokenize(segments)
        self.shared = len(await self.engine.tokenize(segments[:1]))

    async def nodes(self, events: Sequence[Event]) -> list[list[int]]:
        """Tokens of each node of a surface, rendered at its first use. What closes a row of results is the last's."""
        found: list[list[int]] = []
        ids: dict[str, str] = {}
        row: list[render.Result] = []
        for position, event in enumerate(events):
            if event.type != "tool/result":
                tokens = await self._node(event, position == 0, (), results=bool(row))
                row = []
                ids.update(self._ids(event))
            else:
                shown = result_of(event, ids.get(event.data["callId"]), self.speech.syntax)
                tokens = await self._node(event, position == 0, tuple(row), shown)
                row.append(shown)
                if position + 1 == len(events) or events[position + 1].type != "tool/result":
                    tokens = tokens + await self._row_end(row)
            found.append(tokens)
        return found

    async def tokens(self, surface: Surface) -> list[int]:
        """The whole transcript."""
        joined = list(self.system)
        for tokens in await self.nodes(surface.events):
            joined += tokens
        return joined

    def _ids(self, event: Event) -> dict[str, str]:
        """By what results name the calls of a reply."""
        if event.type != "assistant/message":
            return {}
        syntax = self.speech.syntax
        return {
            call["callId"]: call.get("id") or syntax.id_of(call["callId"], call["name"], index)
            for index, call in enumerate(event.data["calls"])
        }

    async def _node(
        self,
        event: Event,
        first: bool,
        row: tuple[render.Result, ...],
        shown: render.Result | None = None,
        *,
        results: bool = False,
    ) -> list[int]:
        where = (first, row, shown and shown.call_id, results)
        known = self._nodes.get(event.seq)
        if known is not None and known[0] in (where, None):
            return known[1]
        tokens = await self._render(event, first, row, shown, results=results)
        self._nodes[event.seq] = where, tokens
        return tokens

    async def _row_end(self, row: Sequence[render.Result]) -> list[int]:
        return await self.engine.tokenize(render.results_end(self.frames, row)) if self.speech.native else []

    async def result_size(self, call_id: str, name: str, text: str, *, ok: bool, cancel: Cancel | None = None) -> int:
        """How many tokens a result will be, or about so many."""
        if not self.speech.native:
            return await self.measure(render.tool_result(self.frames, call_id, name, ok, text), cancel)
        shown = render.Result(name, call_id, text)
        segments = [*render.result(self.frames, shown), *render.results_end(self.frames, [shown])]
        return await self.measure(segments, cancel)

    async def measure(self, segments: Sequence[Segment], cancel: Cancel | None = None) -> int:
        """How many tokens ``segments`` are. Of a text that cannot fit the context, a smaller number that does not
        either: it is not tokenised to its end.

        Errors: ``Cancelled``, as soon as ``cancel`` is set.
        """
        cancel = cancel or Cancel()
        if is_large(sum(len(segment.text) for segment in segments), self.info):
            counted = 0
            for piece in _pieces(segments):
                counted += len(await self._tokenize([piece], cancel))
                if counted > CERTAIN * self.info.context_size:
                    return counted
        return len(await self._tokenize(segments, cancel))

    async def _tokenize(self, segments: Sequence[Segment], cancel: Cancel) -> list[int]:
        """A cancel is not kept waiting: the tokenizer works on for nobody."""
        work = asyncio.ensure_future(self.engine.tokenize(segments))
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        forget = cancel.on_set(lambda: None if stopped.done() else stopped.set_result(None))
        try:
            await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            forget()
            if not work.done():
                work.cancel()
        if cancel.is_set:
            raise Cancelled("The turn was cancelled.")
        return work.result()

    async def assistant_open(self, thinking: bool, after: Event | None = None) -> tuple[list[int], bool]:
        """Tokens that open a reply, and whether it then begins inside a thinking span. ``after``: the last node."""
        results = self.speech.native and after is not None and after.type == "tool/result"
        segments, begins = render.assistant_open(self.frames, thinking, results=results)
        return await self.engine.tokenize(segments), begins

    def put(self, seq: int, tokens: list[int]) -> None:
        """Take over a node's tokens from where they were computed already."""
        self._nodes[seq] = None, tokens

    def forget(self, seqs: Sequence[int]) -> None:
        """Nodes that a replacement shadowed need no tokens any more."""
        for seq in seqs:
            self._nodes.pop(seq, None)

    async def _render(
        self,
        event: Event,
        first: bool,
        row: Sequence[render.Result],
        shown: render.Result | None,
        *,
        results: bool,
    ) -> list[int]:
        frames, data = self.frames, event.data
        if shown is not None:
            if self.speech.native:
                return await self.engine.tokenize(render.result(frames, shown, row))
            result = render.tool_result(frames, data["callId"], data["name"], bool(data["ok"]), data["text"])
            return await self.engine.tokenize(result)
        if event.type != "assistant/message":
            return await self.engine.tokenize(render.user(frames, user_text(data), first=first))
        thinking = bool(data.get("think", data.get("thinking", False)))
        opening, begins = render.assistant_open(frames, thinking, results=results and self.speech.native)
        ids = list(data["tokens"])
        if data.get("tokenizer") != tokenizer_name(self.info):
            self.retokenised += 1
            ids = await self.engine.tokenize(reply_segments(frames, self.speech.syntax, data, begins=begins))
        ended = bool(ids) and ids[-1] in self.info.end_ids
        called = bool(data["calls"]) and self.speech.native
        if ended and not called and not frames.end_text:
            # Such a template closes no reply: the token that ended it is the next message's own beginning.
            ids = ids[:-1]
        return (
            await self.engine.tokenize(opening)
            + ids
            + await self.engine.tokenize(render.assistant_close(frames, ended, called=called))
        )


def _pieces(segments: Sequence[Segment]) -> Iterator[Segment]:
    for segment in segments:
        for start in range(0, len(segment.text), PIECE):
            yield Segment(segment.text[start : start + PIECE], segment.special)
