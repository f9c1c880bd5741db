"""However client or server end, in the middle of a prefill with a job running: nothing outlives them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from rig import LONG, Rig

from ds4_lsp.session.verify import verify

LIMIT = 20.0
"""Seconds: less than the prefill takes and the jobs sleep. That the waits of the end sum up to less than the contract's
two seconds is shown in ``server/test_lifecycle.py``."""
HERE = Path(__file__).parent


def alive(process: psutil.Process) -> bool:
    """A zombie is dead: who collects it is not our affair."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def gone(processes: list[psutil.Process], since: float) -> None:
    while left := [process for process in processes if alive(process)]:
        assert time.monotonic() - since < LIMIT, left
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("way", ["client killed", "end of input", "exit", "server killed"])
async def test_server_engine_and_jobs_are_gone_before_what_they_were_doing_could_end(rig: Rig, way: str) -> None:
    rig.share_prompts()
    client = await asyncio.create_subprocess_exec(
        sys.executable,
        HERE / "doomed_client.py",
        rig.root,
        rig.model,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE.parents[1])])},
    )
    assert client.stdin is not None and client.stdout is not None
    server = psutil.Process(int(await asyncio.wait_for(client.stdout.readline(), LONG)))
    processes = [server, *server.children(recursive=True)]
    lines = [" ".join(process.cmdline()) for process in processes]
    for part in ("ds4_lsp.engine", "supervisor.py", "sleep 1001", "sleep 1002"):
        assert any(part in line for line in lines), (part, lines)
    begun = time.monotonic()
    match way:
        case "client killed":
            client.kill()
        case "server killed":
            server.kill()
        case _:
            client.stdin.write(b"exit\n" if way == "exit" else b"eof\n")
    await gone(processes, begun)
    if client.returncode is None and way != "client killed":
        client.stdin.close()
    await asyncio.wait_for(client.wait(), LONG)

    [log] = rig.state.rglob("events.jsonl")
    report = verify(log.parent)
    assert report.problems == []
    if way == "server killed":
        assert any("job/ended" in repair for repair in report.repairs)
        assert any("turn/end" in repair for repair in report.repairs)
    else:
        # There was time to end in order.
        assert report.repairs == []
    await what_was_said_is_there(rig)


async def what_was_said_is_there(rig: Rig) -> None:
    """A next server opens the session: its lock is free, its history whole, its job known to be gone."""
    client = await rig.start(settings={"model": {"preload": False}})
    history: list[dict[str, Any]] = (await client.run("ds4.showHistory", {"turns": 9}))["history"]
    asked = [entry["text"].split()[0] for entry in history if entry["role"] == "user"]
    assert asked == ["start", "word"]
    assert [entry["text"] for entry in history if entry["role"] == "assistant" and entry["text"]] == ["It runs."]
    [job] = (await client.run("ds4.listJobs"))["jobs"]
    assert job["state"] in ("lost", "stopped", "killed")
    client.process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(client.process.wait(), LONG)
