"""Loading, unloading and choosing a model while the server runs, and what comes of a choice that cannot be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsp_client import Client, ResponseError
from rig import LONG, Rig, prompt

from benchmarks.tiny_model import build

SLOW = {"purpose": "turn", "text": "word " * 400, "delay_ms": 50}


async def loaded(client: Client) -> str | None:
    """The path of the loaded model."""
    model = (await client.run("ds4.status"))["model"]
    return None if model is None else model["path"]


async def refused(client: Client, command: str, *arguments: Any) -> ResponseError:
    with pytest.raises(ResponseError) as caught:
        await client.run(command, *arguments, timeout=LONG)
    return caught.value


@pytest.fixture(scope="session")
def other_model(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(small_model, tmp_path_factory.mktemp("other") / "other.gguf", context=8192)


async def test_a_model_that_cannot_be_loaded_leaves_the_one_chosen_before(tiny: Rig, other_model: Path) -> None:
    client = await tiny.start(script=tiny.script("One.", "Two.", "Three."))
    assert (await prompt(client, "first"))["text"] == "One."
    junk = tiny.root / "junk.gguf"
    junk.write_bytes(b"nothing of the kind")
    for path in (junk, tiny.root / "absent.gguf"):
        error = await refused(client, "ds4.loadModel", {"path": str(path)})
        assert error.data["code"] == "modelLoad"
        assert str(path) in error.message
        status = await client.run("ds4.status")
        assert status["state"] == "error"
        assert str(path) in status["error"]
    assert (await prompt(client, "second"))["text"] == "Two."
    status = await client.run("ds4.status")
    assert (status["model"]["path"], status["state"], status.get("error")) == (str(tiny.model), "idle", None)

    result = await client.run("ds4.loadModel", {"path": str(other_model)}, timeout=LONG)
    assert result["model"]["path"] == await loaded(client) == str(other_model)
    assert result["model"]["trainedContext"] == 8192
    assert (await prompt(client, "third"))["text"] == "Three."


async def test_a_changed_setting_is_told_of_and_holds_from_the_next_load_on(tiny: Rig, other_model: Path) -> None:
    client = await tiny.start(script=tiny.script("One.", "Two.", "Three."), env={"DS4_MODEL": ""})
    settings: dict[str, dict[str, Any]] = {
        "model": {"contextSize": 4096, "threads": 1},
        "sampling": {"temperature": 0.0},
    }

    def set_path(path: Path) -> None:
        model = {**settings["model"], "path": str(path)}
        client.notify("workspace/didChangeConfiguration", {"settings": {"ds4": {**settings, "model": model}}})

    assert (await refused(client, "ds4.prompt", {"text": "nobody there"})).data["code"] == "noModel"
    set_path(tiny.model)
    assert (await prompt(client, "first"))["text"] == "One."
    await client.run("ds4.loadModel", {"path": str(other_model)}, timeout=LONG)
    assert await loaded(client) == str(other_model)
    # The same path again is no change, another one is.
    set_path(tiny.model)
    assert await loaded(client) == str(other_model)
    linked = tiny.root / "linked.gguf"
    linked.symlink_to(tiny.model)
    set_path(linked)
    await client.wait_for("window/showMessage", lambda params: "take effect at the next load" in params["message"])
    assert (await prompt(client, "second"))["text"] == "Two."
    assert await loaded(client) == str(other_model), "what is loaded stays until it is loaded anew"
    settings["model"]["contextSize"] = 3072
    set_path(linked)
    result = await client.run("ds4.loadModel", {}, timeout=LONG)
    assert (result["model"]["path"], result["model"]["contextSize"]) == (str(linked), 3072)
    third = await prompt(client, "third")
    assert (third["text"], third["turn"]) == ("Three.", 3)
    told = [one for one in client.notifications("window/showMessage") if "next load" in one["message"]]
    assert len(told) == 2, "once for each change"


async def test_an_unloaded_model_is_loaded_again_by_the_next_prompt_and_nothing_else(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("One.", SLOW, "Three."))
    first = await prompt(client, "first")
    assert await client.run("ds4.unloadModel", {}, timeout=LONG) == {"model": None}
    assert await loaded(client) is None
    history = (await client.run("ds4.showHistory"))["history"]
    assert [entry["text"] for entry in history] == ["first", "One."]
    assert await loaded(client) is None

    _, running = client.send_command("ds4.prompt", {"text": "second"})
    await client.wait(lambda: [event for event in client.events("text") if event["turn"] == 2], LONG)
    for command, arguments in (("ds4.unloadModel", {}), ("ds4.loadModel", {"path": str(tiny.model)})):
        error = await refused(client, command, arguments)
        assert (error.data["code"], "Interrupt it first" in error.message) == ("busy", True)
    await client.run("ds4.interrupt")
    assert (await asyncio.wait_for(running, LONG))["stopReason"] == "cancelled"
    third = await prompt(client, "third")
    assert (third["text"], third["sessionId"], third["turn"]) == ("Three.", first["sessionId"], 3)


async def test_a_load_that_is_cancelled_loads_nothing_and_the_next_one_does(tiny: Rig) -> None:
    client = await tiny.start(settings={"model": {"preload": False}})
    number, loading = client.send_command("ds4.loadModel", {})
    client.cancel(number)
    with pytest.raises(ResponseError) as caught:
        await asyncio.wait_for(loading, LONG)
    assert caught.value.data["code"] == "cancelled"
    assert await loaded(client) is None
    result = await client.run("ds4.loadModel", {}, timeout=LONG)
    assert result["model"]["path"] == await loaded(client) == str(tiny.model)
