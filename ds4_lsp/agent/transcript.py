"""The token rendering of system prompt and surface: what the engine's KV must mirror.

A node is rendered once and never again; the transcript changes only at its end, or as a whole when a compaction
replaces nodes. Sampled ids are taken from the log, so that what was sampled is never tokenised anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ds4_lsp.agent.rendering import node_segments
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
    system: list[int] = field(default_factory=list)
    shared: int = 0
    """Tokens at the head of ``system`` that every workspace has."""
    _nodes: dict[int, list[int]] = field(default_factory=dict)
    retokenised: int = 0
    """Assistant nodes whose stored ids belong to another vocabulary."""

    async def set_system(self, segments: Sequence[Segment]) -> None:
        """``segments``: the first is the same in every workspace; what describes the machine follows it."""
        self.system = await self.engine.tokenize(segments)
        self.shared = len(await self.engine.tokenize(segments[:1]))

    async def node(self, event: Event, *, first: bool = False) -> list[int]:
        """Tokens of one surface node, rendered at its first use. ``first``: it follows the system prompt directly."""
        known = self._nodes.get(event.seq)
        if known is None:
            known = await self._render(event, first)
            self._nodes[event.seq] = known
        return known

    async def tokens(self, surface: Surface) -> list[int]:
        """The whole transcript."""
        joined = list(self.system)
        for position, event in enumerate(surface.events):
            joined += await self.node(event, first=position == 0)
        return joined

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

    async def assistant_open(self, thinking: bool) -> tuple[list[int], bool]:
        """Tokens that open a reply, and whether it then begins inside a thinking span."""
        segments, begins = render.assistant_open(self.frames, thinking)
        return await self.engine.tokenize(segments), begins

    def put(self, seq: int, tokens: list[int]) -> None:
        """Take over a node's tokens from where they were computed already."""
        self._nodes[seq] = tokens

    def forget(self, seqs: Sequence[int]) -> None:
        """Nodes that a replacement shadowed need no tokens any more."""
        for seq in seqs:
            self._nodes.pop(seq, None)

    async def _render(self, event: Event, first: bool) -> list[int]:
        if event.type != "assistant/message":
            return await self.engine.tokenize(node_segments(self.frames, event, first=first))
        data = event.data
        thinking = bool(data.get("think", data.get("thinking", False)))
        opening, _ = render.assistant_open(self.frames, thinking)
        ids = list(data["tokens"])
        if data.get("tokenizer") != tokenizer_name(self.info):
            self.retokenised += 1
            ids = await self.engine.tokenize(
                render.assistant_text(self.frames, data["text"], thinking=bool(data.get("thinking")))
            )
        ended = bool(ids) and ids[-1] in self.info.end_ids
        return (
            await self.engine.tokenize(opening)
            + ids
            + await self.engine.tokenize(render.assistant_close(self.frames, ended))
        )


def _pieces(segments: Sequence[Segment]) -> Iterator[Segment]:
    for segment in segments:
        for start in range(0, len(segment.text), PIECE):
            yield Segment(segment.text[start : start + PIECE], segment.special)
