"""A client in a process of its own, so that it can be killed: ``python doomed_client.py ROOT MODEL``.

It has a server prefill a long prompt beside a running job, and prints the server's process id. Then it does what a
line on its input says: ``eof`` closes the server's input, ``exit`` sends that notification.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from lsp_client import Client
from rig import LONG, Rig, call, prompt

JOB = "setsid sleep 1001 & sleep 1002"


async def prefill_beside_a_job(rig: Rig) -> Client:
    script = rig.script(call("bash", command=JOB, refresh_sec=0), "It runs.")
    settings = {
        "model": {"contextSize": 8192, "batchSize": 256},
        "permissions": {"bash": "allow"},
        "compaction": {"auto": False},
    }
    client = await rig.start(script=script, settings=settings)
    await prompt(client, "start it")
    client.send_command("ds4.prompt", {"text": "word " * 5000}, token="reading")

    def reading() -> bool:
        messages = [value.get("message", "") for value in client.progress("reading")]
        return bool(messages) and messages[-1].startswith("reading ") and not messages[-1].startswith("reading 0/")

    await client.wait(reading, LONG)
    return client


async def main(root: Path, model: Path) -> None:
    client = await prefill_beside_a_job(Rig(root, model))
    print(client.process.pid, flush=True)
    order = (await asyncio.to_thread(sys.stdin.readline)).strip()
    if order == "exit":
        client.notify("exit", None)
    elif order == "eof":
        assert client.process.stdin is not None
        client.process.stdin.close()
    await client.process.wait()


asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
