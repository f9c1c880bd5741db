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
HELP = "/quit                            leave (so does Ctrl-D; Ctrl-C stops a reply, and leaves when there is none)"
PROMPT = "› "

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
        self._turns: set[asyncio.Task[bool]] = set()
        """Prompts whose replies are not here yet: the one that runs, and what waits behind it."""
        self._question: tuple[dict[str, str], str, asyncio.Future[str | None]] | None = None
        """Letters and their answers, what is asked, and who waits for it."""
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
        try:
            result = await self._client.command("ds4.prompt", {"text": text})
        except RpcError as error:
            self.screen.message(1, error.message)
            return False
        self.screen.answer(result)
        return result.get("stopReason") == "end"

    async def _converse(self) -> int:
        self._lines = LineReader()
        self.screen.line(f"ds4-lsp {__version__}: /help lists the commands", "dim")
        while (line := await self._next_line()) is not None:
            text = line.rstrip()
            if text.strip() in ("/quit", "/exit"):
                return 0
            if self._question is not None:
                self._answered(text)
            elif text.strip():
                await self._send(text)
        while self._turns:  # the end of the input: what was asked for is done first
            await asyncio.wait(self._turns)
        return 0

    async def _send(self, text: str) -> None:
        """On a terminal the next line is read while the turn runs, and queued behind it."""
        turn = asyncio.create_task(self.turn(text))
        self._turns.add(turn)
        turn.add_done_callback(self._turn_done)
        if text == "/help" or not sys.stdin.isatty():
            await turn
        if text == "/help":
            self.screen.line(HELP)

    def _turn_done(self, turn: asyncio.Task[bool]) -> None:
        self._turns.discard(turn)
        if not turn.cancelled() and isinstance(turn.exception(), ServerGone) and self._main is not None:
            self._main.cancel()
        elif self._lines is not None and not self._busy():
            self._rest()
            self._lines.again(PROMPT)

    def _busy(self) -> bool:
        """Whether a turn runs or is about to: more prompts of this client are under way than Stop holds."""
        return len(self._turns) > self.screen.held

    def _rest(self) -> None:
        """The line is the user's alone: a bar would draw over it."""
        self.screen.bars.pause()
        self.screen.bars.hidden = True

    async def _next_line(self) -> str | None:
        assert self._lines is not None
        if not self._busy():
            self._rest()
        asked = self._question[1] if self._question else ""
        line = await self._lines.ask(asked or ("" if self._busy() else PROMPT))
        self.screen.bars.hidden = False
        return line

    async def _answer(self, _text: str, actions: Sequence[str]) -> str | None:
        """Answer an approval: ``--yes``, else the user; without a terminal nobody answers."""
        if self.yes:
            chosen = next((action for action in (ALLOW_ONCE, "Apply") if action in actions), None)
            self.screen.line(f"--yes: {chosen}", "yellow")
            return chosen
        if not sys.stdin.isatty():
            self.screen.line("no terminal to ask on: denied (--yes allows)", "yellow")
            return None
        letters = {action[0].lower(): action for action in actions}
        question = "/".join(actions) + "? "
        if ALLOW_SESSION in actions:
            letters = {"y": ALLOW_ONCE, "s": ALLOW_SESSION, "n": DENY}
            question = "allow? [y]es, [s] yes for this session, [N]o: "
        letters[""] = DENY if DENY in actions else ""
        if self._lines is None:
            self._lines = LineReader()
            return await self._ask_alone(letters, question)
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._question = (letters, question, answer)
        self._lines.again(question)
        try:
            return await answer
        finally:
            if self._question and self._question[2] is answer:
                self._question = None

    async def _ask_alone(self, letters: dict[str, str], question: str) -> str | None:
        """Where no conversation reads lines."""
        assert self._lines is not None
        try:
            while (line := await self._lines.ask(question)) is not None:
                if (answer := letters.get(line.strip().lower())) is not None:
                    return answer or None
                self._not_an_answer(line)
            return None
        finally:
            self._lines.close()
            self._lines = None

    def _answered(self, line: str) -> None:
        """Only a letter alone answers: a line that was typed or pasted for something else does not."""
        assert self._question is not None
        letters, _, future = self._question
        answer = letters.get(line.strip().lower())
        if answer is None:
            self._not_an_answer(line)
        elif not future.done():
            self._question = None
            future.set_result(answer or None)

    def _not_an_answer(self, line: str) -> None:
        self.screen.line(f"not sent, and no answer: {line.strip()}", "yellow")

    def _on_interrupt(self) -> None:
        """Ctrl-C: stop the turn; with none, or a second time, leave."""
        assert self._client is not None and self._main is not None
        if not self._busy() or self._interrupted:
            self._main.cancel()
            return
        self._interrupted = True
        task = asyncio.create_task(self._client.command("ds4.interrupt"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
