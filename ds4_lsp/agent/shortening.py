"""Shortening one message of the tail: what stays of it is what the model has had before it, token for token."""

from __future__ import annotations

from ds4_lsp.agent.transcript import Transcript, tokenizer_name
from ds4_lsp.chat import render
from ds4_lsp.chat.frames import THINK_CLOSE
from ds4_lsp.compaction import Item, Shortened
from ds4_lsp.compaction.fitting import Count
from ds4_lsp.compaction.shorten import HEAD_TOKENS, beginning_of, end_of, marker, shorten
from ds4_lsp.ports import Segment
from ds4_lsp.session.events import Event

THINK_OPEN = "<think>"


async def shorten_result(transcript: Transcript, item: Item, event: Event, tail: int, count: Count) -> Shortened | None:
    """A tool result: beginning and end of its text."""
    text = await shorten(item.text, tail, item.whole, count)
    if text is None:
        return None
    data = {**event.data, "text": text, "original": item.whole}
    tokens = await transcript.result_size(data["callId"], data["name"], text, ok=bool(data["ok"]))
    return Shortened(item.seq, tokens, data) if tokens < item.tokens else None


async def shorten_reply(transcript: Transcript, item: Item, event: Event, tail: int) -> Shortened | None:
    """A reply: the ids of its end as they were sampled, those of its beginning where they are of the same part of it
    (thinking, or what follows), and a marker between. None for a reply of another model, whose ids mean nothing here.
    """
    data = event.data
    if data.get("tokenizer") != tokenizer_name(transcript.info):
        return None
    text, ids, engine = data["text"], list(data["tokens"]), transcript.engine

    async def sampled(part: str) -> list[int]:
        return await engine.tokenize([Segment(part, special=True)])

    async def count(part: str) -> int:
        return len(await sampled(part))

    ended = len(ids)
    while ended and ids[ended - 1] in transcript.info.end_ids:
        ended -= 1
    start = await end_of(text, tail, count)
    last = await sampled(text[start:])
    # Where the sampler chose other tokens than the tokenizer would, the number of tokens decides.
    kept = len(last) if ids[ended - len(last) : ended] == last else max(tail, len(last))
    stop = await beginning_of(text, HEAD_TOKENS, count)
    first = await sampled(text[:stop])
    thinks = bool(data["thinking"]) or text.lstrip().startswith(THINK_OPEN)
    closed = text.find(THINK_CLOSE) if thinks else -1
    still = thinks and (closed < 0 or closed >= start)
    if ids[: len(first)] != first or len(first) + kept >= ended or (0 <= closed < start and stop <= closed):
        stop, first = 0, []
    note = f"\n{marker(start - stop, item.whole)}\n"
    between = await engine.tokenize(render.plain(transcript.frames, note))
    tokens = [*first, *between, *ids[max(0, ended - kept) :]]
    spared = len(ids) - len(tokens)
    if start <= stop or spared <= 0:
        return None
    begins = bool(data["thinking"]) and (bool(first) or still)
    changed = {
        "text": f"{text[:stop]}{note}{text[start:]}",
        "tokens": tokens,
        "thinking": begins,
        "think": bool(data.get("think", data["thinking"])) and (bool(first) or still),
        "original": item.whole,
    }
    return Shortened(item.seq, item.tokens - spared, {**data, **changed})
