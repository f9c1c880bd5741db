"""One session as compaction sees it: its surface in tokens, its log, and the engine."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from ds4_lsp.agent.rendering import user_text
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.shortening import shorten_reply, shorten_result
from ds4_lsp.agent.transcript import Transcript
from ds4_lsp.chat import render
from ds4_lsp.compaction import Item, OnSummary, Shortened, Speeds, Summary, SummaryRequest
from ds4_lsp.ports import Cancel, GenerateRequest, OnProgress, Segment
from ds4_lsp.protocol.commands import Usage
from ds4_lsp.protocol.errors import EngineDied
from ds4_lsp.protocol.settings import CompactionSettings
from ds4_lsp.session.events import Event
from ds4_lsp.syntax.stops import summary_stops

COUNTS_KEPT = 64


class CompactionHost:
    """Implements ``compaction.Host``. :meth:`refresh` must have run since the surface last changed from outside.

    ``keep`` writes the session's KV to disk: asked once before the KV gives way to a part of the conversation, so that
    a cancelled compaction does not cost the evaluation of all of it again.
    """

    def __init__(self, services: Services, runtime: Runtime, keep: Callable[[], Awaitable[object]]) -> None:
        self._services = services
        self._runtime = runtime
        self._keep = keep
        self._kept_at: int | None = None
        """The surface's revision that was kept: a second part finds less in the KV, and must not replace that."""
        self._counted: OrderedDict[str, list[int]] = OrderedDict()
        self._frame: tuple[list[int], list[int]] = ([], [])
        self._opening = 0
        self._of: Transcript | None = None
        """The transcript whose tokenizer the counts are of."""
        self._sizes: dict[int, int] = {}
        self._shortened: dict[int, Shortened] = {}
        """What a plan made of long messages, by their seqs."""

    async def refresh(self) -> Transcript:
        """Tokenise whatever was not yet, so that everything else can be answered without waiting."""
        transcript = await self._services.transcript(self._runtime)
        if transcript is not self._of:
            self._of = transcript
            self._counted.clear()
        frames = transcript.frames
        # A checkpoint is always the first node, which some models frame together with the system prompt.
        before = "" if frames.merges_system else frames.user.before
        self._frame = (
            await transcript.engine.tokenize([Segment(before, special=True)] if before else []),
            await transcript.engine.tokenize([Segment(frames.user.after, special=True)] if frames.user.after else []),
        )
        opening, _thinking = await transcript.assistant_open(False)
        self._opening = len(opening)
        events = self._runtime.session.surface.events
        sizes = [len(tokens) for tokens in await transcript.nodes(events)]
        self._sizes = {event.seq: size for event, size in zip(events, sizes, strict=True)}
        return transcript

    # --- facts ----------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> CompactionSettings:
        return self._services.settings().compaction

    @property
    def context(self) -> int:
        info = self._services.engine.info
        if info is None:
            raise EngineDied("The engine is not running. Send the prompt again to start it.")
        return info.context_size

    @property
    def model(self) -> str:
        info = self._services.engine.info
        return info.name if info else ""

    @property
    def turn(self) -> int:
        return self._runtime.turn

    @property
    def prefix_tokens(self) -> int:
        return len(self._runtime.transcript.system) if self._runtime.transcript else 0

    @property
    def frame_tokens(self) -> int:
        return len(self._frame[0]) + len(self._frame[1]) + self._opening

    @property
    def speeds(self) -> Speeds:
        return Speeds(self._services.meter.prefill_speed, self._services.meter.decode_speed)

    @property
    def revision(self) -> int:
        return int(self._runtime.session.surface.revision)

    @property
    def next_seq(self) -> int:
        return int(self._runtime.session.next_seq)

    def surface(self) -> Sequence[Item]:
        return [
            _item(position, event, self._sizes.get(event.seq) or _guess(event))
            for position, event in enumerate(self._runtime.session.surface.events)
        ]

    def events(self) -> Iterable[Event]:
        return self._runtime.session.events()

    # --- the log --------------------------------------------------------------------------------------------------

    def append(
        self,
        type: str,
        data: dict[str, Any],
        *,
        surface_op: dict[str, Any] | None = None,
        sources: Sequence[int] = (),
    ) -> Event:
        shadowed = self._shadowed(surface_op)
        event = self._runtime.session.append(type, data, surface_op=surface_op, sources=sources)
        if surface_op is not None:
            self._size_of_new(event, shadowed)
        if shadowed and self._runtime.transcript is not None:
            self._runtime.transcript.forget([old.seq for old in shadowed])
        return event

    def sync(self) -> None:
        self._runtime.session.sync()

    def _shadowed(self, surface_op: dict[str, Any] | None) -> list[Event]:
        if surface_op is None or surface_op["op"] != "replace":
            return []
        return self._runtime.session.surface.events[surface_op["start"] : surface_op["end"] + 1]

    def _size_of_new(self, event: Event, shadowed: list[Event]) -> None:
        """The new node's tokens, from what was counted while it was made: nothing may be asked of the engine here."""
        text = self._counted.get(event.data["text"])
        if event.type == "user/message" and text is not None and self._runtime.transcript is not None:
            tokens = self._frame[0] + text + self._frame[1]
            self._runtime.transcript.put(event.seq, tokens)
            self._sizes[event.seq] = len(tokens)
            return
        old = shadowed[0] if shadowed else None
        made = self._shortened.pop(old.seq, None) if old else None
        if made is not None and made.data == event.data:
            self._sizes[event.seq] = made.tokens
            return
        longer = self._counted.get(old.data["text"]) if old else None
        if text is None or old is None or longer is None:
            self._sizes[event.seq] = _guess(event)
            return
        self._sizes[event.seq] = len(text) + max(0, self._sizes[old.seq] - len(longer))

    async def shorten(self, item: Item, tail: int) -> Shortened | None:
        transcript = await self._services.transcript(self._runtime)
        event = self._runtime.session.surface[item.position]
        if event.seq != item.seq:
            return None
        if event.type == "assistant/message":
            made = await shorten_reply(transcript, item, event, tail)
        else:
            made = await shorten_result(transcript, item, event, tail, self.count)
        if made is not None:
            self._shortened[item.seq] = made
        return made

    # --- the engine -----------------------------------------------------------------------------------------------

    async def count(self, text: str) -> int:
        if text not in self._counted:
            transcript = await self._services.transcript(self._runtime)
            self._counted[text] = await transcript.engine.tokenize(render.plain(transcript.frames, text))
            if len(self._counted) > COUNTS_KEPT:
                self._counted.popitem(last=False)
        self._counted.move_to_end(text)
        return len(self._counted[text])

    async def summarise(self, request: SummaryRequest, cancel: Cancel, on_text: OnSummary) -> Summary:
        services, engine = self._services, self._services.engine
        transcript = await services.transcript(self._runtime)
        live = await transcript.tokens(self._runtime.session.surface)
        if not request.live and self._kept_at != self.revision:
            self._kept_at = self.revision
            await self._keep()
        tokens = await self._part(transcript, request)
        asked = await engine.tokenize(render.user(transcript.frames, request.text))
        opening, _thinking = await transcript.assistant_open(False)
        count = 0

        def on_tokens(ids: Sequence[int], text: str) -> None:
            nonlocal count
            count += len(ids)
            services.trace.record("summary tokens", ids=list(ids), text=text)
            on_text(count, text)

        try:
            generated = await engine.generate(
                GenerateRequest(
                    [*tokens, *asked, *opening],
                    max_tokens=request.max_tokens,
                    stops=summary_stops(transcript.speech.syntax, transcript.speech.marks),
                    stop_texts=transcript.frames.stop_texts,
                    forced=services.script.next("summary"),
                ),
                on_progress=services.meter.prefilled,
                on_tokens=on_tokens,
                cancel=cancel,
            )
        except (EngineDied, asyncio.CancelledError):
            # The engine is gone, or still busy with what nobody waits for any more.
            raise
        except BaseException:
            await self._roll_back(live, transcript.info.truncatable or request.live)
            raise
        await self._roll_back(live, transcript.info.truncatable or request.live)
        services.trace.record(
            "summarise",
            sessionId=self._runtime.id,
            transcript=len(tokens),
            request=len(asked) + len(opening),
            evaluated=generated.prefill.evaluated,
            cached=generated.prefill.cached,
            held=len(engine.kv),
        )
        usage = Usage(
            prompt_tokens=generated.prefill.evaluated,
            cached_tokens=generated.prefill.cached,
            completion_tokens=len(generated.tokens),
            prompt_seconds=generated.prefill.seconds,
            completion_seconds=generated.seconds,
        )
        return Summary(generated.text, len(generated.tokens), generated.reason, usage.model_dump(by_alias=True))

    async def _part(self, transcript: Transcript, request: SummaryRequest) -> list[int]:
        tokens = list(transcript.system)
        if request.before:
            tokens += await transcript.engine.tokenize(render.user(transcript.frames, request.before))
        nodes = await transcript.nodes(self._runtime.session.surface.events)
        return [*tokens, *(token for node in nodes[request.start : request.stop] for token in node)]

    async def _roll_back(self, live: list[int], cheap: bool) -> None:
        """Cut the request and its answer off again. Evaluates nothing."""
        kv = self._services.engine.kv
        shared = common_prefix(kv, live)
        if cheap and shared < len(kv):
            await self._services.engine.sync(live[:shared], on_progress=lambda _done, _total: None, cancel=Cancel())

    async def rebuild(self, cancel: Cancel, on_progress: OnProgress) -> None:
        transcript = await self.refresh()
        tokens = await transcript.tokens(self._runtime.session.surface)
        self._services.meter.uses(self._runtime.id, len(tokens))
        synced = await self._services.engine.sync(tokens, on_progress=on_progress, cancel=cancel)
        self._services.trace.record(
            "rebuild",
            sessionId=self._runtime.id,
            transcript=len(tokens),
            system=len(transcript.system),
            evaluated=synced.evaluated,
            cached=synced.cached,
        )

    # --- the user -------------------------------------------------------------------------------------------------

    def emit(self, kind: str, *, seq: int | None = None, **data: Any) -> None:
        self._services.emit(self._runtime, kind, seq=seq, **data)

    def progress(self, message: str, *, done: int = 0, total: int = 0) -> None:
        self._services.listener.progress("compaction", "COMPACTING", done=done, total=total, message=message)

    def progress_end(self, message: str) -> None:
        self._services.listener.progress_end("compaction", message)


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    if list(a[: len(b)]) == list(b[: len(a)]):
        return min(len(a), len(b))
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if list(a[low:middle]) == list(b[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def _guess(event: Event) -> int:
    """Tokens of a node that appeared since :meth:`CompactionHost.refresh`, until they are counted."""
    return 16 + len(event.data["text"]) // 3


def _item(position: int, event: Event, tokens: int) -> Item:
    data = event.data
    if event.type == "assistant/message":
        calls = frozenset(call["callId"] for call in data["calls"])
        original = data.get("original")
        return Item(event.seq, position, "assistant", "reply", tokens, data["text"], calls, original=original)
    if event.type == "tool/result":
        return Item(
            event.seq,
            position,
            "tool",
            "result",
            tokens,
            data["text"],
            result_for=data["callId"],
            name=data["name"],
            original=data.get("original"),
        )
    return Item(event.seq, position, "user", data.get("kind", "prompt"), tokens, user_text(data))
