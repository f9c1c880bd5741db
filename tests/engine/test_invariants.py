"""Whatever is asked and cancelled in whatever order: the client's mirror is what the KV holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ds4_lsp.ports import Cancel, Forced, Quiet, StopRule

pytestmark = pytest.mark.asyncio(loop_scope="session")

POOL = [(7919 * i) % 40000 + 100 for i in range(400)]
LENGTHS = st.integers(0, 400)
TEXTS = st.sampled_from(
    [
        "a",
        "a few words of text",
        "<think>no STOP</think> but STOP here",
        "é👩 x",
        "<|im_end|>",
        "<think>no<|im_start|>STOP<|im_end|>but STOP<|endoftext|>",
    ]
)
ENDS = st.sets(st.sampled_from(["<|im_end|>", "<|im_start|>", "<|endoftext|>"])).map(lambda texts: tuple(sorted(texts)))


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "length": draw(LENGTHS),
        "branch": draw(st.lists(st.integers(0, 40000), max_size=3)),
        "forced": draw(st.none() | TEXTS),
        "max_tokens": draw(st.integers(0, 12)),
        "cancel_at": draw(st.none() | st.sampled_from(["before", "prefill", "token"])),
        "follow": draw(st.booleans()),
        "ends": {"stop_texts": draw(ENDS), "goes_on": draw(ENDS), "visible": draw(ENDS)},
    }


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps(), min_size=1, max_size=6))
async def test_the_mirror_is_the_kv_after_any_operations(shared: Any, plan: list[dict[str, Any]]) -> None:
    transcript: list[int] = []
    for step in plan:
        head = transcript if step["follow"] else POOL[: step["length"]]
        tokens = [*head, *step["branch"]][:900]
        cancel = Cancel()
        if step["cancel_at"] == "before":
            cancel.set()
        if step["cancel_at"] == "prefill":
            task_cancel = cancel

            def progressed(done: int, _total: int, cancel: Cancel = task_cancel) -> None:
                if done:
                    cancel.set()

            await shared.client.sync(tokens, on_progress=progressed, cancel=cancel)
        elif step["forced"] is None or not tokens:
            synced = await shared.sync(tokens, cancel)
            assert sum(count for _, count in synced.batches) == synced.evaluated
        else:
            reply = await shared.generate(
                tokens,
                step["max_tokens"],
                cancel,
                on_tokens=(lambda _i, _t, cancel=cancel: cancel.set()) if step["cancel_at"] == "token" else None,
                forced=Forced(step["forced"]),
                stops=(StopRule("s", "STOP", keep=False),),
                quiet=Quiet(("<think>",), ("</think>", "<|im_end|>"), initially=False),
                **step["ends"],
            )
            transcript = [*tokens, *reply.tokens]
            assert tuple(shared.ids) == reply.tokens
            assert "".join(shared.texts) == reply.text
            held = list(shared.client.kv)
            assert held == transcript[: len(held)]
            if reply.reason != "cancelled":
                assert len(held) >= len(tokens)
        await shared.agrees()
    reply = await shared.generate([*POOL[:70], 1], 3)
    await shared.sync([])
    assert (await shared.generate([*POOL[:70], 1], 3)).tokens == reply.tokens
