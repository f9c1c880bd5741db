"""What a session does, drawn on a terminal: streaming text, tool calls, edits, progress, questions.

Where stdout is no terminal it gets the reply's text and nothing else, and stderr gets the rest, so that
``ds4-lsp chat --prompt … > file`` keeps the answer alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from rich.console import Console
from rich.text import Text

from ds4_lsp.cli.bars import Bars

RESULT_LINES = 8
"""Lines of a tool's result that are shown."""
VALUE_WIDTH = 60
"""Characters of an argument that are shown."""

Ask = Callable[[str, Sequence[str]], Awaitable[str | None]]
_LEVELS = {1: ("error: ", "red"), 2: ("warning: ", "yellow")}


class Renderer:
    """Implements ``lsp_client.Screen``. ``ask`` answers questions; without it they stay unanswered, which means no."""

    def __init__(self, *, ask: Ask | None = None, out: Console | None = None, info: Console | None = None) -> None:
        # soft_wrap: the reply's text must stay as it is, and not be broken at the terminal's width.
        self.out = out or Console(soft_wrap=True, highlight=False)
        self.info = info or (
            self.out if self.out.is_terminal else Console(stderr=True, soft_wrap=True, highlight=False)
        )
        self.bars = Bars(self.info)
        self.ask = ask
        self.replied = False
        """Whether text reached the user since :meth:`begin_turn`."""
        self.held = 0
        """Prompts of this client that Stop holds."""
        self.events = 0
        self.tools: list[str] = []
        """Names of the tools that were called, in order."""
        self.edited: list[str] = []
        """URIs of the files that were edited, in order."""
        self._open: Console | None = None
        """The console whose last line is not ended yet."""
        self._call: tuple[str, str, int] = ("", "", 0)
        """Of the call being streamed: its id, the parameter, and how many of its characters were shown."""
        self._queued: set[int] = set()
        """Prompts that were told of as queued."""
        self._held: set[int] = set()
        self._replied: set[tuple[str, int]] = set()
        """Turns whose text was shown as it came."""
        self._usage: dict[str, Any] = {}
        self._last = ""
        """The line just written: a failure can be told by the server and by the reply that it is the end of."""
        self._drawers: dict[str, Callable[[dict[str, Any]], None]] = {
            "text": self._text,
            "thinking": self._aside,
            "compaction.delta": self._aside,
            "tool.start": self._tool_start,
            "tool.delta": self._tool_delta,
            "tool.call": self._tool_call,
            "tool.result": self._tool_result,
            "edit": self._edit,
            "context": self._context,
            "notice": self._notice,
            "queued": self._wait,
            "queue": self._queue,
            "compaction.start": self._compaction_start,
            "compaction.end": self._compaction_end,
            "usage": self._remember_usage,
            "turn.end": self._turn_end,
        }

    def begin_turn(self) -> None:
        self.replied = False

    def event(self, event: dict[str, Any]) -> None:
        self.events += 1
        if draw := self._drawers.get(event["kind"]):
            draw(event)

    def progress(self, token: str, value: dict[str, Any]) -> None:
        if self._open is not None:
            if self.info.is_terminal or value["kind"] == "report":
                return  # a bar has no place in a line of text
            if self.info.file is self.out.file:
                self._end_line()
        self.bars.show(token, value)

    def message(self, level: int, text: str) -> None:
        label, style = _LEVELS.get(level, ("", "blue"))
        if label + text != self._last:
            self.line(label + text, style)

    async def choose(self, text: str, actions: Sequence[str]) -> str | None:
        self.line(text, "bold yellow")
        return await self.ask(text, actions) if self.ask else None

    def answer(self, result: dict[str, Any]) -> None:
        """What a prompt came to, unless it was shown as it came. A slash word runs no turn: nothing was."""
        text = result.get("text") or ""
        if result.get("stopReason") == "end" and not any((result.get("usage") or {}).values()):
            if text:
                self.line(text)
        elif (result["sessionId"], result["turn"]) not in self._replied:
            self.reply(text)

    def reply(self, text: str) -> None:
        """A whole reply that was not streamed."""
        if text:
            self._stream(text)
        self._end_line()

    def line(self, text: str, style: str = "") -> None:
        """One line beside the reply: it starts on a line of its own."""
        self._end_line()
        self.bars.pause()
        self.info.print(Text(printable(text), style=style))
        self._last = text

    def _stream(self, text: str, style: str = "", console: Console | None = None) -> None:
        if not text:
            return
        self.bars.pause()
        self._last = ""
        console = console or self.out
        console.print(Text(printable(text), style=style), end="")
        console.file.flush()
        self._open = None if text.endswith("\n") else console

    def _end_line(self) -> None:
        if self._open is not None:
            self._open.print()
            self._open = None

    def _text(self, event: dict[str, Any]) -> None:
        self._shown(event)
        self._stream(event["delta"])

    def _aside(self, event: dict[str, Any]) -> None:
        self._stream(event["delta"], "dim italic", self.info)

    def _tool_start(self, event: dict[str, Any]) -> None:
        self._end_line()
        self._call = (event["callId"], "", 0)
        self._stream(f"▸ {event['name']}", "cyan", self.info)

    def _tool_delta(self, event: dict[str, Any]) -> None:
        call, parameter, shown = self._call
        if event["callId"] != call:
            return
        delta = event["delta"].replace("\n", "⏎")
        if event["parameter"] != parameter:
            parameter, shown = event["parameter"], 0
            self._stream(f" {parameter}=", "cyan", self.info)
        visible = delta[: max(0, VALUE_WIDTH - shown)]
        if shown < VALUE_WIDTH < shown + len(delta):
            visible += "…"
        self._stream(visible, "cyan", self.info)
        self._call = (call, parameter, shown + len(delta))

    def _tool_call(self, event: dict[str, Any]) -> None:
        self.tools.append(event["name"])
        if event["callId"] == self._call[0]:
            self._end_line()
        else:
            self.line(f"▸ {event['name']} {describe_arguments(event.get('arguments') or {})}".rstrip(), "cyan")
        self._call = ("", "", 0)

    def _tool_result(self, event: dict[str, Any]) -> None:
        for line in head(event["text"], RESULT_LINES):
            self.line(f"  {line}", "dim" if event["ok"] else "red")

    def _edit(self, event: dict[str, Any]) -> None:
        self.edited.append(event["uri"])
        span = f"lines {event['startLine']}-{event['endLine']}"
        self.line(f"✎ {file_name(event['uri'])} {span}, file_tag {event['fileTag']}", "green")

    def _context(self, event: dict[str, Any]) -> None:
        self.line(event["text"], "dim")

    def _notice(self, event: dict[str, Any]) -> None:
        self._shown(event)
        self.line(event["text"], "yellow")

    def _shown(self, event: dict[str, Any]) -> None:
        self.replied = True
        self._replied.add((event["sessionId"], event["turn"]))

    def _wait(self, event: dict[str, Any]) -> None:
        self._queued.add(event["seq"])
        self.line(f"queued #{event['seq']}: {event['text']}", "dim")

    def _queue(self, event: dict[str, Any]) -> None:
        held = {item["seq"]: item["text"] for item in event["items"] if item["held"]}
        self.held = len(self._queued & held.keys())
        for seq in held.keys() - self._held:
            self.line(
                f"waits for you #{seq}: {held[seq]} (/send {seq} runs it, /unqueue {seq} takes it back)", "yellow"
            )
        self._held = set(held)

    def _compaction_start(self, event: dict[str, Any]) -> None:
        self.line(f"compacting ({event.get('trigger', '')})", "magenta")

    def _compaction_end(self, event: dict[str, Any]) -> None:
        self.line("compacted" if event.get("compacted") else f"not compacted: {event.get('reason')}", "magenta")

    def _remember_usage(self, event: dict[str, Any]) -> None:
        self._usage = event.get("usage") or {}

    def _turn_end(self, event: dict[str, Any]) -> None:
        self._end_line()
        reason = event.get("stopReason")
        if reason == "error":
            self.line(f"error: {event.get('error') or 'unknown'}", "red")
        elif reason != "end":
            self.line(f"[{reason}]", "yellow")
        if self._usage and self.info.is_terminal:
            self.line(describe_usage(self._usage), "dim")


def printable(text: str) -> str:
    """Text without control characters: what a model or a file says must not drive the terminal."""
    return "".join(c if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f") else "\ufffd" for c in text)


def head(text: str, lines: int) -> list[str]:
    """The first lines, and a note on how many more there are."""
    every = text.split("\n")
    rest = len(every) - lines
    return every if rest <= 0 else [*every[:lines], f"… {rest} more lines"]


def describe_arguments(arguments: dict[str, Any]) -> str:
    shown = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = text.replace("\n", "⏎")
        shown.append(f"{name}={text if len(text) <= VALUE_WIDTH else text[: VALUE_WIDTH - 1] + '…'}")
    return " ".join(shown)


def file_name(uri: str) -> str:
    return unquote(urlsplit(uri).path).rsplit("/", 1)[-1]


def describe_usage(usage: dict[str, Any]) -> str:
    seconds = usage.get("completionSeconds") or 0
    tokens = usage.get("completionTokens") or 0
    speed = f", {tokens / seconds:.1f} tokens/s" if seconds else ""
    evaluated, cached = usage.get("promptTokens", 0), usage.get("cachedTokens", 0)
    return f"{evaluated} tokens evaluated, {cached} from the KV, {tokens} generated{speed}"


def describe_status(status: dict[str, Any]) -> list[str]:
    """``ds4.status`` as lines."""
    model, session = status.get("model") or {}, status.get("session") or {}
    context, generation = status["context"], status["generation"]
    lines = [
        f"state     {status['state']}",
        f"model     {model.get('name') or model.get('path') or 'none'}",
        f"context   {context['used']} of {context['size']} tokens ({context['percent']:.0f} %)",
        f"speed     {generation['tokensPerSecond']:.1f} tokens/s in the last reply ({generation['tokens']} tokens)",
        f"session   {session.get('sessionId') or session.get('id') or 'none'}",
    ]
    lines += [f"queued    {item.get('text', '')}" for item in status["queue"]]
    lines += [describe_job(job) for job in status["jobs"]]
    if status.get("error"):
        lines.append(f"error     {status['error']}")
    return lines


def describe_job(job: dict[str, Any]) -> str:
    status = "" if job["exitStatus"] is None else f" {job['exitStatus']}"
    return f"job {job['job']}     {job['state']}{status}, {job['elapsed']:.0f} s: {job['command']}"


def fail(text: str) -> int:
    """Say on stderr why a command ends, and return its exit status."""
    print(f"ds4-lsp: {text}", file=sys.stderr)
    return 1
