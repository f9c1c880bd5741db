"""What the server is started with: variables that change how Python and OpenMP behave, and editors as they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsp_client import Client
from rig import Rig, prompt


def engine_of(client: Client) -> psutil.Process:
    [engine] = [
        child
        for child in psutil.Process(client.process.pid).children(recursive=True)
        if "ds4_lsp.engine" in " ".join(child.cmdline())
    ]
    return engine


@pytest.mark.parametrize(("given", "found"), [(None, "1000"), ("7", "7")])
async def test_the_engine_s_threads_do_not_spin_unless_the_user_says_so(
    tiny: Rig, given: str | None, found: str
) -> None:
    client = await tiny.start(script=tiny.script("One."), env={"GOMP_SPINCOUNT": given})
    await prompt(client, "first")
    assert engine_of(client).environ()["GOMP_SPINCOUNT"] == found


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONUNBUFFERED": "1"},
        {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "always"},
        {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"},
        {"PYTHONOPTIMIZE": "2"},
        {"HOME": None, "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None},
    ],
    ids=lambda env: next(iter(env)),
)
async def test_the_server_works_in_any_environment(tiny: Rig, env: dict[str, Any]) -> None:
    tiny.file("注.txt", "注文移行\n")
    client = await tiny.start(script=tiny.script("Ölçü: 注文 🦉."), env=env)
    assert (await prompt(client, "注文?"))["text"] == "Ölçü: 注文 🦉."
    text = (await client.run("ds4.readFile", {"uri": tiny.uri("注.txt")}))["text"]
    assert "注文移行" in text
    assert client.stray == b""
    assert await client.shutdown() == 0


async def test_a_module_of_the_workspace_never_shadows_the_server_s(tiny: Rig) -> None:
    """The server runs in the folder that the editor has open: what is there must not be imported."""
    for name in ("json.py", "llama_cpp.py", "ds4_lsp.py", "sitecustomize.py", "numpy.py"):
        (tiny.root / name).write_text(f"raise SystemExit('{name} of the workspace was imported')\n")
    installed = Path(sys.executable).parent / "ds4-lsp"
    client = await tiny.start(script=tiny.script("One."), program=(str(installed),))
    assert (await prompt(client, "first"))["text"] == "One."
    assert await client.shutdown() == 0
