"""The client's end of JSON-RPC, against small servers in real processes."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from ds4_lsp.cli.rpc import METHOD_NOT_FOUND, Connection, RpcError, ServerGone

PRELUDE = """
import json, os, signal, sys, time
def read():
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length)) if length else None
def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\nContent-Type: x\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()
"""


class Peer:
    """What a server told its client."""

    def __init__(self) -> None:
        self.notifications: list[tuple[str, dict[str, Any]]] = []

    def notified(self, method: str, params: dict[str, Any]) -> None:
        self.notifications.append((method, params))

    async def requested(self, method: str, params: dict[str, Any]) -> Any:
        if method == "wait":
            await asyncio.get_running_loop().create_future()
        if method == "fail":
            raise ZeroDivisionError("by zero")
        if method != "double":
            raise RpcError(METHOD_NOT_FOUND, f"{method} is not supported")
        return params["n"] * 2


async def start(body: str, peer: Peer | None = None) -> Connection:
    peer = peer or Peer()
    command = [sys.executable, "-c", PRELUDE + body]
    return await Connection.start(command, on_notification=peer.notified, on_request=peer.requested)


async def test_results_reach_their_requests_in_any_order() -> None:
    connection = await start("""
a, b = read(), read()
send(id=b["id"], result=b["params"])
send(id=a["id"], result=a["params"])
read()
""")
    results = await asyncio.gather(connection.request("x", {"a": "é\u2028"}), connection.request("x", {"b": 2}))
    assert results == [{"a": "é\u2028"}, {"b": 2}]
    assert await connection.close() == 0


async def test_an_error_reply_raises_with_the_servers_data() -> None:
    connection = await start("""
send(id=read()["id"], error={"code": -32803, "message": "busy", "data": {"code": "busy"}})
read()
""")
    with pytest.raises(RpcError, match="busy") as caught:
        await connection.request("x", {})
    assert (caught.value.code, caught.value.data) == (-32803, {"code": "busy"})
    await connection.close()


async def test_every_request_of_the_server_gets_one_answer() -> None:
    peer = Peer()
    connection = await start(
        """
start = read()
for n, method in enumerate(["double", "nothing", "fail"]):
    send(id="s%d" % n, method=method, params={"n": 21})
answers = {m["id"]: m.get("result", m.get("error", {}).get("code")) for m in (read(), read(), read())}
send(method="told", params=answers)
send(id=start["id"], result=None)
read()
""",
        peer,
    )
    await connection.request("go", {})
    assert peer.notifications == [("told", {"s0": 42, "s1": METHOD_NOT_FOUND, "s2": -32603})]
    await connection.close()


async def test_a_request_that_the_server_cancels_is_answered_with_null() -> None:
    connection = await start("""
start = read()
send(id=7, method="wait", params={})
send(method="$/cancelRequest", params={"id": 7})
send(id=start["id"], result=read())
read()
""")
    assert await connection.request("go", {}) == {"jsonrpc": "2.0", "id": 7, "result": None}
    await connection.close()


async def test_giving_up_a_request_cancels_it_at_the_server() -> None:
    peer = Peer()
    connection = await start(
        """
first, cancel = read(), read()
send(method="told", params={"method": cancel["method"], "same": cancel["params"]["id"] == first["id"]})
send(id=read()["id"], result=None)
read()
""",
        peer,
    )
    task = asyncio.create_task(connection.request("slow", {}))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await connection.request("sync", {})
    assert peer.notifications == [("told", {"method": "$/cancelRequest", "same": True})]
    await connection.close()


async def test_a_server_that_dies_says_so_with_its_last_words() -> None:
    connection = await start("""
read()
print("out of memory", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGABRT)
""")
    with pytest.raises(ServerGone, match="SIGABRT") as caught:
        await connection.request("x", {})
    assert "out of memory" in str(caught.value)
    await connection.close()


async def test_output_that_is_not_lsp_ends_the_connection_with_a_reason() -> None:
    connection = await start("""
read()
print("Hello, I am a log line", flush=True)
read()
""")
    with pytest.raises(ServerGone, match=r"not LSP.*I am a log line"):
        await connection.request("x", {})
    await connection.close()


async def test_a_command_that_does_not_exist_is_named() -> None:
    peer = Peer()
    with pytest.raises(ServerGone, match="no-such-server"):
        await Connection.start(["no-such-server"], on_notification=peer.notified, on_request=peer.requested)


async def test_a_request_after_the_end_is_refused_and_not_waited_for() -> None:
    connection = await start("read()\n")
    with pytest.raises(ServerGone, match="exit status 0"):
        await connection.request("x", {})
    with pytest.raises(ServerGone, match="exit status 0"):
        await connection.request("y", {})
    await connection.close()
