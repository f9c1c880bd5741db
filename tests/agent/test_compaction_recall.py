"""What the model still has before it after 1, 3 and 10 compactions of a session with planted facts.

Real tools, real engine; the facts are looked for in the text of the tokens that its KV holds. The table in
docs/compaction.md is what these runs came to.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as C
import pytest
from compacting import checkpoint, compact, kv_is_the_transcripts, log_is_whole
from rig import call

from ds4_lsp.edits.text import file_tag
from ds4_lsp.engine.vocab import Vocabulary

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCUMENT = Path(__file__).parents[2] / "docs" / "compaction.md"
BEGIN, END = "<!-- recall -->", "<!-- /recall -->"
CONTEXT = 16384
ROUNDS = 10
SHOWN = (1, 3, 10)

TASK = "Move the billing service off the legacy queue.\n  Keep the  spacing, and call it 注文移行 `queue-7f3a`."
PATHS = [f"src/part_{number:02}.py" for number in range(2 * ROUNDS)]
COMMANDS = [f"sh check_{number:02}.sh" for number in range(ROUNDS)]
ERRORS = [f"E{4000 + number}: consumer lag is {number * 17} ms" for number in range(ROUNDS)]
DECISIONS = [f"decision {number}: the retry budget of part {number} is {number * 3 + 1}" for number in range(ROUNDS)]
TEXT = "".join(f"value_{number} = {number}  # one of many\n" for number in range(30))
PLANTED: dict[str, Callable[[int], list[str]]] = {
    "the task": lambda rounds: [TASK],
    "files": lambda rounds: [f"{path}: read 1-30; edited; file_tag=" for path in PATHS[: 2 * rounds]],
    "commands": lambda rounds: [f"`{command}`: exit status 1" for command in COMMANDS[:rounds]],
    "error messages": lambda rounds: ERRORS[:rounds],
    "decisions": lambda rounds: DECISIONS[:rounds],
}
NOTHING = "## Critical Context\nNothing of note."
PARTS = ("requests", "summary", "ledger", "tail")


def edit(path: str) -> str:
    return call("edit", path=path, file_tag=file_tag(TEXT), line=1, new="v = 1")


def together(*calls: str) -> str:
    """Several calls as one block."""
    begin, end = "<｜DSML｜tool_calls>\n", "\n</｜DSML｜tool_calls>"
    return begin + "\n".join(one.removeprefix(begin).removesuffix(end) for one in calls) + end


def replies(number: int) -> list[str]:
    """Two files read, and edited, a command that fails, a decision: of the model in every other round."""
    both = PATHS[2 * number : 2 * number + 2]
    reads = together(*(call("read", path=path) for path in both))
    work = [reads, together(*(edit(path) for path in both), call("bash", command=COMMANDS[number]))]
    said = f"It fails. {DECISIONS[number]}." if number % 2 else "It fails."
    return [*work, said]


def prompt_of(number: int) -> str:
    if number == 0:
        return f"{TASK}\n{DECISIONS[0]}."
    return f"Go on with part {number}." + ("" if number % 2 else f" {DECISIONS[number]}.")


def remembering(rounds: int) -> str:
    return "\n".join(["## Errors and Fixes", *ERRORS[:rounds], "## Critical Context", *DECISIONS[:rounds]])


@pytest.fixture(scope="session")
def decode(small_model: Path) -> Callable[[list[int]], str]:
    """Text of token ids, by the small model's vocabulary, which is the tiny one's."""
    C.llama_backend_init()
    parameters = C.llama_model_default_params()
    parameters.vocab_only = True
    model = C.llama_model_load_from_file(str(small_model).encode(), parameters)
    vocabulary = Vocabulary(C.llama_model_get_vocab(model))
    return lambda ids: b"".join(vocabulary.piece(token) for token in ids).decode()


async def by_part(stage: Any, decode: Callable[[list[int]], str]) -> dict[str, str]:
    """The text of the KV, by the part of the transcript that it belongs to."""
    await kv_is_the_transcripts(stage, whole=True)
    held = list(stage.engine.kv)
    found = await stage.agent.services.transcript(stage.runtime)
    first, *_rest = await found.nodes(stage.runtime.session.surface.events)
    text = decode(first)
    assert held[len(found.system) : len(found.system) + len(first)] == first
    tail = decode(held[len(found.system) + len(first) :])
    requests, _, rest = text.partition("\n# Summary\n")
    summary, _, ledger = rest.partition("\n# Ledger: recorded facts, newest first\n")
    return dict(zip(PARTS, (requests, summary, ledger, tail), strict=True))


async def session(stage: Any, summary: Callable[[int], str], decode: Any) -> dict[int, dict[str, str]]:
    """Ten rounds, each with a compaction after it; the parts after those that are shown."""
    root = Path(stage.editor.current_root)
    (root / "src").mkdir(exist_ok=True)
    for path in PATHS:
        (root / path).write_text(TEXT)
    for command, error in zip(COMMANDS, ERRORS, strict=True):
        (root / command.removeprefix("sh ")).write_text(f"echo '{error}' >&2\nexit 1\n")
    seen, lengths = {}, []
    for number in range(ROUNDS):
        stage.script(*replies(number), summaries=[summary(number + 1)])
        result = await stage.prompt(prompt_of(number))
        assert [one.ok for one in result.tool_calls] == [True] * 5, result
        done = await compact(stage)
        assert done.compacted, done.reason
        assert done.checkpoint_token_count <= CONTEXT // 4
        assert checkpoint(stage)["parts"]["summary"] == summary(number + 1)
        if number + 1 in SHOWN:
            seen[number + 1] = await by_part(stage, decode)
        lengths.append(stage.runtime.session.log.length)
    log_is_whole(stage)
    growth = [later - earlier for earlier, later in pairwise(lengths)]
    assert max(growth[1:]) < 1.5 * min(growth[1:]), "the log grows linearly"
    return seen


def rows(name: str, seen: dict[int, dict[str, str]]) -> list[str]:
    lines = []
    for compactions, parts in seen.items():
        for kind, planted in PLANTED.items():
            facts = planted(compactions)
            counts = [str(sum(fact in parts[part] for fact in facts)) for part in PARTS]
            anywhere = sum(any(fact in text for text in parts.values()) for fact in facts)
            lines.append(f"| {name} | {compactions} | {kind} | {' | '.join(counts)} | {anywhere} of {len(facts)} |")
    return lines


async def test_the_task_and_the_ledgers_facts_are_all_there_always_whatever_the_summary_forgets(
    large_stages: Any, decode: Any
) -> None:
    table = [
        "| a summary that | compactions | planted | requests | summary | ledger | tail | present |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, summary in (("forgets everything", lambda _rounds: NOTHING), ("keeps what it should", remembering)):
        stage = await large_stages(CONTEXT, "recall", compaction={"tailPercent": 5})
        seen = await session(stage, summary, decode)
        table += rows(name, seen)
        for compactions, parts in seen.items():
            assert TASK in parts["requests"]
            for kind in ("files", "commands"):
                for fact in PLANTED[kind](compactions):
                    assert fact in parts["ledger"], fact
            if summary is remembering:
                for fact in PLANTED["error messages"](compactions) + PLANTED["decisions"](compactions):
                    assert fact in parts["summary"]
    made = "\n".join(table)
    written = DOCUMENT.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert written == made, f"put this between the marks in {DOCUMENT.name}:\n{made}"
