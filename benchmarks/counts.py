"""What is evaluated, in tokens, against the least that could be: counts, so that they are exact or wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.bare import Setup, bare
from benchmarks.measure import Row
from benchmarks.served import Served, serving
from benchmarks.sizes import Sizes
from ds4_lsp.agent.rendering import user_text

HEADINGS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code",
    "Errors and Fixes",
    "Pending Jobs",
    "Current Work",
    "Next Step",
    "Critical Context",
)
SUMMARY = "\n".join(f"## {heading}\nNothing of note." for heading in HEADINGS)
FILE = "".join(f"line {number} of a file\n" for number in range(60))
TASK = "Read all of notes.txt, line by line."
LISTED = "The file lists its lines."


def _read(start: int) -> str:
    """A reply that reads one line, as a model writes it."""
    parameters = (("path", "true", "notes.txt"), ("start_line", "false", start), ("max_lines", "false", 1))
    lines = [
        f'<｜DSML｜parameter name="{name}" string="{raw}">{value}</｜DSML｜parameter>'
        for name, raw, value in parameters
    ]
    block = [
        "<｜DSML｜tool_calls>",
        '<｜DSML｜invoke name="read">',
        *lines,
        "</｜DSML｜invoke>",
        "</｜DSML｜tool_calls>",
    ]
    return "\n".join(block)


async def rows(setup: Setup, sizes: Sizes) -> list[Row]:
    turns = [{"purpose": "turn", "text": _read(1 + round)} for round in range(sizes.calls)]
    turns += [{"purpose": "turn", "text": LISTED}] * 2
    script = [*turns, {"purpose": "summary", "text": SUMMARY}]
    # No compaction but the one that is asked for, and a short tail, so that a few calls are enough for it.
    settings = {**setup.settings(4096), "compaction": {"auto": False, "tailPercent": 1}}
    async with serving(setup, settings, script=script, trace=True) as served:
        (served.root / "workspace" / "notes.txt").write_text(FILE)
        turn = await served.prompt(TASK)
        generated = served.trace("generate")
        loop = _tool_loop(turn.usage, turn.result, generated, _replies(served, turn.result["sessionId"]))
        return [loop, await _compaction(served, setup, generated)]


def _replies(served: Served, session: str) -> list[int]:
    """Tokens of each reply in the log."""
    return [len(event["data"]["tokens"]) for event in served.log(session) if event["type"] == "assistant/message"]


def suffixes(transcripts: Sequence[int], replies: Sequence[int], held: int) -> list[int]:
    """Tokens to be evaluated before each reply. ``transcripts``: tokens of each request; ``replies``: tokens sampled
    after it; ``held``: tokens in the KV before the first.

    A reply is in the KV but for its last token, which nothing was sampled from.
    """
    found = []
    for transcript, reply in zip(transcripts, replies, strict=True):
        found.append(transcript - held)
        held = transcript + reply - 1
    return found


def _tool_loop(
    usage: dict[str, Any], result: dict[str, Any], generated: Sequence[dict[str, Any]], replies: Sequence[int]
) -> Row:
    transcripts = [entry["tokens"] for entry in generated]
    held = transcripts[0] - len(generated[0]["suffix"])
    least = sum(suffixes(transcripts, replies, held))
    evaluated = usage["promptTokens"]
    return Row(
        f"tokens evaluated in a tool loop of {len(result['toolCalls'])} calls",
        f"{evaluated:,} and {least:,}",
        "equal",
        "the sum of the suffixes",
        evaluated == least,
        figures={"evaluated": evaluated, "least": least, "transcripts": transcripts, "replies": list(replies)},
    )


def common_head(before: Sequence[int], task: Sequence[int], checkpoint: Sequence[int]) -> int:
    """Tokens that a rebuilt transcript shares with the old one behind the system prompt.

    ``before``: the old tokens from there on: a frame, then ``task``. The new ones: the frame, then ``checkpoint``.
    """
    frame = next(at for at in range(len(before)) if list(before[at : at + len(task)]) == list(task))
    after = [*before[:frame], *checkpoint]
    return next((at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(before))


async def _compaction(served: Served, setup: Setup, generated: Sequence[dict[str, Any]]) -> Row:
    """``/compact``, then a turn: the request behind the live transcript, the rebuild behind the system prompt, and
    what the next turn finds."""
    used = (await served.status())["context"]["used"]
    await served.client.command("ds4.compact")
    turn = await served.prompt("And now?")
    [asked], [rebuilt] = served.trace("summarise"), served.trace("rebuild")
    following = served.trace("generate")[len(generated)]
    events = served.log(turn.result["sessionId"])
    [checkpoint] = [event["data"]["text"] for event in events if event["data"].get("kind") == "checkpoint"]
    # The prompt with what went along with it.
    task = next(user_text(event["data"]) for event in events if event["type"] == "user/message")
    async with bare(setup) as loop:
        first = generated[0]
        system = first["tokens"] - len(first["suffix"])
        head = common_head(first["suffix"], await loop.tokenize(task), await loop.tokenize(checkpoint))
    least = (
        # The last token that was sampled is not in the KV yet.
        asked["request"] + asked["transcript"] - (used - 1),
        rebuilt["transcript"] - system - head,
        following["tokens"] - rebuilt["transcript"],
    )
    evaluated = (asked["evaluated"], rebuilt["evaluated"], turn.usage["promptTokens"])
    return Row(
        "tokens evaluated by a compaction: request, rebuild, and the turn that follows",
        f"{' + '.join(map(str, evaluated))} and {' + '.join(map(str, least))}, of {used:,} before",
        "equal",
        "the least possible",
        evaluated == least,
        figures={"evaluated": evaluated, "least": least, "summarise": asked, "rebuild": rebuilt},
    )
