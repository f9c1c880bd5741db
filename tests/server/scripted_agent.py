"""An agent that does what its prompts say: the whole LSP surface without a model.

The prompt's first word chooses what happens, see ``Scripted``.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any, Literal

from ds4_lsp.edits import text, uris
from ds4_lsp.ports import Cancel, Editor, FileEdit, Listener, Question
from ds4_lsp.protocol import commands as c
from ds4_lsp.protocol import errors
from ds4_lsp.server.seam import Start


class Scripted:
    """Prompts: ``say TEXT``, ``wait``, ``flood N``, ``ask``, ``edit JSON``, ``roots``, ``print``, ``hog``, ``crash``,
    ``refuse CODE``, ``late``, ``load``, ``progress``, ``settings``."""

    starts = 0
    """Of all agents in this process."""

    def __init__(self, editor: Editor, listener: Listener, start: Start) -> None:
        self.editor = editor
        self.listener = listener
        self.settings = start.settings
        self.context_is_default = start.context_is_default
        self.turn = 0
        self.state: c.State = "loading"
        self.turns = asyncio.Lock()
        self.stopping = Cancel()
        """Set when nothing may go on."""

    @property
    def health(self) -> tuple[Literal["ok", "warning", "error"], bool, str | None]:
        return "ok", self.state == "idle", None

    async def start(self) -> None:
        """Fails where the system prompt says so: ``fail to start`` always, ``fail to start twice`` so often."""
        told = self.settings.system_prompt
        Scripted.starts += 1
        if told == "fail to start" or (told == "fail to start twice" and Scripted.starts <= 2):
            raise RuntimeError("it was told to fail")
        if Scripted.starts > 1:
            self.listener.message("info", "agent started")
        self.enter("idle")

    def enter(self, state: c.State) -> None:
        self.state = state
        self.listener.event("s1", self.turn, "state", state=state)

    def update_settings(self, settings: Any, *, context_is_default: bool) -> None:
        self.settings, self.context_is_default = settings, context_is_default
        self.listener.message("info", "settings updated")

    def cancel_progress(self, key: str) -> None:
        self.listener.message("info", f"cancelled {key}")
        self.listener.progress_end(key, "cancelled")

    async def document(self, uri: str) -> str:
        if "missing" in uri:
            raise errors.NotFound("no such session")
        return f"transcript of {uri}"

    def stop(self) -> None:
        self.stopping.set()
        self.listener.message("info", "the agent was told to stop")

    async def shutdown(self) -> None:
        if self.state == "error":
            await asyncio.sleep(3600)

    async def command(self, name: str, arguments: c.Arguments, cancel: Cancel) -> c.Wire:
        if isinstance(arguments, c.PromptArguments):
            return await self.prompt(arguments, cancel)
        if name == "ds4.status":
            return self.status()
        if isinstance(arguments, c.LoadModelArguments):
            self.listener.progress("load", "loading", done=1, total=4)
            self.listener.progress_end("load")
            return c.ModelResult(model=None)
        if isinstance(arguments, c.CompactArguments):
            return c.CompactResult(compacted=False, reason="nothing to compact")
        return c.SessionResult(session_id="s1")

    def status(self) -> c.StatusResult:
        return c.StatusResult(
            state=self.state,
            model=None,
            context=c.ContextUse(used=0, size=0, percent=0.0),
            prefill=c.PrefillStatus(done=0, total=0),
            generation=c.GenerationStatus(tokens=0, tokens_per_second=0.0),
            session=None,
            queue=[],
            jobs=[],
        )

    async def prompt(self, arguments: c.PromptArguments, cancel: Cancel) -> c.PromptResult:
        if not arguments.wait:
            asyncio.get_running_loop().create_task(self.run(arguments.text, self.stopping))
            return c.PromptResult(session_id="s1", turn=self.turn + 1, queued=False)
        return await self.run(arguments.text, cancel)

    async def run(self, prompt: str, cancel: Cancel) -> c.PromptResult:
        async with self.turns:
            if self.stopping.is_set:
                return c.PromptResult(session_id="s1", turn=self.turn, stop_reason="cancelled")
            return await self.play(prompt, cancel)

    async def play(self, prompt: str, cancel: Cancel) -> c.PromptResult:
        self.turn += 1
        turn = self.turn
        self.listener.event("s1", turn, "turn.start", text=prompt)
        self.listener.progress("turn", "DS4", message="thinking")
        verb, _, rest = prompt.partition(" ")
        error = None
        stop: c.StopReason = "end"
        text_shown = ""
        try:
            text_shown = await getattr(self, f"do_{verb}")(turn, rest, cancel)
        except errors.Cancelled:
            stop = "cancelled"
        except errors.Ds4Error:
            self.end(turn, "error")
            raise
        self.end(turn, stop)
        return c.PromptResult(session_id="s1", turn=turn, stop_reason=stop, text=text_shown, error=error)

    def end(self, turn: int, stop: str) -> None:
        self.listener.event("s1", turn, "turn.end", stopReason=stop)
        self.listener.progress_end("turn", stop)

    # --- what prompts can ask for -------------------------------------------------------------------------------------

    async def do_say(self, turn: int, rest: str, cancel: Cancel) -> str:
        for character in rest:
            self.listener.event("s1", turn, "text", delta=character)
        return rest

    async def do_wait(self, turn: int, rest: str, cancel: Cancel) -> str:
        stopped = asyncio.Event()
        cancel.on_set(stopped.set)
        self.listener.event("s1", turn, "text", delta="waiting")
        await stopped.wait()
        raise errors.Cancelled("stopped")

    async def do_flood(self, turn: int, rest: str, cancel: Cancel) -> str:
        for number in range(int(rest)):
            self.listener.event("s1", turn, "text", delta=f"{number} ")
            self.listener.progress("turn", "DS4", done=number, total=int(rest), message=str(number))
            if number % 20 == 0:
                await asyncio.sleep(0.001)
        return "flooded"

    async def do_ask(self, turn: int, rest: str, cancel: Cancel) -> str:
        question = Question("bash", "Run this command?", rest or "rm -rf build", "k")
        return await self.editor.ask(question, cancel)

    async def do_edit(self, turn: int, rest: str, cancel: Cancel) -> str:
        """``{"uri", "start", "end", "new", "create"?}`` planned against what the editor has, as the tools do."""
        request = json.loads(rest)
        path = uris.to_path(request["uri"])
        assert path is not None
        document = await self.editor.document(path)
        create = bool(request.get("create"))
        before = "" if create else document.text if document else path.read_bytes().decode()
        after = before[: request["start"]] + request["new"] + before[request["end"] :]
        edit = FileEdit(
            uri=document.uri if document else request["uri"],
            path=Path(path),
            version=document.version if document else None,
            before=before,
            start=request["start"],
            end=request["end"],
            new_text=request["new"],
            before_tag=text.file_tag(before),
            after_tag=text.file_tag(after),
            label="Edit",
            create=create,
            save=request.get("save", True),
        )
        applied = await self.editor.apply(edit)
        return json.dumps({"saved": applied.saved, "failure": applied.failure, "rejected": applied.rejected})

    async def do_roots(self, turn: int, rest: str, cancel: Cancel) -> str:
        current = self.editor.current_root
        documents = [[str(document.path), document.version] for document in await self.editor.documents()]
        return json.dumps(
            {"roots": [str(root) for root in self.editor.roots], "current": str(current), "documents": documents}
        )

    async def do_print(self, turn: int, rest: str, cancel: Cancel) -> str:
        print("to sys.stdout", flush=True)
        os.write(1, b"to descriptor 1\n")
        return "printed"

    async def do_hog(self, turn: int, rest: str, cancel: Cancel) -> str:
        """The worker's thread does nothing else, for as long as told."""
        self.listener.event("s1", turn, "text", delta="hogging")
        time.sleep(float(rest))  # noqa: ASYNC251 - on purpose
        return "done"

    async def do_stuck(self, turn: int, rest: str, cancel: Cancel) -> str:
        """A shutdown that never ends follows."""
        self.enter("error")
        return "stuck"

    async def do_crash(self, turn: int, rest: str, cancel: Cancel) -> str:
        raise RuntimeError("a defect")

    async def do_refuse(self, turn: int, rest: str, cancel: Cancel) -> str:
        kind = next(kind for kind in errors.Ds4Error.__subclasses__() if kind.code == rest)
        raise kind("Do this next.", detail=1)

    async def do_late(self, turn: int, rest: str, cancel: Cancel) -> str:
        """Events that come too late."""

        def late() -> None:
            self.listener.event("s1", turn, "text", delta="too late")
            self.listener.event("s1", turn, "state", state="idle")
            self.listener.event("s1", turn, "notice", text="that was late")

        asyncio.get_running_loop().call_later(0.1, late)
        return "soon"

    async def do_load(self, turn: int, rest: str, cancel: Cancel) -> str:
        """A load that goes on after the turn."""
        for done in (10, 5, 40):
            self.listener.progress("load", "Loading", done=done, total=100, message=f"{done} %")
        return "loading"

    async def do_settings(self, turn: int, rest: str, cancel: Cancel) -> str:
        dumped = self.settings.model_dump(by_alias=True)
        return json.dumps(dumped | {"contextIsDefault": self.context_is_default})
