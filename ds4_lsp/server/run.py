"""``ds4-lsp`` as a server: descriptors first, then everything else.

The order matters. Descriptor 1 is the client's; a library that prints to it corrupts the protocol. So it is moved
away, and stderr put in its place, before anything that could print is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from ds4_lsp.ports import Editor, Listener
    from ds4_lsp.server.seam import Agent, AgentFactory, ServerOptions, Start


def take_stdout() -> int:
    """Give descriptor 1 to stderr; returns the descriptor that reaches the client."""
    client = os.dup(1)
    os.dup2(2, 1)
    return client


def main(argv: Sequence[str] | None = None, make_agent: AgentFactory | None = None) -> int:
    """Serve one client until it is done. 0 after ``shutdown``, else 1; the process ends rather than returns then.

    Returns 2 for a command line that is wrong.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _options(arguments)
    if options is None:
        return 2
    write_fd = take_stdout()
    read_fd = 0
    from ds4_lsp.server import logs

    logs.to_stderr()
    if options.tcp is not None:
        try:
            read_fd = write_fd = _accept(*options.tcp)
        except OSError as error:
            print(f"ds4-lsp: --tcp: cannot listen on {options.tcp[0]}:{options.tcp[1]}: {error}", file=sys.stderr)
            return 2
    from ds4_lsp.server.lifetime import Lifetime
    from ds4_lsp.server.transport import Transport

    lifetime = Lifetime()
    _take_signals()
    transport = Transport(read_fd, write_fd, lifetime.end)
    transport.start()
    # Loading the rest takes most of the start. By now the client's end is noticed; soon its first request is answered.
    from ds4_lsp.server.greeting import Greeting

    greeting = Greeting()
    transport.greet(greeting)
    from ds4_lsp.server.serving import serve

    code = serve(transport, lifetime, options, make_agent or agent, greeting)
    sys.stderr.flush()
    # Not a return: a library's thread that is still busy must not keep the process.
    os._exit(code)


def _take_signals() -> None:
    """What a signal does until ``serving`` takes them: the same, but there is nothing yet that has to end in order."""
    import signal

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: os._exit(1))
    if not os.isatty(0):
        # Not ignored: that would be inherited.
        signal.signal(signal.SIGINT, lambda _number, _frame: None)


def agent(editor: Editor, listener: Listener, start: Start) -> Agent:
    """The agent on a local model. On the worker's thread."""
    import dataclasses

    from ds4_lsp.agent.agent import Agent, AgentOptions
    from ds4_lsp.engine.client import EngineClient

    options = dataclasses.replace(
        AgentOptions.from_environment(trace=start.trace), context_is_default=start.context_is_default
    )
    return Agent(EngineClient(), editor, listener, start.settings, options)


def parser() -> argparse.ArgumentParser:
    """The server's options."""
    import argparse

    result = argparse.ArgumentParser(prog="ds4-lsp", description="Serve the Language Server Protocol.")
    result.add_argument("--stdio", action="store_true", help="serve on standard input and output (the default)")
    result.add_argument(
        "--tcp", metavar="HOST:PORT", help="serve one client on a socket; without HOST on the loopback, PORT 0: any"
    )
    result.add_argument("--model", metavar="PATH", help="GGUF file; overrides DS4_MODEL and the settings")
    result.add_argument("--trace", metavar="FILE", help="write every prompt, token and tool event there (sensitive)")
    return result


def _options(arguments: Sequence[str]) -> ServerOptions | None:
    from pathlib import Path

    from ds4_lsp.server.seam import ServerOptions

    try:
        parsed = parser().parse_args(arguments)
        tcp = None if parsed.tcp is None else _address(parsed.tcp)
    except SystemExit as end:
        if end.code:
            return None
        raise
    except ValueError as error:
        print(f"ds4-lsp: {error}", file=sys.stderr)
        return None
    return ServerOptions(tcp, parsed.model, Path(parsed.trace) if parsed.trace else None)


def _address(value: str) -> tuple[str, int]:
    """``HOST:PORT``, ``:PORT`` or ``PORT``; the loopback unless told otherwise. Raises ``ValueError``."""
    host, _, port = value.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"--tcp wants HOST:PORT, for example 127.0.0.1:7777, not {value!r}")
    return host, int(port)


def _accept(host: str, port: int) -> int:
    """Wait for one client; the descriptor of its connection. The address is printed to stderr."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as server:
        bound = server.getsockname()
        print(f"ds4-lsp: listening on {bound[0]}:{bound[1]}", file=sys.stderr, flush=True)
        connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection.detach()
