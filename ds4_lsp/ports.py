"""The seams between the agent and what it drives: the engine, the editor, the tools' specification.

Everything here is asked on the session worker's event loop. Tokens are the loaded model's ids; texts are ``str``
with LF, CRLF or CR line ends as found; offsets are code points.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from ds4_lsp.protocol.recommended import Advice
from ds4_lsp.protocol.settings import ModelSettings

# --- cancelling ---------------------------------------------------------------------------------------------------


class Cancel:
    """A one-way switch, owned by the worker's loop; ``on_set`` callbacks run once, at once if it is already set."""

    def __init__(self) -> None:
        self._set = False
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        if self._set:
            return
        self._set = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_set(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register ``callback``; returns a function that forgets it again."""
        if self._set:
            callback()
            return lambda: None
        self._callbacks.append(callback)

        def forget() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return forget


# --- the engine ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """Text to tokenise. ``special``: control tokens in it are parsed; never set for text from outside."""

    text: str
    special: bool = False


@dataclass(frozen=True)
class ModelInfo:
    """What the engine knows of a loaded model."""

    path: str
    name: str
    architecture: str
    size: int
    """Bytes of the file."""
    context_size: int
    trained_context: int
    vocabulary_size: int
    chat_template: str | None
    bos: str
    """Text of the BOS token, empty if there is none."""
    eos: str
    add_bos: bool
    end_ids: frozenset[int]
    """Every token that ends a generation (EOS, EOT, …)."""
    fingerprint: str
    """Changes with the model file, llama.cpp's build, context size and KV types: what a snapshot depends on."""
    gpu: bool
    devices: tuple[str, ...]
    truncatable: bool
    """Whether the KV can drop any suffix."""
    batch_size: int
    recommended: tuple[Advice, ...] = ()
    """What the file and the model's makers say of sampling."""


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    top_k: int = 0
    """How many of the likeliest tokens are drawn from; 0 is all."""
    repeat_penalty: float = 1.0
    """Makes the reply's own last 64 tokens less likely, by this factor on their logits; 1 is off. From a trigger of
    the grammar on nothing is penalised, and what stands in the conversation never is: both have to be copied."""


GREEDY = Sampling()


@dataclass(frozen=True)
class StopRule:
    """Generation stops when ``pattern`` (``re`` syntax, at most 256 characters long when matched) occurs in the output.

    ``keep``: the matched text belongs to the output; otherwise the output's *text* ends before it, and text that
    could become a match is held back.
    """

    name: str
    pattern: str
    keep: bool


@dataclass(frozen=True)
class Quiet:
    """Spans of output, such as thinking, in which neither stop rules nor the grammar work.

    Any of ``opens`` begins a span, any of ``closes`` ends it, as often as they come. A mark is a text; whether the
    model writes it as one control token or letter by letter does not matter.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    initially: bool
    """The reply begins inside a span."""


@dataclass(frozen=True)
class Forced:
    """The scripted seam: the text whose tokens (control tokens parsed) and an end-of-turn token are chosen."""

    text: str
    delay: float = 0.0
    """Least seconds per token."""
    until: str = ""
    """A file, where the reply is not to end before that exists."""


@dataclass(frozen=True)
class GenerateRequest:
    tokens: Sequence[int]
    """The whole transcript; the engine evaluates what its KV lacks."""
    max_tokens: int
    sampling: Sampling = GREEDY
    stops: tuple[StopRule, ...] = ()
    stop_texts: tuple[str, ...] = ()
    """Texts of control tokens (a role's start, say) that end the reply besides the model's own; not in the output."""
    goes_on: tuple[str, ...] = ()
    """Texts of control tokens that do not end the reply, though llama.cpp or ``stop_texts`` say so: marks between the
    parts of one reply, such as ``<|end|>`` after a channel. They are in the output."""
    visible: tuple[str, ...] = ()
    """Texts of control tokens that end the reply and are in the output all the same: marks that close a call, such as
    ``<|call|>``. Control tokens that end nothing are in the output anyway."""
    quiet: Quiet | None = None
    grammar: str | None = None
    """GBNF whose root matches from the first character of whichever of ``grammar_triggers`` comes first. Where it is
    complete, only an end token or one of ``goes_on`` may follow; after the latter it waits for the next trigger."""
    grammar_triggers: tuple[str, ...] = ()
    """Texts; whether a control token or letters make them does not matter. With or without a grammar they say where a
    call begins."""
    forced: Forced | None = None


@dataclass(frozen=True)
class Synced:
    evaluated: int
    cached: int
    seconds: float
    batches: tuple[tuple[int, int], ...]
    """(position, length) of each batch evaluated, in order."""
    cancelled: bool


@dataclass(frozen=True)
class Generated:
    """``tokens``: every sampled id that belongs to the transcript, an end token included. ``text``: complete code
    points. ``reason``: ``end`` an end token, ``stop`` a stop rule (``stop_name``), ``length`` ``max_tokens`` or the
    context's end, ``cancelled``."""

    tokens: tuple[int, ...]
    text: str
    reason: Literal["end", "stop", "length", "cancelled"]
    stop_name: str | None
    prefill: Synced
    seconds: float
    """Decoding only."""


@dataclass(frozen=True)
class EngineStatus:
    kv_tokens: int
    pid: int | None


OnProgress = Callable[[int, int], None]
"""(done, total): tokens for prefill; per mille for loading."""
OnTokens = Callable[[Sequence[int], str], None]
"""(ids, text): text holds whole code points and may lag behind the ids."""


class Engine(Protocol):
    """The engine process as the agent sees it. One long operation at a time; a second raises ``Busy``.

    Every operation raises ``EngineDied`` when the process ends under it. The next ``load`` starts a new one.
    A set ``cancel`` ends the operation within one batch, with an ordinary result that says so; what was evaluated
    stays in the KV.
    """

    @property
    def info(self) -> ModelInfo | None: ...

    @property
    def status(self) -> EngineStatus: ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about how the model was loaded; each said once."""
        ...

    @property
    def kv(self) -> Sequence[int]:
        """The tokens in the KV, as last reported."""
        ...

    async def load(
        self,
        settings: ModelSettings,
        *,
        context_is_default: bool,
        on_progress: OnProgress,
        cancel: Cancel,
        by_itself: bool = False,
    ) -> ModelInfo:
        """Load a model. ``by_itself``: the user did not ask for just that; it is refused after the engine died twice in
        a row of one cause, until something is changed. Errors: ``ModelLoadFailed``, ``EngineDied``, ``Cancelled``."""
        ...

    async def unload(self) -> None: ...

    async def tokenize(self, segments: Sequence[Segment]) -> list[int]:
        """Tokens of each segment, joined. Works while a long operation runs."""
        ...

    async def sync(self, tokens: Sequence[int], *, on_progress: OnProgress, cancel: Cancel) -> Synced:
        """Make the KV hold exactly ``tokens``: keep the common prefix, drop the rest, evaluate the suffix."""
        ...

    async def generate(
        self, request: GenerateRequest, *, on_progress: OnProgress, on_tokens: OnTokens, cancel: Cancel
    ) -> Generated:
        """``sync``, then sample. Raises ``ContextTooSmall`` when the transcript itself does not fit."""
        ...

    async def save(self, path: Path, on_released: Callable[[], None] | None = None) -> Sequence[int]:
        """Write the KV to ``path`` (temporary file, fsync, rename); returns the tokens that it holds. ``on_released``
        is called once the KV is copied: the engine is free again then, and only the disk is waited for."""
        ...

    async def restore(self, path: Path, tokens: Sequence[int]) -> bool:
        """Load a snapshot that must hold exactly ``tokens``; False, and an empty KV, where it does not."""
        ...

    async def close(self) -> None: ...


# --- the editor ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenDocument:
    """A document that the editor has open. ``text`` is the live buffer."""

    uri: str
    path: Path
    version: int
    text: str


@dataclass(frozen=True)
class FileEdit:
    """One splice in one file, planned against ``before``: ``before[start:end]`` becomes ``new_text``.

    ``version`` is that of the open document it was planned against, None for an unopened file. ``create``: the file
    does not exist yet. ``before_tag``/``after_tag``: CRC-32 tags of the text before and after.
    """

    uri: str
    path: Path
    version: int | None
    before: str
    start: int
    end: int
    new_text: str
    before_tag: str
    after_tag: str
    label: str
    create: bool = False
    save: bool = True

    @property
    def after(self) -> str:
        return self.before[: self.start] + self.new_text + self.before[self.end :]


@dataclass(frozen=True)
class Applied:
    """``failure`` None: the text now has ``after_tag``. ``saved``: the disk has it too. ``rejected``: the user said no
    in a preview. ``saved_tag``: that of the text on disk, where the edit's own save made another of it."""

    saved: bool
    failure: str | None = None
    rejected: bool = False
    saved_tag: str | None = None


@dataclass(frozen=True)
class Question:
    """An approval. ``kind``: a permission's name; ``detail``: the whole command or path; ``key``: what it covers."""

    kind: str
    title: str
    detail: str
    key: str


Answer = Literal["once", "session", "deny", "unavailable"]


class Editor(Protocol):
    """The client as the agent and the tools see it. Never raises for what a client does; says it in the result."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """Workspace folders, real paths, in the client's order."""
        ...

    @property
    def current_root(self) -> Path | None:
        """The folder that relative paths are tried against first: that of the session's first document."""
        ...

    @property
    def saves_open_documents(self) -> bool:
        """Whether an edit of an open document reaches the disk."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the user trusts what lies in the workspace."""
        ...

    async def document(self, path: Path) -> OpenDocument | None:
        """The open document at that real path, if any."""
        ...

    async def documents(self) -> tuple[OpenDocument, ...]: ...

    async def apply(self, edit: FileEdit) -> Applied: ...

    async def ask(self, question: Question, cancel: Cancel) -> Answer: ...


class Listener(Protocol):
    """Who hears what a session does: the server, which turns it into ``ds4/event`` and progress."""

    def event(self, session_id: str, turn: int, kind: str, *, seq: int | None = None, **data: Any) -> None: ...

    def progress(self, key: str, title: str, *, done: int = 0, total: int = 0, message: str = "") -> None:
        """Begin or update the progress ``key`` (one of ``load``, ``turn``, ``compaction``, ``restore``)."""
        ...

    def progress_end(self, key: str, message: str = "") -> None: ...

    def message(self, level: Literal["error", "warning", "info"], text: str) -> None:
        """Tell the user (``window/showMessage``)."""
        ...


# --- tools as the model sees them ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParameterSpec:
    name: str
    kind: Literal["string", "integer", "boolean", "enum"]
    description: str
    required: bool
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    taught: bool = True
    """False: accepted from a model that writes it, but neither in the prompt nor in the grammar."""


@dataclass(frozen=True)
class ToolSpec:
    """Prompt, grammar and validation come from this, and this from the tool's pydantic model."""

    name: str
    description: str
    parameters: tuple[ParameterSpec, ...]
    examples: tuple[dict[str, Any], ...] = field(default=())
    one_of: tuple[tuple[str, ...], ...] = ()
    """Alternatives of optional parameters: a call has exactly one of them, whole."""

    def taught(self) -> ToolSpec:
        """The tool as a model is taught it. An alternative that is the only one left is simply required."""
        names = {parameter.name for parameter in self.parameters if parameter.taught}
        ways = tuple(way for way in self.one_of if names.issuperset(way))
        sole = set(ways[0]) if len(ways) == 1 else set()
        parameters = (replace(p, required=p.required or p.name in sole) for p in self.parameters if p.taught)
        examples = tuple({key: one[key] for key in one if key in names} for one in self.examples)
        return ToolSpec(self.name, self.description, tuple(parameters), examples, () if sole else ways)


Spawn = Callable[[Awaitable[None]], None]
