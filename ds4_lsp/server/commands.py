"""``workspace/executeCommand``: one request from its arguments to its reply, with its progress token and its cancel."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types

from ds4_lsp.ports import Cancel
from ds4_lsp.protocol.commands import PromptArguments, PromptResult, UriResult
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.server.editor import ServerEditor
from ds4_lsp.server.listener import ServerListener
from ds4_lsp.server.progress import Bar, Progress, Token
from ds4_lsp.server.protocol import Protocol
from ds4_lsp.server.results import command_of, parse_arguments, refusal, to_wire
from ds4_lsp.server.seam import Agent
from ds4_lsp.server.worker import Worker

log = logging.getLogger(__name__)

PROGRESS_KEYS = {"ds4.loadModel": "load", "ds4.compact": "compaction", "ds4.switchSession": "restore"}
"""What a command's own progress token shows. A prompt's turn is found by its text."""
TITLES = {"ds4.prompt": "DS4", "ds4.loadModel": "DS4: load model", "ds4.compact": "COMPACTING"}
SESSION_CHANGES = frozenset({"ds4.newSession", "ds4.switchSession"})


@dataclass(eq=False)
class Running:
    """A command that has not been answered. ``cancel`` belongs to the worker."""

    msg_id: int | str | None
    token: Token | None
    cancel: Cancel = field(default_factory=Cancel)


class Commands:
    """On the LSP loop. ``agent`` gives the agent once it has started."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        worker: Worker,
        agent: Callable[[], Awaitable[Agent]],
        listener: ServerListener,
        progress: Progress,
        editor: ServerEditor,
    ) -> None:
        self._protocol = protocol
        self._worker = worker
        self._agent = agent
        self._listener = listener
        self._progress = progress
        self._editor = editor
        self._running: list[Running] = []

    async def execute(self, params: types.ExecuteCommandParams) -> Any:
        """The command's result, JSON. Raises ``Refusal``."""
        command = command_of(params.command)
        arguments = parse_arguments(command, list(params.arguments or ()))
        running = Running(self._protocol.msg_id, params.work_done_token)
        bar = self._begin(command.name, arguments, params.work_done_token)
        self._running.append(running)
        message = ""
        try:
            agent = await self._agent()
            if isinstance(arguments, PromptArguments) and arguments.context:
                self._editor.note_session_document(arguments.context[0].uri)
            result = await self._worker.call(agent.command(command.name, arguments, running.cancel))
            if command.name in SESSION_CHANGES:
                self._editor.forget_session_document()
            if isinstance(arguments, PromptArguments) and isinstance(result, PromptResult):
                message = result.stop_reason or ""
                if not arguments.wait:
                    self._listener.show_answer_of(result.session_id, result.turn)
            if isinstance(result, UriResult):
                self._listener.show_document(result.uri)
            return to_wire(result)
        except Ds4Error as error:
            message = error.message
            raise refusal(error) from error
        finally:
            self._running.remove(running)
            # What the operation said goes out before its reply.
            self._listener.flush()
            if bar is not None:
                self._listener.prompt_answered(bar)
                self._progress.answered(bar, message)

    def _begin(self, name: str, arguments: Any, token: Token | None) -> Bar | None:
        if token is None:
            return None
        bar = self._progress.request(token, TITLES.get(name, "DS4"), PROGRESS_KEYS.get(name))
        if isinstance(arguments, PromptArguments) and arguments.wait:
            self._listener.prompt_waits(arguments.text, bar)
        return bar

    def cancel_request(self, msg_id: int | str) -> bool:
        """``$/cancelRequest``: the operation is stopped, and its request still answered. False for another request."""
        return self._cancel([running for running in self._running if running.msg_id == msg_id])

    def cancel_token(self, token: Token) -> bool:
        """``window/workDoneProgress/cancel`` of a token that came with a command."""
        return self._cancel([running for running in self._running if running.token == token])

    def cancel_all(self) -> None:
        self._cancel(self._running)

    def _cancel(self, found: list[Running]) -> bool:
        for running in found:
            self._worker.post(running.cancel.set)
        return bool(found)
