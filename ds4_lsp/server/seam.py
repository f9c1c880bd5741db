"""The agent as the server sees it, and how one is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ds4_lsp.ports import Cancel, Editor, Listener
from ds4_lsp.protocol.commands import Arguments, Wire
from ds4_lsp.protocol.settings import Settings


@dataclass(frozen=True)
class ServerOptions:
    """The command line. ``tcp``: host and port; None means stdio."""

    tcp: tuple[str, int] | None = None
    model: str | None = None
    trace: Path | None = None


class Agent(Protocol):
    """Lives on the worker's loop; everything is asked there."""

    @property
    def health(self) -> tuple[Literal["ok", "warning", "error"], bool, str | None]:
        """Health, whether nothing runs, and what to tell the user, for ``experimental/serverStatus``."""
        ...

    async def start(self) -> None:
        """Return soon: a model loads in the background."""
        ...

    async def command(self, name: str, arguments: Arguments, cancel: Cancel) -> Wire:
        """Carry out one command of ``protocol.commands.COMMANDS``. Raises ``Ds4Error`` to refuse.

        Several may run at once. A set ``cancel`` ends it soon; a prompt then still has a result.
        """
        ...

    def update_settings(self, settings: Settings, *, context_is_default: bool) -> None: ...

    def cancel_progress(self, key: str) -> None:
        """The user cancelled the progress ``key`` (see ``Listener.progress``), which no request waits for."""
        ...

    async def document(self, uri: str) -> str:
        """The text of a ``ds4:`` URI. Raises ``NotFound``."""
        ...

    def stop(self) -> None:
        """Cancel what runs, whoever asked for it, and begin nothing any more. Commands are still answered."""
        ...

    async def shutdown(self) -> None:
        """Abort everything, kill jobs, flush the log, release locks; within a second."""
        ...


@dataclass(frozen=True)
class Start:
    """What an agent starts with. ``context_is_default``: the context size was not chosen by the user."""

    settings: Settings
    context_is_default: bool
    trace: Path | None


AgentFactory = Callable[[Editor, Listener, Start], Agent]
"""Called on the worker's thread; heavy imports belong inside."""
