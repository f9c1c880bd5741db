"""What every operation of the agent shares: one engine, one client, one set of settings."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ds4_lsp.agent.example import example_conversation
from ds4_lsp.agent.meter import Meter
from ds4_lsp.agent.model import ModelHost
from ds4_lsp.agent.queue import Queue
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.script import Script
from ds4_lsp.agent.speech import speech
from ds4_lsp.agent.trace import Trace
from ds4_lsp.agent.transcript import Transcript
from ds4_lsp.chat import render, system
from ds4_lsp.chat.frames import Frames
from ds4_lsp.chat.tools import with_tools
from ds4_lsp.ports import Editor, Engine, Listener, ModelInfo, ToolSpec
from ds4_lsp.protocol.commands import State
from ds4_lsp.protocol.errors import NoModel
from ds4_lsp.protocol.settings import Settings
from ds4_lsp.syntax.prompt import tool_instructions


@dataclass
class Services:
    """Owned by the worker. ``settings`` gives the settings in force now."""

    engine: Engine
    editor: Editor
    listener: Listener
    settings: Callable[[], Settings]
    model: ModelHost
    meter: Meter
    queue: Queue
    script: Script
    trace: Trace
    operating: bool = False
    """Whether an operation has the engine: it says itself in which state it is."""

    def emit(self, runtime: Runtime, kind: str, *, seq: int | None = None, **data: Any) -> None:
        """Tell the user, and the trace, what the session does."""
        self.trace.record("event", sessionId=runtime.id, turn=runtime.turn, kind=kind, **data)
        self.listener.event(runtime.id, runtime.turn, kind, seq=seq, **data)

    def tell(self, runtime: Runtime, text: str) -> None:
        """What the user has to know of the session, among its events."""
        self.emit(runtime, "notice", text=text)

    def used(self, runtime: Runtime) -> int:
        """Tokens of the session's transcript: as the engine has it, or as it was when it was last used."""
        return self.meter.used if self.meter.used_by == runtime.id else int(runtime.session.state.tokens)

    def enter(self, runtime: Runtime | None, state: State) -> None:
        """Change the state, once per change."""
        if self.meter.state == state:
            return
        self.meter.state = state
        self.listener.event(runtime.id if runtime else "", runtime.turn if runtime else 0, "state", state=state)

    async def transcript(self, runtime: Runtime) -> Transcript:
        """The session's transcript on the loaded model, with its system prompt."""
        info, frames = self.engine.info, self.model.frames
        if info is None or frames is None:
            raise NoModel("No model is loaded. Send the prompt again to load it.")
        settings = self.settings()
        chosen = info, settings.thinking, settings.tools.syntax
        if runtime.transcript is None or runtime.spoken_as != chosen:
            runtime.transcript = await self._begin(runtime, info, frames.at(settings.thinking), settings.tools.syntax)
            runtime.spoken_as = chosen
        return runtime.transcript

    async def _begin(self, runtime: Runtime, info: ModelInfo, frames: Frames, wanted: str) -> Transcript:
        specs = [spec.taught() for spec in runtime.toolbox.specs()]
        spoken = speech(frames, wanted, info.name)
        if spoken.native:
            with_section = await asyncio.to_thread(with_tools, info, frames, specs)
            if with_section is None:
                spoken = speech(frames, "dsml")
            else:
                frames = with_section
        if spoken.note:
            self.listener.message("warning", f"DS4: {spoken.note}")
        transcript = Transcript(self.engine, frames, info, spoken)
        await self._system(runtime, transcript, specs)
        return transcript

    async def _system(self, runtime: Runtime, transcript: Transcript, specs: Sequence[ToolSpec]) -> None:
        settings = self.settings()
        roots = [str(root) for root in self.editor.roots]
        spoken = transcript.speech
        section = "" if spoken.native else tool_instructions(specs, spoken.syntax)
        builtin = system.builtin_prompt(f"{section}\n{example_conversation(spoken.syntax)}")
        plain = system.environment(roots, sys.platform, settings.system_prompt)
        segments = render.system(transcript.frames, builtin, plain)
        await transcript.set_system(segments)
        header = {
            "system": "".join(segment.text for segment in segments),
            "tools": [spec.name for spec in specs],
            "model": transcript.info.name,
        }
        if runtime.header != header:
            runtime.header = header
            runtime.session.append("request/header", header)
            info = transcript.info
            loaded = {"name": info.name, "path": info.path, "fingerprint": info.fingerprint}
            runtime.session.append("model/loaded", loaded)

    def rest(self) -> None:
        """The state while nothing runs; an operation that runs keeps its own."""
        if self.operating:
            return
        state: State = "idle"
        if self.model.loading is not None:
            state = "loading"
        elif self.engine.info is None:
            state = "error" if self.model.error else ("noModel" if self.model.path is None else "idle")
        self.enter(None, state)
