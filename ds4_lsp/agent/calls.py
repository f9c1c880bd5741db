"""The calls of one reply: run in order, each with exactly one result, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ds4_lsp.agent.compactor import Compactor
from ds4_lsp.agent.reply import Reply, ReplyCall
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.protocol.commands import ToolCallSummary
from ds4_lsp.protocol.errors import Cancelled, Ds4Error
from ds4_lsp.tools.base import Call, ToolResult
from ds4_lsp.tools.cycles import Cycles

CANCELLED = "not executed: the user interrupted the turn"
QUEUED = "not executed: a queued prompt is pending"
UNKNOWN = "outcome unknown: verify first"
NOT_STARTED = "not started: retry"
RESTATED = 300
"""Code points of the prompt that a model which goes in circles is told again."""


def append_result(runtime: Runtime, call_id: str, name: str, result: ToolResult) -> int:
    """Write one result; returns its seq."""
    data: dict[str, Any] = {
        "turn": runtime.turn,
        "callId": call_id,
        "name": name,
        "ok": result.ok,
        "text": result.text,
    }
    if result.shown:
        data["shown"] = [runtime.shown(place) for place in result.shown]
    if result.data:
        data["data"] = result.data
    return int(runtime.session.append("tool/result", data, surface_op={"op": "append"}).seq)


def _request(runtime: Runtime) -> str:
    """The user's last prompt, in one line."""
    prompts = (event.data for event in reversed(runtime.session.surface.events) if event.type == "user/message")
    text = next((str(data["text"]) for data in prompts if data.get("kind") == "prompt"), "")
    line = " ".join(text.split())
    return line if len(line) <= RESTATED else line[:RESTATED] + "…"


def settle(runtime: Runtime) -> dict[str, tuple[int, str]]:
    """Give every unanswered call a result, so that pairs stay whole; their seqs and texts by call."""
    settled: dict[str, tuple[int, str]] = {}
    for call in list(runtime.session.state.calls.values()):
        text = UNKNOWN if call.started else NOT_STARTED
        settled[call.call_id] = append_result(runtime, call.call_id, call.name, ToolResult(text, ok=False)), text
    return settled


class CallRunner:
    """Dispatches calls to the session's tools."""

    def __init__(self, services: Services, compactor: Compactor) -> None:
        self._services = services
        self._compactor = compactor
        self._loops: dict[tuple[str, int], Cycles] = {}

    async def run(self, runtime: Runtime, reply: Reply, summaries: list[ToolCallSummary]) -> str | None:
        """None: the turn goes on. A text ends it: empty for a queued prompt, else what the user is told.

        Raises ``Cancelled`` after every call has its result.
        """
        detector = self._detector(runtime)
        for number, call in enumerate(reply.calls):
            rest = reply.calls[number:]
            if runtime.cancel is not None and runtime.cancel.is_set:
                self._skip(runtime, rest, CANCELLED, summaries)
                raise Cancelled("The turn was cancelled.")
            if self._services.queue.will_run(runtime.id):
                self._skip(runtime, rest, QUEUED, summaries)
                return ""
            result = await self._one(runtime, call)
            verdict = detector.note(call.name, call.arguments, result)
            if verdict.action == "remind":
                told = f"{result.text}\n\n{verdict.text} The request was: {_request(runtime)}"
                result = replace(result, text=told)
            try:
                result = await self._compactor.fit(runtime, call.call_id, call.name, result)
            except Ds4Error:
                # What the tool did is known, whatever became of the engine.
                self._answer(runtime, call, result, summaries)
                raise
            self._answer(runtime, call, result, summaries)
            if verdict.action == "end":
                self._skip(runtime, reply.calls[number + 1 :], f"not executed: {verdict.text}", summaries)
                return verdict.text
        if runtime.cancel is not None and runtime.cancel.is_set:
            raise Cancelled("The turn was cancelled.")
        return None

    def _detector(self, runtime: Runtime) -> Cycles:
        key = (runtime.id, runtime.turn)
        if key not in self._loops:
            self._loops = {key: Cycles()}
        return self._loops[key]

    async def _one(self, runtime: Runtime, call: ReplyCall) -> ToolResult:
        services = self._services
        services.enter(runtime, "tool")
        services.listener.progress("turn", "DS4", message=call.name)
        if call.error is not None:
            return ToolResult(f"The call was not run: {call.error}", ok=False)
        assert runtime.cancel is not None
        runtime.call_id = call.call_id
        started = {"turn": runtime.turn, "callId": call.call_id, "name": call.name}
        runtime.session.append("tool/started", started)
        if runtime.toolbox.changes(call.name):
            runtime.session.sync()
        services.trace.record("tool", callId=call.call_id, name=call.name, arguments=call.arguments)
        try:
            return await runtime.toolbox.run(
                call.name,
                call.arguments,
                Call(runtime.id, runtime.turn, call.call_id, runtime.cancel),
            )
        finally:
            runtime.call_id = ""

    def _answer(self, runtime: Runtime, call: ReplyCall, result: ToolResult, summaries: list[ToolCallSummary]) -> None:
        seq = append_result(runtime, call.call_id, call.name, result)
        self._services.emit(
            runtime, "tool.result", seq=seq, callId=call.call_id, name=call.name, ok=result.ok, text=result.text
        )
        summaries.append(ToolCallSummary(call_id=call.call_id, name=call.name, arguments=call.arguments, ok=result.ok))

    def _skip(self, runtime: Runtime, calls: list[ReplyCall], why: str, summaries: list[ToolCallSummary]) -> None:
        for call in calls:
            self._answer(runtime, call, ToolResult(why, ok=False), summaries)
