"""Work-done progress on a terminal, and as lines where there is none."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn

STEP = 25
"""Per cent between two lines, where progress is written as lines."""


class Bars:
    """One bar per token. :meth:`pause` takes the bars off the screen until the next report: text is about to follow."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._titles: dict[str, str] = {}
        self._tasks: dict[str, TaskID] = {}
        self._lines: dict[str, int] = {}
        self._live: Progress | None = None
        self.seen = 0
        """Progress values that were reported."""
        self.hidden = False
        """Set while the user types: a bar would draw over the line."""

    def show(self, token: str, value: dict[str, Any]) -> None:
        self.seen += 1
        if value["kind"] == "begin":
            self._titles[token] = value.get("title", "")
        if token not in self._titles:
            return
        if not self._console.is_terminal:
            self._line(token, value)
        elif not self.hidden or value["kind"] == "end":
            self._bar(token, value)
        if value["kind"] == "end":
            self._titles.pop(token)

    def pause(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._tasks.clear()

    def _bar(self, token: str, value: dict[str, Any]) -> None:
        if value["kind"] == "end":
            task = self._tasks.pop(token, None)
            if self._live is not None and task is not None:
                self._live.remove_task(task)
            if not self._tasks:
                self.pause()
            return
        if self._live is None:
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TaskProgressColumn(),
                console=self._console,
                transient=True,
                refresh_per_second=5,
            )
            self._live.start()
        if token not in self._tasks:
            self._tasks[token] = self._live.add_task(self._titles[token], total=None)
        percentage = value.get("percentage")
        self._live.update(
            self._tasks[token],
            description=self._describe(token, value),
            total=100 if percentage is not None else None,
            completed=percentage or 0,
        )

    def _line(self, token: str, value: dict[str, Any]) -> None:
        percentage = int(value.get("percentage") or 0)
        last = self._lines.get(token)
        if value["kind"] == "end":
            self._lines.pop(token, None)
            text = f"{self._titles[token]}: {value.get('message') or 'done'}"
        elif last is not None and percentage < last + STEP:
            return
        else:
            self._lines[token] = percentage - percentage % STEP
            text = f"{self._describe(token, value)} {percentage} %"
        self._console.print(text, markup=False, highlight=False)

    def _describe(self, token: str, value: dict[str, Any]) -> str:
        message = value.get("message")
        return f"{self._titles[token]}: {message}" if message else self._titles[token]
