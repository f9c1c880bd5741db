"""The agent in this process: the real engine behind a client that remembers, an editor on the disk, a listener that
records."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import pytest_asyncio

from ds4_lsp.agent.agent import Agent, AgentOptions
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.script import Script
from ds4_lsp.edits import disk
from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import (
    Answer,
    Applied,
    Cancel,
    FileEdit,
    Generated,
    GenerateRequest,
    ModelInfo,
    OnProgress,
    OnTokens,
    OpenDocument,
    Question,
    Synced,
)
from ds4_lsp.protocol.commands import InterruptArguments, PromptArguments, PromptResult
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.protocol.settings import ModelSettings, Settings
from ds4_lsp.session.events import Event

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Run:
    """One batch as llama.cpp was given it; tokens at its end may have been rolled back since."""

    start: int
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Continuation:
    """A reply that the sampler chose: what was asked, the runs that the KV was made of before it, and the reply."""

    request: GenerateRequest
    before: tuple[Run, ...]
    generated: Generated


class RecordingEngine(EngineClient):
    """Notes every batch, and does something at a chosen moment: ``at`` is (phase, tokens in that phase, what)."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []
        self.at: tuple[Phase, int, Callable[[], None]] | None = None
        self.streamed: list[tuple[list[int], str]] = []
        """Tokens and text of every reply of the prompt, as they came."""
        self.continuation: Continuation | None = None
        self.asked: list[tuple[GenerateRequest, Generated | None]] = []
        """Every reply that was asked for, and what came of it: None where that raised."""
        self.synced: list[tuple[int, Synced]] = []
        """Every other evaluation, with the number of tokens that the KV was to hold."""
        self.claimed: int | None = None
        """A context size that the engine does not have, for when its numbers are wrong."""

    @property
    def info(self) -> ModelInfo | None:
        info = super().info
        return info if info is None or self.claimed is None else replace(info, context_size=self.claimed)

    async def sync(self, tokens: Sequence[int], *, on_progress: OnProgress, cancel: Cancel) -> Synced:
        synced = await super().sync(tokens, on_progress=self._watched(on_progress), cancel=cancel)
        self._note(tokens, synced)
        self.synced.append((len(tokens), synced))
        return synced

    async def generate(
        self, request: GenerateRequest, *, on_progress: OnProgress, on_tokens: OnTokens, cancel: Cancel
    ) -> Generated:
        ids: list[int] = []
        texts: list[str] = []
        self.streamed.append((ids, ""))

        def heard(more: Sequence[int], text: str) -> None:
            ids.extend(more)
            texts.append(text)
            self.streamed[-1] = (ids, "".join(texts))
            self._pass("decode", len(ids))
            on_tokens(more, text)

        self.asked.append((request, None))
        generated = await super().generate(
            request, on_progress=self._watched(on_progress), on_tokens=heard, cancel=cancel
        )
        self.asked[-1] = (request, generated)
        self._note(request.tokens, generated.prefill)
        self.continuation = Continuation(request, tuple(self.runs), generated)
        held = self.kv
        self.runs += [Run(position, (held[position],)) for position in range(len(request.tokens), len(held))]
        return generated

    def _watched(self, on_progress: OnProgress) -> OnProgress:
        def progressed(done: int, total: int) -> None:
            self._pass("prefill", done)
            on_progress(done, total)

        return progressed

    def _pass(self, phase: Phase, count: int) -> None:
        if self.at is not None and self.at[0] == phase and count >= self.at[1]:
            act = self.at[2]
            self.at = None
            act()

    def _note(self, tokens: Sequence[int], synced: Synced) -> None:
        self.runs = [run for run in self.runs if run.start < synced.cached]
        self.runs += [Run(start, tuple(tokens[start : start + count])) for start, count in synced.batches]


class DiskEditor:
    """An editor without open documents: files are on the disk."""

    saves_open_documents = True
    trusted = True

    def __init__(self, root: Path) -> None:
        self.roots = (root,)
        self.current_root = root
        self.answer: Answer = "once"

    async def document(self, path: Path) -> OpenDocument | None:
        return None

    async def documents(self) -> tuple[OpenDocument, ...]:
        return ()

    async def apply(self, edit: FileEdit) -> Applied:
        try:
            disk.write(edit.path, edit.after, None if edit.create else edit.before_tag)
        except Ds4Error as error:
            return Applied(False, error.message)
        return Applied(True)

    async def ask(self, question: Question, cancel: Cancel) -> Answer:
        return self.answer


class Recorder:
    """Everything that a listener hears, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, str, dict[str, Any]]] = []
        self.open: set[str] = set()
        """Keys of progress that has begun and not ended."""
        self.messages: list[str] = []

    def event(self, session_id: str, turn: int, kind: str, *, seq: int | None = None, **data: Any) -> None:
        self.heard.append((turn, kind, data))

    def progress(self, key: str, title: str, *, done: int = 0, total: int = 0, message: str = "") -> None:
        self.open.add(key)

    def progress_end(self, key: str, message: str = "") -> None:
        self.open.discard(key)

    def message(self, level: str, text: str) -> None:
        self.messages.append(text)

    def of(self, turn: int, kind: str) -> list[dict[str, Any]]:
        return [data for number, what, data in self.heard if (number, what) == (turn, kind)]

    def texts(self, turn: int) -> list[str]:
        """What the user read of that turn, reply by reply."""
        texts = [""]
        for number, kind, data in self.heard:
            if number == turn and kind == "text":
                texts[-1] += data["delta"]
            elif number == turn and kind == "state" and data["state"] == "prefill":
                texts.append("")
        return texts


@dataclass
class Stage:
    """One agent on one model, used by many tests: each begins a session of its own."""

    root: Path
    model: Path
    batch: int
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings by section, over the usual ones."""
    engine: RecordingEngine = field(default_factory=RecordingEngine)
    listener: Recorder = field(default_factory=Recorder)
    agent: Agent = field(init=False)
    _scripts: int = 0

    async def start(self) -> None:
        (self.root / "ws").mkdir(parents=True)
        self.editor = DiskEditor(self.root / "ws")
        self.agent = Agent(self.engine, self.editor, self.listener, self._settings(50000), AgentOptions())
        await self.agent.start()

    def _settings(self, max_tokens: int) -> Settings:
        usual: dict[str, dict[str, Any]] = {
            "model": {
                "path": str(self.model),
                "contextSize": 4096,
                "threads": 1,  # two that wait for each other on a busy machine are several times slower than that
                "batchSize": self.batch,
                "preload": False,
            },
            "sampling": {"temperature": 0.0, "maxTokens": max_tokens},
            "compaction": {"auto": False},
            "permissions": {"bash": "allow"},
            "sessions": {"directory": str(self.root / "sessions"), "snapshots": False},
        }
        return Settings.model_validate(
            {name: usual.get(name, {}) | self.changes.get(name, {}) for name in {**usual, **self.changes}}
        )

    @property
    def runtime(self) -> Runtime:
        assert self.agent.sessions.current is not None
        return self.agent.sessions.current

    def new_session(self) -> None:
        self.agent.sessions.create(None)
        self.listener.heard.clear()
        self.engine.asked.clear()
        self.engine.synced.clear()

    def events(self, type: str | None = None) -> list[Event]:
        return [event for event in self.runtime.session.events() if type in (None, event.type)]

    def limit(self, max_tokens: int) -> None:
        self.agent.update_settings(self._settings(max_tokens), context_is_default=False)

    def set(self, **changes: dict[str, Any]) -> None:
        """Settings in force from now on, by section."""
        self.changes = self.changes | {name: self.changes.get(name, {}) | some for name, some in changes.items()}
        self.limit(50000)

    def script(self, *replies: str, delay: float = 0.0, summaries: Sequence[str] = ()) -> None:
        """Replies and summaries to come, in place of those that were left. ``delay``: seconds per token."""
        self._scripts += 1
        path = self.root / f"script-{self._scripts}.jsonl"
        texts = [("turn", reply) for reply in replies] + [("summary", summary) for summary in summaries]
        lines = [{"purpose": purpose, "text": text, "delay_ms": delay * 1000} for purpose, text in texts]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.agent.services.script = Script(path)

    async def prompt(self, text: str, cancel: Cancel | None = None) -> PromptResult:
        self.engine.streamed = []
        result = await self.agent.command("ds4.prompt", PromptArguments(text=text), cancel or Cancel())
        assert isinstance(result, PromptResult)
        return result

    async def interrupt(self, *, send_queued: bool = False) -> None:
        await self.agent.command("ds4.interrupt", InterruptArguments(send_queued=send_queued), Cancel())

    async def transcript(self) -> tuple[list[int], list[int]]:
        """The session's transcript in tokens, and what opens a reply."""
        transcript = await self.agent.services.transcript(self.runtime)
        opening, _ = await transcript.assistant_open(True)
        return await transcript.tokens(self.runtime.session.surface), opening


class Reference:
    """An engine that is given the runs of another, one by one, and is never cancelled."""

    def __init__(self, model: Path, batch: int) -> None:
        self._model = model
        self._batch = batch
        self._engine = EngineClient()
        self._done: list[Run] = []

    async def load(self) -> None:
        settings = ModelSettings(path=str(self._model), context_size=4096, threads=1, batch_size=self._batch)
        await self._engine.load(settings, context_is_default=False, on_progress=_ignore, cancel=Cancel())

    async def close(self) -> None:
        await self._engine.close()

    async def agrees(self, continuation: Continuation) -> None:
        """Evaluate the same runs, where they differ from those of the last time, and ask for the same reply."""
        runs = list(continuation.before)
        same = next(
            (i for i, (old, new) in enumerate(zip(self._done, runs[:-1], strict=False)) if old != new),
            min(len(self._done), len(runs) - 1),
        )
        for run in runs[same:-1]:
            await self._evaluate(run)
        self._done = runs[:-1]
        await self._cut(runs[-1].start)
        generated = await self._engine.generate(
            continuation.request, on_progress=_ignore, on_tokens=_ignore, cancel=Cancel()
        )
        assert generated.prefill.batches == ((runs[-1].start, len(runs[-1].tokens)),)
        assert generated.tokens == continuation.generated.tokens
        assert len(generated.tokens) > 0

    async def _evaluate(self, run: Run) -> None:
        await self._cut(run.start)
        synced = await self._sync([*self._engine.kv, *run.tokens])
        assert synced.batches == ((run.start, len(run.tokens)),)

    async def _cut(self, length: int) -> None:
        assert len(self._engine.kv) >= length
        if len(self._engine.kv) > length:
            assert (await self._sync(list(self._engine.kv)[:length])).batches == ()

    async def _sync(self, tokens: Sequence[int]) -> Synced:
        return await self._engine.sync(tokens, on_progress=_ignore, cancel=Cancel())


def _ignore(_first: Any, _second: Any) -> None:
    pass


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """The builders of tiny models."""
    path = Path(__file__).parents[1] / "engine" / "tiny.py"
    spec = importlib.util.spec_from_file_location("ds4_test_agent_tiny", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tiny_model(tiny: ModuleType, small_model: Path, once: Callable[..., Path]) -> Path:
    """Random weights, the small model's vocabulary and template."""
    return once("llama.gguf", lambda path: tiny.llama(path, small_model))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stages(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """The stage of a model, with that many tokens in a batch; made once."""
    made: dict[Path, Stage] = {}

    async def stage(model: Path, batch: int = 64) -> Stage:
        if model not in made:
            made[model] = Stage(tmp_path_factory.mktemp("stage"), model, batch)
            await made[model].start()
        return made[model]

    yield stage
    for one in made.values():
        await one.agent.shutdown()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(stages: Any, tiny_model: Path) -> Stage:
    """The agent on the tiny model, in a new session."""
    made: Stage = await stages(tiny_model)
    made.limit(50000)
    made.new_session()
    return made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def large_stages(
    tiny: ModuleType, small_model: Path, once: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """Stages that compact by themselves, on a tiny model with a context of that many tokens; one for each size and
    name, in a new session whenever asked for. ``changes``: settings by section, over the usual ones."""
    model = once("large.gguf", lambda path: tiny.llama(path, small_model, trained=32768))
    made: dict[tuple[int, str], Stage] = {}

    async def stage(context: int, name: str = "", **changes: dict[str, Any]) -> Stage:
        usual = {"compaction": {"auto": True, "minFreeTokens": 0}, "model": {"contextSize": context}}
        wanted = {part: usual.get(part, {}) | changes.get(part, {}) for part in {**usual, **changes}}
        one = made.get((context, name))
        if one is None:
            one = made[context, name] = Stage(tmp_path_factory.mktemp("stage"), model, 256, wanted)
            await one.start()
        one.changes = {}
        one.set(**wanted)
        one.script()
        one.new_session()
        return one

    yield stage
    for one in made.values():
        await one.agent.shutdown()


@pytest_asyncio.fixture(loop_scope="session")
async def references() -> AsyncIterator[Callable[[Stage], Awaitable[Reference]]]:
    """Fresh engines for the test, set up as a stage's."""
    made: list[Reference] = []

    async def reference(stage: Stage) -> Reference:
        made.append(Reference(stage.model, stage.batch))
        await made[-1].load()
        return made[-1]

    yield reference
    for one in made:
        await one.close()
