"""Each kind of death, provoked for real, and what a client shows of it: three lines, one thing to do."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsp_client import Client, ResponseError
from memory_limit import limit
from rig import LONG, Rig, prompt

COUNTING = "one two three four five six seven eight nine ten " * 8
ILL = {"DS4_LSP_FAULT": "prefill:ill"}
ONCE_LOADED = {"model": {"preload": False}}
ENGINES_BYTES = 48 << 20
"""What an engine needs after its start, but for a KV cache of 4096 tokens, which needs 90 MB."""


def engines(client: Client) -> list[psutil.Process]:
    children = psutil.Process(client.process.pid).children(recursive=True)
    return [child for child in children if "ds4_lsp.engine" in child.cmdline()]


async def engine(client: Client) -> psutil.Process:
    """The engine, as soon as there is one."""
    deadline = asyncio.get_running_loop().time() + LONG
    while not (found := engines(client)):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)
    return found[0]


def size(path: str) -> int:
    return Path(path).stat().st_size


async def told(client: Client, text: str = "hello") -> list[str]:
    """The lines that a prompt's user gets to see."""
    try:
        result = await prompt(client, text)
    except ResponseError as refused:
        assert refused.data["code"] == "engineDied"
        message = refused.message
    else:
        assert result["stopReason"] == "error"
        message = result["error"]
        assert client.events("turn.end")[-1]["error"] == message
    shown = [params["message"] for params in client.notifications("window/showMessage")]
    assert all(len(one.splitlines()) <= 3 for one in [message, *shown])
    log = re.search(r"Its log: (\S+)$", message)
    assert log is not None
    assert size(log[1]) > 1000
    return message.splitlines()


async def test_an_illegal_instruction_names_the_command_and_the_second_is_the_last(tiny: Rig) -> None:
    client = await tiny.start(script=tiny.script("Here."), env=ILL, settings=ONCE_LOADED)
    what, remedy, then = await told(client)
    assert "(SIGILL): the installed llama.cpp does not fit this CPU" in what
    assert re.search(r": make -C \S+ install LLAMA_CPP_NATIVE=off$", remedy)
    assert then.startswith("The next prompt starts a new engine.")
    *_, then = await told(client)
    assert then.startswith("It is the second such death in a row")
    *_, then = await told(client)
    assert then.startswith("It is the second such death in a row")
    assert engines(client) == []
    # Who asks for it gets it, and so does a prompt after a setting was changed.
    assert (await client.run("ds4.loadModel", timeout=LONG))["model"]
    assert len(engines(client)) == 1
    *_, then = await told(client)
    assert then.startswith("It is the second such death in a row")
    assert client.stray == b""


async def test_memory_that_runs_out_is_told_with_what_was_needed_and_the_settings_that_lower_it(rig: Rig) -> None:
    client = await rig.start(script=rig.script("Here."), settings=ONCE_LOADED)
    with limit(ENGINES_BYTES) as joining:
        asking = asyncio.ensure_future(told(client))
        joining.write_text(str((await engine(client)).pid))
        what, remedy, then = await asking
    assert what.startswith("The system ended the engine (SIGKILL): memory ran out. Smollm2")
    assert re.search(
        r"needs about \d+ MiB \(model \d+ MiB, context of 4096 tokens \d+ MiB, work space \d+ MiB\)\.$", what
    )
    assert "lower ds4.model.contextSize, set ds4.model.kvCacheType to q8_0, or choose a smaller model" in remedy
    assert then.startswith("The next prompt starts a new engine.")
    # Without the limit that is so.
    assert (await prompt(client, "hello"))["text"] == "Here."


async def test_a_model_file_that_is_truncated_in_use_is_told_and_mended_by_putting_it_back(tiny: Rig) -> None:
    whole, tiny.model = tiny.model, tiny.root / "model.gguf"
    shutil.copyfile(whole, tiny.model)
    client = await tiny.start(script=tiny.script("Here.", "never", "Again."), settings=ONCE_LOADED)
    assert (await prompt(client, "hello"))["text"] == "Here."
    truncate(tiny.model)
    what, remedy, _ = await told(client)
    assert "(SIGBUS)" in what
    assert re.search(r"model.gguf was changed while it was in use \(\d+ bytes when it was loaded, 4096 now\)\.$", what)
    assert remedy.startswith("Put the whole file back")
    with pytest.raises(ResponseError, match="corrupt"):
        await prompt(client, "hello?")
    shutil.copyfile(whole, tiny.model)
    assert (await prompt(client, "hello again"))["text"] == "Again."


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(4096)


async def test_anything_else_is_told_by_the_last_error_line(tiny: Rig) -> None:
    env = {"DS4_LSP_FAULT": "decode:abort"}
    client = await tiny.start(script=tiny.script("Here."), env=env, settings=ONCE_LOADED)
    what, then = await told(client)
    assert what.startswith("The engine was ended by SIGABRT")
    assert then.startswith("The next prompt starts a new engine.")


async def test_the_servers_own_log_gets_no_stacks(tiny: Rig) -> None:
    """An editor shows it as it comes."""
    client = await tiny.start(env=ILL, settings=ONCE_LOADED)
    await told(client)
    await client.close()
    lines: list[Any] = client.stderr.decode().splitlines()
    assert len([line for line in lines if "SIGILL" in line]) == 1
    assert not [line for line in lines if "Thread 0x" in line or "Fatal Python error" in line]
