"""``make demo``: a session that anyone can follow on screen, and that proves itself.

The real server, a real LSP client, a real model, and a copy of ``examples/workspace``. It exits with 1 unless a prompt
was answered, the model called a tool of its own choice, a file was edited through a workspace edit, progress was shown
and the session's status was printed.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ds4_lsp.cli import model as model_command
from ds4_lsp.cli import render
from ds4_lsp.cli.catalogue import CATALOGUE, DEFAULT, models_directory, resolve
from ds4_lsp.cli.lsp_client import Client
from ds4_lsp.cli.rpc import RpcError, ServerGone

WORKSPACE = Path(__file__).resolve().parents[2] / "examples" / "workspace"
PROMPTS = (
    "Read src/main.py. What does count_words return?",
    'Now change line 3 of src/main.py to: GREETING = "Good day"',
)
"""Plain enough for the default model; which tools it calls, and how, is its own choice."""
SETTINGS = {
    "model": {"contextSize": 8192},
    # Greedy, so that two runs on one machine do the same.
    "sampling": {"temperature": 0.0, "maxTokens": 600},
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="demo", description="Run a session on a sample workspace, and check it.")
    parser.add_argument("--model", help=f"a GGUF file, or a name of the catalogue (default: {DEFAULT})")
    parser.add_argument("--prompt", help="a prompt of your own, in place of the demo's two")
    args = parser.parse_args(argv)
    path = _model(args.model or DEFAULT)
    if path is None:
        return 1
    prompts = (args.prompt,) if args.prompt else PROMPTS
    with tempfile.TemporaryDirectory(prefix="ds4-lsp-demo-") as name:
        folder = Path(name).resolve()
        shutil.copytree(WORKSPACE, folder / "workspace")
        return asyncio.run(Demo(folder).run(path, prompts))


def _model(named: str) -> str | None:
    entry = CATALOGUE.get(named)
    if entry is None or Path(named).exists():
        if Path(named).is_file():
            return named
        render.fail(f"there is no file {named}, and the catalogue has no such name")
        return None
    if not entry.present(models_directory()):
        _heading(f"Fetching {entry.title}, {entry.size / 1e9:.1f} GB")
        if model_command.fetch_with_progress(entry, models_directory(), None) is None:
            return None
    return resolve(named)


class Demo:
    """One run in ``folder``, which holds the workspace and the sessions and is removed afterwards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.screen = render.Renderer(info=Console(soft_wrap=True, highlight=False))
        self.answered = 0
        self.status_printed = False

    async def run(self, model: str, prompts: Sequence[str]) -> int:
        before = self._texts()
        settings = {**SETTINGS, "sessions": {"directory": str(self.folder / "sessions"), "snapshots": False}}
        _heading(f"Starting the server on a copy of examples/workspace, with {Path(model).name}")
        try:
            client = await Client.start(self.screen, [self.workspace], settings=settings, options=["--model", model])
        except (ServerGone, RpcError) as error:
            return render.fail(str(error))
        try:
            client.buffers.open(self.workspace / "src" / "main.py", "python")
            for prompt in prompts:
                await self._turn(client, prompt)
            _heading("What changed in the workspace")
            self._print_changes(before)
            _heading("The session's status")
            for line in render.describe_status(await client.command("ds4.status")):
                print(line)
            self.status_printed = True
        except (ServerGone, RpcError) as error:
            self.screen.message(1, str(error))
        finally:
            self.screen.bars.pause()
            await client.stop()
        return self._verdict(client, len(prompts), changed=self._texts() != before)

    async def _turn(self, client: Client, prompt: str) -> None:
        _heading(f"Prompt: {prompt}")
        self.screen.begin_turn()
        result = await client.command("ds4.prompt", {"text": prompt})
        if not self.screen.replied:
            self.screen.reply(result["text"])
        self.answered += result["stopReason"] == "end" and bool(result["text"] or result["toolCalls"])
        self.screen.line(render.describe_usage(result.get("usage") or {}), "dim")

    def _verdict(self, client: Client, prompts: int, *, changed: bool) -> int:
        tools = ", ".join(self.screen.tools) or "none"
        facts = (
            (self.answered == prompts, f"prompts answered: {self.answered} of {prompts}"),
            (bool(self.screen.tools), f"tools the model called: {tools}"),
            (bool(client.edits_applied) and changed, f"edits applied by the editor: {client.edits_applied}"),
            (bool(self.screen.bars.seen), f"progress reports shown: {self.screen.bars.seen}"),
            (self.status_printed, "the session's status was printed"),
        )
        _heading("What happened")
        for held, text in facts:
            print(f"{'ok    ' if held else 'FAILED'} {text}")
        return 0 if all(held for held, _ in facts) else 1

    def _texts(self) -> dict[str, str]:
        files = sorted(path for path in self.workspace.rglob("*") if path.is_file())
        return {str(path.relative_to(self.workspace)): path.read_text(errors="replace") for path in files}

    def _print_changes(self, before: dict[str, str]) -> None:
        after = self._texts()
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name, "").splitlines(), after.get(name, "").splitlines()
            for line in difflib.unified_diff(old, new, f"before/{name}", f"after/{name}", lineterm="", n=1):
                print(line)


def _heading(text: str) -> None:
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
