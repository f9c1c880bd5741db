"""``ds4-lsp``: the server, or one of the terminal's commands.

Without a command it is the language server. Nothing is imported then that the server has not asked for: it takes its
stdout away from everyone else before anything else is loaded.
"""

from __future__ import annotations

import os
import sys

COMMANDS = ("chat", "doctor", "model", "sessions")


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for a failure that was told, 2 for wrong options, 130 for Ctrl-C."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["--version"]:
        from ds4_lsp import __version__

        print(f"ds4-lsp {__version__}")
        return 0
    if arguments[:1] and (
        arguments[0] in COMMANDS or not arguments[0].startswith("-") or arguments[0] in ("-h", "--help")
    ):
        return _terminal(arguments)
    from ds4_lsp.server.run import main as serve

    return serve(_with_model_paths(arguments))


def _terminal(arguments: list[str]) -> int:
    import argparse

    from ds4_lsp.cli import chat, doctor, model, sessions

    parser = argparse.ArgumentParser(
        prog="ds4-lsp",
        description="A language server that hosts a coding agent on a local model. Without a command it serves LSP.",
        epilog="The server: ds4-lsp [--stdio] [--tcp HOST:PORT] [--model PATH] [--trace FILE]",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (chat, doctor, model, sessions):
        command.add_parser(parsers)
    args = parser.parse_args(arguments)
    modules = {"chat": chat, "doctor": doctor, "model": model, "sessions": sessions}
    try:
        return int(modules[args.command].run(args))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (a pager, head) has gone: nothing is left to be said, not even by the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


def _with_model_paths(arguments: list[str]) -> list[str]:
    """``--model`` and ``DS4_MODEL`` may give a catalogue name; the server is told the path."""
    from ds4_lsp.cli.catalogue import resolve

    if named := os.environ.get("DS4_MODEL"):
        os.environ["DS4_MODEL"] = resolve(named)
    result = list(arguments)
    for index, argument in enumerate(arguments):
        if argument.startswith("--model="):
            result[index] = "--model=" + resolve(argument.removeprefix("--model="))
        elif index and arguments[index - 1] == "--model":
            result[index] = resolve(argument)
    return result
