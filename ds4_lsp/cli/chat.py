"""``ds4-lsp chat``: a conversation in the terminal, through the real server like any editor's."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ds4_lsp import __version__
from ds4_lsp.cli import render
from ds4_lsp.cli.catalogue import CATALOGUE, DEFAULT, models_directory, resolve
from ds4_lsp.cli.lsp_client import Client
from ds4_lsp.cli.rpc import RpcError, ServerGone
from ds4_lsp.cli.terminal import LineReader

ALLOW_ONCE, ALLOW_SESSION, DENY = "Allow once", "Allow for this session", "Deny"
HELP = """\
/status                          what the server is doing
/jobs                            the commands that the agent started
/undo                            restore the files that the last turn changed
/quit                            leave (so does Ctrl-D; Ctrl-C stops a reply, and leaves when there is none)"""

Parsers = Any  # argparse keeps the type of add_subparsers() to itself


def add_parser(parsers: Parsers) -> None:
    parser = parsers.add_parser("chat", help="talk to the agent in the terminal")
    parser.add_argument("--prompt", metavar="TEXT", help="run one turn and exit; - reads the prompt from stdin")
    parser.add_argument("--yes", action="store_true", help="allow every command and file that the agent asks for")
    parser.add_argument("--model", metavar="PATH", help="a GGUF file, or a name that `ds4-lsp model list` shows")
    parser.add_argument("--trace", metavar="FILE", help="write prompts, tokens and tool events to FILE (sensitive)")
    parser.add_argument("--workspace", metavar="DIR", action="append", help="a workspace folder (default: this one)")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="a setting, for example model.contextSize=8192"
    )
    parser.add_argument("--verbose", action="store_true", help="show the server's log on stderr")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        settings = parse_settings(args.set)
    except ValueError as error:
        return render.fail(str(error))
    model = choose_model(args.model)
    if model is None:
        return render.fail(f"no model is there yet. Fetch one with: ds4-lsp model fetch {DEFAULT}")
    roots = [Path(name) for name in args.workspace or ["."]]
    for root in roots:
        if not root.is_dir():
            return render.fail(f"{root} is not a directory")
    options = ["--model", model, *(("--trace", args.trace) if args.trace else ())]
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    return asyncio.run(Chat(yes=args.yes).run(roots, settings, options, prompt, verbose=args.verbose))


def choose_model(named: str | None) -> str | None:
    """``--model``, else ``DS4_MODEL``, else a model of the catalogue that was fetched, the default before others."""
    if named or os.environ.get("DS4_MODEL"):
        return resolve(named or os.environ["DS4_MODEL"])
    directory = models_directory()
    entries = sorted(CATALOGUE.values(), key=lambda entry: entry.name != DEFAULT)
    return next((str(entry.files(directory)[0]) for entry in entries if entry.present(directory)), None)


def parse_settings(assignments: Sequence[str]) -> dict[str, Any]:
    """``KEY=VALUE`` pairs as the content of the ``ds4`` section. A value that is not JSON is a string."""
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key:
            raise ValueError(f"--set {assignment}: write it as KEY=VALUE, for example model.contextSize=8192")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        *path, last = key.removeprefix("ds4.").split(".")
        section = settings
        for name in path:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise ValueError(f"--set {assignment}: {name} is not a section")
        section[last] = value
    return settings


class Chat:
    """One run of ``ds4-lsp chat``."""

    def __init__(self, *, yes: bool) -> None:
        self.yes = yes
        self.screen = render.Renderer(ask=self._answer)
        self._lines: LineReader | None = None
        self._client: Client | None = None
        self._turn: asyncio.Task[dict[str, Any]] | None = None
        self._main: asyncio.Task[Any] | None = None
        self._interrupted = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(
        self,
        roots: Sequence[Path],
        settings: dict[str, Any],
        options: Sequence[str],
        prompt: str | None,
        *,
        verbose: bool,
    ) -> int:
        self._main = main = asyncio.current_task()
        assert main is not None
        try:
            self._client = await Client.start(self.screen, roots, settings=settings, options=options)
        except (ServerGone, RpcError) as error:
            return render.fail(str(error))
        if verbose:
            self._client.connection.on_log(lambda line: self.screen.line(line, "dim"))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        loop.add_signal_handler(signal.SIGTERM, main.cancel)
        try:
            if prompt is not None:
                return 0 if await self.turn(prompt) else 1
            return await self._converse()
        except asyncio.CancelledError:
            return 130
        except ServerGone as error:
            return render.fail(str(error))
        finally:
            self.screen.bars.pause()
            if self._lines is not None:
                self._lines.close()
            await self._client.stop()

    async def turn(self, text: str) -> bool:
        """Send one prompt and show what comes of it; True when the turn ended by itself."""
        assert self._client is not None
        self._interrupted = False
        self.screen.begin_turn()
        self._turn = asyncio.create_task(self._client.command("ds4.prompt", {"text": text}))
        try:
            result = await self._turn
        except RpcError as error:
            self.screen.message(1, error.message)
            return False
        finally:
            self._turn = None
        if not self.screen.replied:
            self.screen.reply(result.get("text") or "")
        return result.get("stopReason") == "end"

    async def _converse(self) -> int:
        self._lines = LineReader()
        self.screen.line(f"ds4-lsp {__version__}: /help lists the commands", "dim")
        while (line := await self._next_line()) is not None:
            text = line.strip()
            if text in ("/quit", "/exit"):
                break
            try:
                if not text or await self._local(text):
                    continue
            except RpcError as error:
                self.screen.message(1, error.message)
                continue
            await self.turn(text)
            if text == "/help":
                self.screen.line(HELP)
        return 0

    async def _next_line(self) -> str | None:
        assert self._lines is not None
        self.screen.bars.pause()
        self.screen.bars.hidden = True
        try:
            return await self._lines.ask("› ")
        finally:
            self.screen.bars.hidden = False

    async def _local(self, text: str) -> bool:
        """The slash commands of this client; the server has its own, which every client shares."""
        assert self._client is not None
        match text:
            case "/status":
                lines = render.describe_status(await self._client.command("ds4.status"))
            case "/jobs":
                jobs = (await self._client.command("ds4.listJobs"))["jobs"]
                lines = [render.describe_job(job) for job in jobs] or ["no jobs"]
            case "/undo":
                undone = await self._client.command("ds4.undoTurn")
                lines = [f"restored {render.file_name(uri)}" for uri in undone["reverted"]]
                lines += [f"skipped {render.file_name(item['uri'])}: {item['reason']}" for item in undone["skipped"]]
            case _:
                return False
        for line in lines or ["nothing to do"]:
            self.screen.line(line)
        return True

    async def _answer(self, _text: str, actions: Sequence[str]) -> str | None:
        """Answer an approval: ``--yes``, else the user; without a terminal nobody answers."""
        if self.yes:
            chosen = next((action for action in (ALLOW_ONCE, "Apply") if action in actions), None)
            self.screen.line(f"--yes: {chosen}", "yellow")
            return chosen
        if not sys.stdin.isatty():
            self.screen.line("no terminal to ask on: denied (--yes allows)", "yellow")
            return None
        if self._lines is None:
            self._lines = LineReader()
        letters = {action[0].lower(): action for action in actions}
        if ALLOW_SESSION in actions:
            letters = {"y": ALLOW_ONCE, "s": ALLOW_SESSION, "n": DENY}
            question = "allow? [y]es, [s] yes for this session, [N]o: "
        else:
            question = "/".join(actions) + "? "
        line = await self._lines.ask(question)
        return letters.get((line or "").strip().lower()[:1], DENY if DENY in actions else None)

    def _on_interrupt(self) -> None:
        """Ctrl-C: stop the turn; with none, or a second time, leave."""
        assert self._client is not None and self._main is not None
        if self._turn is None or self._interrupted:
            self._main.cancel()
            return
        self._interrupted = True
        task = asyncio.create_task(self._client.command("ds4.interrupt"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
