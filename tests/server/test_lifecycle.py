"""The process: how it starts, what it answers when, and that it always ends, whatever it was doing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lsp_client import GUARDED, TIMEOUT, Client, Disconnected, ResponseError

from ds4_lsp.server.host import SHUTDOWN_WAIT
from ds4_lsp.server.lifetime import DEADLINE, PARENT_POLL
from ds4_lsp.server.serving import FLUSH_WAIT

LIMIT = 2.0
"""Seconds that the contract gives the process to end."""


def test_all_that_the_end_waits_for_fits_into_the_contract_s_seconds() -> None:
    """The rest of this file shows that nothing else is waited for: not by the clock, which a busy machine falsifies."""
    assert SHUTDOWN_WAIT + FLUSH_WAIT < DEADLINE
    assert PARENT_POLL + DEADLINE <= LIMIT


async def ends(client: Client) -> int:
    """Its exit status. It has to end long before the minute that what it was doing would take."""
    return await asyncio.wait_for(client.process.wait(), TIMEOUT)


async def hang_up(client: Client) -> int:
    assert client.process.stdin is not None
    client.process.stdin.close()
    return await ends(client)


async def test_initialize_tells_what_the_server_can_do(connect: Any) -> None:
    client = await connect(GUARDED)
    capabilities = client.server["capabilities"]
    assert client.server["serverInfo"]["name"] == "ds4-lsp"
    assert capabilities["textDocumentSync"] == {"openClose": True, "change": 2, "save": {"includeText": False}}
    assert "ds4.prompt" in capabilities["executeCommandProvider"]["commands"]
    assert capabilities["workspace"]["workspaceFolders"] == {"supported": True, "changeNotifications": True}
    assert "textDocumentContent" not in capabilities["workspace"]
    assert capabilities["experimental"]["ds4"]["version"]
    assert await client.shutdown() == 0


async def test_capabilities_of_the_future_do_not_fail_initialize(connect: Any) -> None:
    strange = {
        "textDocument": {"codeAction": {"tagSupport": {"valueSet": [1, 99]}}, "completion": 7},
        "workspace": {"workspaceEdit": {"failureHandling": "quantum", "resourceOperations": 3}},
        "general": {"positionEncodings": "utf-9"},
    }
    client = await connect(strange, trace="everything", workspaceFolders=[{"uri": 3}])
    assert (await client.run("ds4.status"))["state"] == "idle"


async def test_requests_out_of_turn_get_the_errors_that_lsp_asks_for(start: Any) -> None:
    client = await start()
    with pytest.raises(ResponseError, match="-32002"):
        await client.request("workspace/executeCommand", {"command": "ds4.status"})
    await client.initialize()
    with pytest.raises(ResponseError, match="-32600"):
        await client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    with pytest.raises(ResponseError, match="-32601"):
        await client.request("textDocument/unheardOf", {})
    with pytest.raises(ResponseError, match="-32602"):
        await client.request("textDocument/codeAction", {"textDocument": 3})
    client.notify("$/unheardOf", {})
    client.notify("textDocument/didOpen", {"nonsense": True})
    client.write([1, 2])
    client.write_raw(b"Content-Length: 5\r\n\r\n{oops")
    await client.wait(
        lambda: {m["error"]["code"] for m in client.received if m.get("id", 0) is None} == {-32600, -32700}
    )
    for odd in ({"id": [1], "method": "shutdown"}, {"id": None, "method": "shutdown"}, {"id": 1.5, "method": "x"}, {}):
        heard = len(client.received)
        client.write({"jsonrpc": "2.0", **odd})
        await client.wait(lambda heard=heard: len(client.received) > heard)
        assert (client.received[-1]["id"], client.received[-1]["error"]["code"]) == (None, -32600), odd
    client.write({"jsonrpc": "2.0", "id": {}, "result": None})
    assert (await client.run("ds4.status"))["state"] == "idle"
    await client.request("shutdown", None)
    with pytest.raises(ResponseError, match="-32600"):
        await client.run("ds4.status")
    client.notify("exit", None)
    assert await ends(client) == 0


async def test_an_exit_without_shutdown_and_a_hang_up_are_failures(connect: Any) -> None:
    client = await connect()
    client.notify("exit", None)
    assert await ends(client) == 1
    assert await hang_up(await connect()) == 1


async def test_the_process_ends_in_the_middle_of_a_turn(connect: Any) -> None:
    client = await connect(GUARDED)
    _, answer = client.send_command("ds4.prompt", {"text": "wait"})
    await client.wait_for("ds4/event", lambda event: event.get("delta") == "waiting")
    assert await hang_up(client) == 1
    # The reply is sent where there is still somebody to read it.
    [outcome] = await asyncio.gather(answer, return_exceptions=True)
    assert isinstance(outcome, Disconnected) or outcome["stopReason"] == "cancelled"


async def test_the_process_ends_while_its_worker_is_blocked(connect: Any) -> None:
    client = await connect(GUARDED)
    client.send_command("ds4.prompt", {"text": "hog 60"})
    await client.wait_for("ds4/event", lambda event: event.get("delta") == "hogging")
    await client.request("shutdown", None)
    client.notify("exit", None)
    assert await ends(client) == 0


async def test_the_process_ends_though_its_agent_does_not(connect: Any) -> None:
    client = await connect()
    assert (await client.run("ds4.prompt", {"text": "stuck"}))["text"] == "stuck"
    assert await hang_up(client) == 1


def test_the_process_ends_though_nobody_reads_what_it_writes(server_command: tuple[str, ...]) -> None:
    process = subprocess.Popen(server_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    bodies = [
        b'{"jsonrpc":"2.0","id":%d,"method":"nothing/%s"}' % (number, b"x" * 1000 if number else b"")
        for number in range(999)
    ]
    process.stdin.write(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies))
    process.stdin.flush()
    # The first answer shows that the server is up and writing; the rest fills the pipe and stays there.
    assert process.stdout.readline().startswith(b"Content-Length: ")
    process.stdin.close()
    assert process.wait(TIMEOUT) == 1
    process.stdout.close()


async def test_the_process_ends_with_its_parent(connect: Any) -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    client = await connect(processId=parent.pid)
    assert (await client.run("ds4.status"))["state"] == "idle"
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    assert await ends(client) == 1


async def test_sigterm_ends_it_and_sigint_is_the_clients(connect: Any) -> None:
    client = await connect()
    client.process.send_signal(signal.SIGINT)
    assert (await client.run("ds4.status"))["state"] == "idle"
    client.process.send_signal(signal.SIGTERM)
    assert await ends(client) == 1


async def test_a_client_killed_together_with_nothing_else_takes_the_server_with_it(
    server_command: tuple[str, ...], tmp_path: Path
) -> None:
    """The client is a process of its own, which starts the server and is killed."""
    script = (
        "import subprocess, sys, time\n"
        "server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(server.pid, flush=True)\n"
        "server.wait()\n"
    )
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, *server_command, stdout=asyncio.subprocess.PIPE
    )
    assert client.stdout is not None
    server = int(await client.stdout.readline())
    fd = os.pidfd_open(server)
    client.kill()
    await client.wait()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(fd, ended.set)
    # Including the rest of the server's start.
    await asyncio.wait_for(ended.wait(), TIMEOUT)
    asyncio.get_running_loop().remove_reader(fd)
    os.close(fd)


async def test_nothing_but_protocol_reaches_stdout(connect: Any) -> None:
    client = await connect()
    assert (await client.run("ds4.prompt", {"text": "print"}))["text"] == "printed"
    assert await client.shutdown() == 0
    assert client.stray == b""
    assert b"to sys.stdout" in client.stderr
    assert b"to descriptor 1" in client.stderr


async def test_other_requests_are_answered_while_the_worker_is_blocked(connect: Any) -> None:
    client = await connect(GUARDED)
    _, hog = client.send_command("ds4.prompt", {"text": "hog 1.5"})
    await client.wait_for("ds4/event", lambda event: event.get("delta") == "hogging")
    params = {
        "textDocument": {"uri": "file:///x"},
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}},
        "context": {"diagnostics": []},
    }
    assert len(await client.request("textDocument/codeAction", params)) == 2
    assert not hog.done()
    assert (await hog)["text"] == "done"


async def test_one_client_is_served_on_a_socket(start: Any) -> None:
    server = await start("--tcp", ":0")
    client = Client()
    found = await server.wait(lambda: re.search(rb"listening on 127.0.0.1:(\d+)", server.stderr))
    await client.connect("127.0.0.1", int(found[1]))
    await client.initialize()
    assert (await client.run("ds4.prompt", {"text": "say hello"}))["text"] == "hello"
    client._socket.close()
    assert await ends(server) == 1
    await client.close()


@pytest.mark.parametrize("options", [["--tcp", "nowhere"], ["--unknown"], ["--model"]])
def test_a_wrong_command_line_says_so(server_command: tuple[str, ...], options: list[str]) -> None:
    process = subprocess.run([*server_command, *options], capture_output=True, check=False, timeout=TIMEOUT)
    assert process.returncode == 2
    assert process.stdout == b""
    assert process.stderr


async def test_the_log_goes_to_a_client_that_traces(connect: Any) -> None:
    client = await connect()
    client.notify("textDocument/didChange", {"textDocument": {"uri": "file:///a", "version": 2}, "contentChanges": []})
    client.notify("$/setTrace", {"value": "messages"})
    client.notify("textDocument/didChange", {"textDocument": {"uri": "file:///b", "version": 2}, "contentChanges": []})
    message = await client.wait_for("window/logMessage")
    assert message["type"] == 2
    assert "file:///b" in message["message"]
    assert len(client.notifications("window/logMessage")) == 1
