"""The LSP loop of the process: transport, protocol and host put together, and their orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

from ds4_lsp.server.greeting import Greeting
from ds4_lsp.server.host import Host
from ds4_lsp.server.lifetime import Lifetime
from ds4_lsp.server.protocol import new_protocol
from ds4_lsp.server.seam import AgentFactory, ServerOptions
from ds4_lsp.server.transport import Transport
from ds4_lsp.server.worker import Loop

log = logging.getLogger(__name__)

FLUSH_WAIT = 0.2
"""Seconds for a client to take what was still to be sent."""


def serve(
    transport: Transport, lifetime: Lifetime, options: ServerOptions, make_agent: AgentFactory, greeting: Greeting
) -> int:
    """Serve the client of a started transport until the end; the exit code. ``greeting``: that of the transport."""
    return asyncio.run(_serve(transport, lifetime, options, make_agent, greeting))


async def _serve(
    transport: Transport, lifetime: Lifetime, options: ServerOptions, make_agent: AgentFactory, greeting: Greeting
) -> int:
    protocol = new_protocol()
    protocol.send = transport.write
    protocol.was_answered = greeting.has_answered
    lifetime.exit_code = lambda: 0 if protocol.shutdown_requested else 1
    loop = Loop(asyncio.get_running_loop())
    ended = asyncio.Event()
    lifetime.on_end(lambda: loop.post(ended.set))
    _follow_signals(lifetime)
    host = Host(protocol, lifetime, options, make_agent, lambda: transport.backlog)
    transport.attach(loop.post, protocol.receive, protocol.bad_json)
    await ended.wait()
    await host.end()
    transport.close(FLUSH_WAIT)
    return lifetime.exit_code()


def _follow_signals(lifetime: Lifetime) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, lifetime.end, f"signal {signal.Signals(number).name}")
    if sys.stdin is None or not os.isatty(0):
        # A terminal sends ^C to the whole process group; for a client's server it is the client's to handle.
        loop.add_signal_handler(signal.SIGINT, log.debug, "SIGINT is the client's")
    else:
        loop.add_signal_handler(signal.SIGINT, lifetime.end, "signal SIGINT")
