"""What compaction needs of the agent: the surface, the log, the engine, the user's ear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ds4_lsp.compaction.ledger import LogEvent
from ds4_lsp.compaction.model import Item, Shortened, Speeds, Summary, SummaryRequest
from ds4_lsp.ports import Cancel, OnProgress
from ds4_lsp.protocol.settings import CompactionSettings

OnSummary = Callable[[int, str], None]
"""(tokens of the summary so far, new text)."""


class Host(Protocol):
    """One session as compaction sees it, asked on the worker's loop only. ``append`` and ``sync`` never yield."""

    @property
    def settings(self) -> CompactionSettings: ...

    @property
    def context(self) -> int:
        """Size of the loaded model's context, in tokens."""
        ...

    @property
    def model(self) -> str:
        """Name of the loaded model, for the log."""
        ...

    @property
    def turn(self) -> int: ...

    @property
    def prefix_tokens(self) -> int:
        """Tokens of the transcript before the first item: system prompt and tools."""
        ...

    @property
    def frame_tokens(self) -> int:
        """Tokens that the chat frame adds to a user message, and to open the reply after it."""
        ...

    @property
    def speeds(self) -> Speeds: ...

    @property
    def revision(self) -> int:
        """Changes whenever the surface does, and only then."""
        ...

    @property
    def next_seq(self) -> int:
        """seq of the event that is appended next."""
        ...

    def surface(self) -> Sequence[Item]:
        """The surface now. The transcript has ``prefix_tokens`` plus the items' tokens."""
        ...

    def events(self) -> Iterable[LogEvent]:
        """The whole log, streamed."""
        ...

    def append(
        self,
        type: str,
        data: dict[str, Any],
        *,
        surface_op: dict[str, Any] | None = None,
        sources: Sequence[int] = (),
    ) -> LogEvent:
        """Append one event and, with a ``surface_op``, change the surface. Errors: ``StorageFailed``; then neither
        the log nor the surface has changed."""
        ...

    def sync(self) -> None:
        """fsync the log. Errors: ``StorageFailed``."""
        ...

    async def count(self, text: str) -> int:
        """Tokens of ``text``, tokenised as plain text."""
        ...

    async def shorten(self, item: Item, tail: int) -> Shortened | None:
        """What ``item``, a reply or a result, becomes when beside its beginning at least ``tail`` tokens of its end
        stay, exactly as they are in the transcript. None where that would free nothing. Writes nothing."""
        ...

    async def summarise(self, request: SummaryRequest, cancel: Cancel, on_text: OnSummary) -> Summary:
        """Ask the model, greedily, with no tools, stopping before thinking and DSML markers.

        Whatever happens, the request and its answer are gone from the KV before this returns or raises: after a
        ``live`` request the KV holds the transcript again, else a beginning of it. Errors: those of the engine;
        ``ContextTooSmall``, with what its KV really holds where that is known, for a request that does not fit.
        """
        ...

    async def rebuild(self, cancel: Cancel, on_progress: OnProgress) -> None:
        """Make the KV hold the transcript of the surface, and count its tokens exactly. Returns early, without error,
        when cancelled."""
        ...

    def emit(self, kind: str, *, seq: int | None = None, **data: Any) -> None:
        """A ``ds4/event`` of this session's current turn."""
        ...

    def progress(self, message: str, *, done: int = 0, total: int = 0) -> None:
        """Begin or update the work-done progress ``COMPACTING``."""
        ...

    def progress_end(self, message: str) -> None: ...
