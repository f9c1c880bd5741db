"""Settings that cannot work: the user is told what to do, and does it without a restart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client, ResponseError
from rig import Rig, call, prompt


def shown(client: Client) -> list[str]:
    return [message["message"] for message in client.notifications("window/showMessage")]


def change(client: Client, **settings: Any) -> None:
    client.notify("workspace/didChangeConfiguration", {"settings": {"ds4": settings}})


def with_block_count(count: int, rig: Rig) -> Path:
    """A copy of the model whose header says that."""
    data = rig.model.read_bytes()
    key = data.index(b".block_count") + len(b".block_count") + 4
    path = rig.root / "damaged.gguf"
    path.write_bytes(data[:key] + count.to_bytes(4, "little") + data[key + 4 :])
    return path


async def test_a_model_of_an_unknown_user_is_refused_and_the_next_one_loads(tiny: Rig) -> None:
    client = await tiny.start(
        script=tiny.script("One."),
        settings={"model": {"path": "~nosuchuser/x.gguf", "contextSize": 8192}},
        env={"DS4_MODEL": None},
    )
    told = await client.wait(lambda: [text for text in shown(client) if "nosuchuser" in text])
    assert "model.path" in told[0]
    for _ in range(2):
        with pytest.raises(ResponseError, match=r"nosuchuser.*model\.path|model\.path.*nosuchuser") as caught:
            await client.run("ds4.loadModel", {"path": "~nosuchuser/x.gguf"})
        assert caught.value.data["code"] == "modelLoad"
    change(client, model={"path": str(tiny.model), "contextSize": 8192})
    assert (await prompt(client, "first"))["text"] == "One."


async def test_a_pipe_or_a_corrupt_file_as_the_model_leaves_the_one_before_to_be_used(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One."), settings={"model": {"contextSize": 8192}})
    pipe = tiny.root / "pipe.gguf"
    os.mkfifo(pipe)
    with pytest.raises(ResponseError, match="regular file"):
        await client.run("ds4.loadModel", {"path": str(pipe)})
    damaged = with_block_count(2**31, tiny)
    with pytest.raises(ResponseError, match=r"corrupt.*block_count"):
        await client.run("ds4.loadModel", {"path": str(damaged)})
    assert (await prompt(client, "first"))["text"] == "One."


async def test_a_context_without_room_for_the_instructions_says_how_much_is_needed(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One."), settings={"model": {"contextSize": 512}})
    result = await prompt(client, "first")
    assert result["stopReason"] == "error"
    error = result["error"]
    assert "ds4.model.contextSize" in error
    assert "512" in error
    needed = max(int(word) for word in error.replace(",", " ").replace(".", " ").split() if word.isdigit())
    change(client, model={"contextSize": needed})
    await client.run("ds4.loadModel")
    assert (await prompt(client, "again"))["text"] == "One."


async def test_nothing_goes_on_after_shutdown_was_answered(tiny: Rig) -> None:
    """Prompts that no request waits for, as those of code actions: what runs is stopped, what waits is kept."""
    made = tiny.workspace / "made"
    client = await tiny.start(
        script=tiny.script({"purpose": "turn", "text": "one two three " * 20, "delay_ms": 40}, "Two.", "Three."),
        settings={"model": {"contextSize": 8192}, "permissions": {"bash": "allow"}},
    )
    await client.run("ds4.prompt", {"text": "first", "wait": False})
    await client.run("ds4.prompt", {"text": "second", "wait": False})
    await client.run("ds4.prompt", {"text": "/compact", "wait": False})
    await client.wait(lambda: client.events("text"), 240)
    await client.request("shutdown", None)
    ended = await client.wait_for("ds4/event", lambda event: event["kind"] == "turn.end")
    assert ended["stopReason"] == "cancelled"
    client.notify("exit", None)
    assert await client.process.wait() == 0
    assert len(client.events("turn.start")) == 1
    assert client.events("compaction.start") == []

    again = await tiny.start(
        script=tiny.script(call("bash", command=f"touch {made}"), "Done.", "Third."),
        settings={"model": {"contextSize": 8192}, "permissions": {"bash": "allow"}},
    )
    queued = (await again.run("ds4.status"))["queue"]
    assert [item["text"] for item in queued] == ["second"]
