"""Tokens per second through the whole path, and the wait for a follow-up's first token."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bare import Bare, Setup, bare
from benchmarks.llama_server import MISSING, LlamaServer, find, llama_server
from benchmarks.measure import Row, spread
from benchmarks.served import Served, Turn, serving
from benchmarks.sizes import Sizes

STORY = "Tell a long story about a lighthouse keeper and the sea. Part {}."
WORD = " word"
"""One token in most vocabularies."""
FOLLOW_UP = "And then? Tell the next part, number {}."
LEAST = 0.5
"""A reply that ends before this share of its limit is not counted: what a turn costs once would be all that is seen."""
ATTEMPTS = 8
FOLLOW_UP_TOKENS = 8
"""Of its reply: the first is what counts, and the history must stay as long as it is."""


@dataclass
class Samples:
    """Tokens per second of each side, or seconds, round by round."""

    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)

    def ratios(self, theirs: Sequence[float]) -> list[float]:
        return [mine / other for mine, other in zip(self.ours, theirs, strict=True)]


@dataclass
class Speeds:
    decode: Samples = field(default_factory=Samples)
    prefill: Samples = field(default_factory=Samples)
    follow_up: Samples = field(default_factory=Samples)
    turns: list[Turn] = field(default_factory=list)
    """Of the decoding rounds: their events are counted."""
    processor: float = 0.0
    """Seconds of the server's processor time in the decoding rounds."""


async def rows(setup: Setup, sizes: Sizes) -> list[Row]:
    async with AsyncExitStack() as stack:
        binary = find()
        race = Race(
            await stack.enter_async_context(serving(setup, _settings(setup, sizes.decode))),
            await stack.enter_async_context(bare(setup)),
            None if binary is None else await stack.enter_async_context(llama_server(binary, setup)),
            setup,
            sizes,
        )
        await race.warm()
        for number in range(sizes.rounds):
            await race.decode(number)
        for number in range(sizes.rounds):
            await race.prefill(number)
        await race.follow_ups()
    speeds = race.speeds
    return [*_speed_rows(speeds), _follow_up_row(speeds, sizes), _event_row(speeds.turns), _processor_row(speeds)]


def _settings(setup: Setup, max_tokens: int) -> dict[str, Any]:
    """Without KV snapshots: the system would still be writing the last session's to the disk while it is measured."""
    return setup.settings(max_tokens) | {"sessions": {"snapshots": False}}


@dataclass
class Race:
    """All sides, loaded; each round takes them one after the other, so that a busy minute meets all of them."""

    served: Served
    loop: Bare
    peer: LlamaServer | None
    setup: Setup
    sizes: Sizes
    speeds: Speeds = field(default_factory=Speeds)

    async def warm(self) -> None:
        """Caches, file pages and code paths, on each side."""
        await self.served.prompt("Say hello.")
        await self.loop.decode(64, 16)
        if self.peer is not None:
            await self.peer.complete(64, 16)

    async def decode(self, number: int) -> None:
        """A reply sampled by the model: as many tokens as come. The others then decode as many at the same depth."""
        await self.served.configure(_settings(self.setup, self.sizes.decode))
        for _ in range(ATTEMPTS):
            await self.served.new_session()
            before = self.served.processor()
            turn = await self.served.prompt(STORY.format(number + 1))
            if turn.usage["completionTokens"] >= LEAST * self.sizes.decode:
                break
        self.speeds.processor += self.served.processor() - before
        usage, found = turn.usage, self.speeds.decode
        count, depth = usage["completionTokens"], usage["promptTokens"] + usage["cachedTokens"]
        self.speeds.turns.append(turn)
        found.ours.append(count / (turn.seconds - usage["promptSeconds"]))
        found.bare.append(count / await self.loop.decode(depth, count))
        if self.peer is not None:
            found.peer.append(count / (await self.peer.complete(depth, count)).decoding)

    async def prefill(self, number: int) -> None:
        """A long prompt behind the system prompt, which all sides hold already."""
        await self.served.configure(_settings(self.setup, 1))
        await self.served.new_session()
        turn = await self.served.prompt(f"Read this, part {number + 1}:" + WORD * self.sizes.prefill)
        usage, found = turn.usage, self.speeds.prefill
        count, depth = usage["promptTokens"], usage["cachedTokens"]
        found.ours.append(count / (turn.seconds - usage["completionSeconds"]))
        found.bare.append(count / await self.loop.prefill(depth, count))
        if self.peer is not None:
            await self.peer.complete(depth, 1)
            found.peer.append(count / (await self.peer.complete(depth + count, 1)).first)

    async def follow_ups(self) -> None:
        """Short prompts behind a long history. The bare loop evaluates the same suffix and samples one token."""
        await self.served.configure(_settings(self.setup, FOLLOW_UP_TOKENS))
        await self.served.new_session()
        system = (await self.served.prompt("Hello.")).usage["cachedTokens"]
        await self.served.prompt("Read this:" + WORD * max(64, self.sizes.history - system))
        found = self.speeds.follow_up
        for number in range(self.sizes.rounds):
            turn = await self.served.prompt(FOLLOW_UP.format(number + 1))
            count, depth = turn.usage["promptTokens"], turn.usage["cachedTokens"]
            found.ours.append(turn.first_text)
            found.bare.append(await self.loop.prefill(depth, count) + await self.loop.decode(depth + count, 1))
            if self.peer is not None:
                await self.peer.complete(depth, 1)
                found.peer.append((await self.peer.complete(depth + count, FOLLOW_UP_TOKENS)).first)


def _speed_rows(speeds: Speeds) -> list[Row]:
    return [
        _against("decode", speeds.decode, "the bare loop", speeds.decode.bare, 0.97),
        _peer_row("decode", speeds.decode, 1.0),
        _against("prefill", speeds.prefill, "the bare loop", speeds.prefill.bare, 0.98),
        _peer_row("prefill", speeds.prefill, 0.98),
    ]


def _against(what: str, samples: Samples, name: str, theirs: Sequence[float], least: float) -> Row:
    ratio = spread(samples.ratios(theirs))
    ours, others = statistics.median(samples.ours), statistics.median(theirs)
    return Row(
        f"{what}, tokens a second",
        f"{ratio.text()} ×; {ours:.0f} and {others:.0f} tokens/s",
        f"≥ {least:g}",
        name,
        ratio.median >= least,
        figures={"ours": samples.ours, "theirs": list(theirs)},
    )


def _peer_row(what: str, samples: Samples, least: float) -> Row:
    if not samples.peer:
        return Row(f"{what}, tokens a second", MISSING, f"≥ {least:g}", "`llama-server`", missing=True)
    return _against(what, samples, "`llama-server`", samples.peer, least)


def _follow_up_row(speeds: Speeds, sizes: Sizes) -> Row:
    samples = speeds.follow_up
    ours, least = spread([1000 * s for s in samples.ours]), spread([1000 * s for s in samples.bare])
    what = f"first token of a follow-up, {sizes.history:,} tokens of history"
    figures = {"ours": samples.ours, "bare": samples.bare, "theirs": samples.peer}
    value = f"{ours.text()} ms; the bare loop {least.text()} ms"
    if not samples.peer:
        return Row(what, f"{value}; {MISSING}", "≤ 1", "`llama-server`", missing=True, figures=figures)
    ratio = spread(samples.ratios(samples.peer))
    return Row(what, f"{ratio.text()} ×; {value}", "≤ 1", "`llama-server`", ratio.median <= 1, figures=figures)


def _event_row(turns: Sequence[Turn]) -> Row:
    """``ds4/event`` while text streams: of each turn, from its first text to its last."""
    messages, size, tokens, intervals = 0, 0, 0, []
    for turn in turns:
        streamed = [heard for heard in turn.events if heard.event["kind"] in ("text", "thinking")]
        messages += len(streamed)
        size += sum(heard.size for heard in streamed)
        tokens += turn.usage["completionTokens"]
        if len(streamed) > 1:
            intervals.append(1000 * (streamed[-1].at - streamed[0].at) / (len(streamed) - 1))
    mean = statistics.median(intervals) if intervals else float("inf")
    return Row(
        "`ds4/event` load while a reply streams",
        f"one message in {mean:.0f} ms; {messages / tokens:.2f} messages and {size / tokens:.0f} bytes a token",
        "≤ 1 message in 30 ms",
        "",
        mean >= 30,
        figures={"messages": messages, "bytes": size, "tokens": tokens, "milliseconds": intervals},
    )


def _processor_row(speeds: Speeds) -> Row:
    """What the model cannot have where there are no more cores than its threads."""
    tokens = sum(turn.usage["completionTokens"] for turn in speeds.turns)
    seconds = sum(turn.seconds for turn in speeds.turns)
    return Row(
        "the server's processor time while it replies, its engine's not counted",
        f"{100 * speeds.processor / seconds:.1f} % of a core, {1000 * speeds.processor / tokens:.2f} ms a token",
        figures={"processor": speeds.processor, "tokens": tokens, "seconds": seconds},
    )
