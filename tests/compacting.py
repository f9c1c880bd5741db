"""What the tests of compaction on the real engine share: a conversation's words, and what must be true afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ds4_lsp.chat import render
from ds4_lsp.ports import Cancel, Generated, GenerateRequest
from ds4_lsp.protocol.commands import CompactArguments, CompactResult
from ds4_lsp.session.verify import verify

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
FORGETFUL = "\n".join(f"## {heading}\nNothing of note." for heading in HEADINGS)
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa "


@dataclass(frozen=True)
class Asked:
    """One request for a summary. ``request``: tokens after the transcript that it was asked on."""

    tokens: tuple[int, ...]
    max_tokens: int
    generated: Generated | None

    @classmethod
    def of(cls, request: GenerateRequest, generated: Generated | None) -> Asked:
        return cls(tuple(request.tokens), request.max_tokens, generated)


def summaries(stage: Any) -> list[Asked]:
    """What was asked of the engine for summaries, in order."""
    stops = ["think", "calls"]
    return [Asked.of(*pair) for pair in stage.engine.asked if [rule.name for rule in pair[0].stops] == stops]


def forget(stage: Any) -> None:
    """Nothing was asked so far."""
    stage.engine.asked.clear()
    stage.engine.synced.clear()


async def compact(stage: Any, instructions: str | None = None, cancel: Cancel | None = None) -> CompactResult:
    result = await stage.agent.command("ds4.compact", CompactArguments(instructions=instructions), cancel or Cancel())
    assert isinstance(result, CompactResult)
    return result


async def transcript(stage: Any) -> list[int]:
    """Token ids of system prompt and surface."""
    tokens, _opening = await stage.transcript()
    return list(tokens)


async def unevaluated(stage: Any, *, ended: bool) -> int:
    """Tokens of a reply just given that the KV lacks: the last one, which nobody had to evaluate, and what closes it.
    ``ended``: it is the model's end token."""
    found = await stage.agent.services.transcript(stage.runtime)
    return 1 + len(await stage.engine.tokenize(render.assistant_close(found.frames, ended)))


async def kv_is_the_transcripts(stage: Any, *, whole: bool = False) -> None:
    """The KV holds a beginning of the transcript and nothing else; all of it with ``whole``."""
    tokens, opening = await stage.transcript()
    held = list(stage.engine.kv)
    assert held == [*tokens, *opening][: len(held)]
    assert len(held) >= len(tokens) or not whole


def log_is_whole(stage: Any) -> None:
    """Every rule of the log holds, no compaction is open, every progress has ended."""
    stage.runtime.session.save_meta()
    report = verify(stage.runtime.session.directory)
    assert report.problems == []
    assert report.repairs == []
    starts, ends = stage.events("compact/start"), stage.events("compact/end")
    assert len(starts) == len(ends)
    assert stage.listener.open == set()


def checkpoint(stage: Any) -> dict[str, Any]:
    """The data of the surface's first node, which is a checkpoint."""
    data: dict[str, Any] = stage.runtime.session.surface[0].data
    assert data["kind"] == "checkpoint"
    return data


def host_of(stage: Any) -> Any:
    """The compaction's host of the current session."""
    host, _compactions = stage.agent.compactor._of(stage.runtime)
    return host


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that is bound to happen."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
