"""The server: every LSP message's handler, and the parts that they use.

Everything here runs on the LSP loop, and none of it waits for the agent, a tool or the disk without ``await``.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from lsprotocol import types

from ds4_lsp.protocol.errors import Ds4Error, NotFound
from ds4_lsp.server.actions import code_actions
from ds4_lsp.server.applying import Applier
from ds4_lsp.server.approvals import Approvals
from ds4_lsp.server.capabilities import SCHEME, initialize_result
from ds4_lsp.server.client import Client, read
from ds4_lsp.server.commands import Commands
from ds4_lsp.server.configuration import Configuration
from ds4_lsp.server.documents import Change, DocumentStore
from ds4_lsp.server.editor import ServerEditor
from ds4_lsp.server.lifetime import Lifetime
from ds4_lsp.server.listener import ServerListener
from ds4_lsp.server.logs import ClientLog
from ds4_lsp.server.progress import Progress
from ds4_lsp.server.protocol import INTERNAL_ERROR, Protocol, Refusal
from ds4_lsp.server.results import refusal
from ds4_lsp.server.seam import Agent, AgentFactory, ServerOptions, Start
from ds4_lsp.server.worker import Loop, Worker

log = logging.getLogger(__name__)

SHUTDOWN_WAIT = 1.2
"""Seconds the agent has to end; less than ``lifetime.DEADLINE``."""


class Host:
    """One connection with its agent. ``backlog``: bytes that the client has not read."""

    def __init__(
        self,
        protocol: Protocol,
        lifetime: Lifetime,
        options: ServerOptions,
        make_agent: AgentFactory,
        backlog: Callable[[], int],
    ) -> None:
        self._protocol = protocol
        self._lifetime = lifetime
        self._options = options
        self._make_agent = make_agent
        loop = Loop(asyncio.get_running_loop())
        self._worker = Worker()
        self._worker.start()
        self._client = Client()
        self._configuration = Configuration(
            protocol,
            model_path=options.model or os.environ.get("DS4_MODEL") or None,
            warn=lambda text: self._listener.show("warning", text),
            changed=self._settings_changed,
        )
        self._documents = DocumentStore()
        self._editor = ServerEditor(
            loop,
            documents=self._documents,
            applier=Applier(protocol, self._documents, self._get_client),
            approvals=Approvals(protocol, self._get_client),
            client=self._get_client,
            settings=lambda: self._configuration.settings.edits,
        )
        self._progress = Progress(protocol, lambda: self._client.progress, self._cancel_work)
        self._listener = ServerListener(protocol, self._get_client, self._progress, loop, backlog)
        self._commands = Commands(
            protocol,
            worker=self._worker,
            agent=self._get_agent,
            listener=self._listener,
            progress=self._progress,
            editor=self._editor,
        )
        self._log = ClientLog(lambda kind, text: loop.post(self._log_message, kind, text))
        self._agent: asyncio.Task[Agent] | None = None
        self._told: str | None = None
        """The last reason why the agent did not start, which the user knows."""
        protocol.on_cancel = self._commands.cancel_request
        for method, handler in self._handlers().items():
            protocol.add(method, handler)

    def _handlers(self) -> Mapping[str, Callable[..., Any]]:
        return {
            types.INITIALIZE: self.initialize,
            types.INITIALIZED: self.initialized,
            types.SHUTDOWN: self.shutdown,
            types.EXIT: self.exit,
            types.SET_TRACE: self.set_trace,
            types.WORKSPACE_DID_CHANGE_CONFIGURATION: self._configuration.did_change,
            types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: self.did_change_workspace_folders,
            types.WORKSPACE_EXECUTE_COMMAND: self._commands.execute,
            types.WORKSPACE_TEXT_DOCUMENT_CONTENT: self.text_document_content,
            types.WINDOW_WORK_DONE_PROGRESS_CANCEL: self.work_done_progress_cancel,
            types.TEXT_DOCUMENT_DID_OPEN: self.did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: self.did_change,
            types.TEXT_DOCUMENT_DID_SAVE: lambda params: self._documents.saved(params.text_document.uri),
            types.TEXT_DOCUMENT_DID_CLOSE: self.did_close,
            types.TEXT_DOCUMENT_CODE_ACTION: self.code_action,
        }

    # --- life ---------------------------------------------------------------------------------------------------------

    def initialize(self, _params: types.InitializeParams) -> types.InitializeResult:
        """Answered at once, most often by the ``Greeting`` already: the agent starts after ``initialized``."""
        client = read(self._protocol.raw_initialize)
        self._client = client
        self._documents.encoding = client.encoding
        self._editor.set_folders(client.folders)
        self._configuration.initialize(client)
        self._log.trace(client.trace)
        if client.process_id is not None:
            self._lifetime.watch_parent(client.process_id)
        return self._protocol.structured(initialize_result(client), types.InitializeResult)

    def initialized(self, _params: types.InitializedParams) -> None:
        self._start_agent()
        self._configuration.watch()

    def shutdown(self, _params: None) -> None:
        """What runs is cancelled and answered; nothing new begins."""
        self._protocol.refuse_requests()
        self._commands.cancel_all()
        agent = self._running_agent()
        if agent is not None:
            self._worker.post(agent.stop)

    def exit(self, _params: None) -> None:
        self._lifetime.end("the client said exit")

    async def end(self) -> None:
        """Let the agent end in order, for as long as there is time."""
        self._log.trace("off")
        self._protocol.disconnected()
        self._commands.cancel_all()
        agent = self._running_agent()
        try:
            if agent is not None:
                await asyncio.wait_for(self._worker.call(agent.shutdown()), SHUTDOWN_WAIT)
        except TimeoutError:
            log.warning("the agent did not end in time")
        except Exception:
            log.exception("the agent did not end in order")
        self._listener.flush()
        self._progress.close()

    # --- the agent ----------------------------------------------------------------------------------------------------

    def _start_agent(self) -> asyncio.Task[Agent]:
        """The start that runs or has succeeded; after a failure the next one: its reason may be gone by now."""
        if self._agent is None or self._failure(self._agent) is not None:
            self._agent = asyncio.get_running_loop().create_task(self._started_agent())
            self._agent.add_done_callback(self._agent_started)
        return self._agent

    async def _get_agent(self) -> Agent:
        """Raises ``Ds4Error`` or ``Refusal`` when it does not start."""
        try:
            return await asyncio.shield(self._start_agent())
        except Ds4Error:
            raise
        except Exception as error:
            raise Refusal(_not_started(error), INTERNAL_ERROR) from error

    async def _started_agent(self) -> Agent:
        configuration = self._configuration
        await configuration.first()
        start = Start(configuration.settings, configuration.context_is_default, self._options.trace)
        agent = await self._worker.call(self._make(start))
        if configuration.settings != start.settings:
            self._update_settings(agent)
        if self._protocol.shutdown_requested:
            self._worker.post(agent.stop)
        return agent

    async def _make(self, start: Start) -> Agent:
        """On the worker."""
        before = self._listener.health
        agent = self._make_agent(self._editor, self._listener, start)
        self._listener.health = lambda: agent.health
        try:
            await agent.start()
        except BaseException:
            self._listener.health = before
            # It may hold a session's lock already, which the next one needs.
            await _ended(agent)
            raise
        return agent

    def _agent_started(self, task: asyncio.Task[Agent]) -> None:
        error = self._failure(task)
        if error is None:
            self._told = None
            return
        log.error("the agent did not start", exc_info=error)
        text = _not_started(error)
        if text != self._told:
            self._told = text
            self._listener.show("error", text)

    @staticmethod
    def _failure(task: asyncio.Task[Agent]) -> BaseException | None:
        """Why the start that is over did not succeed."""
        if not task.done():
            return None
        return asyncio.CancelledError() if task.cancelled() else task.exception()

    def _running_agent(self) -> Agent | None:
        task = self._agent
        if task is None or not task.done() or self._failure(task) is not None:
            return None
        return task.result()

    def _cancel_work(self, key: str) -> None:
        agent = self._running_agent()
        if agent is not None:
            self._worker.post(agent.cancel_progress, key)

    def _settings_changed(self) -> None:
        agent = self._running_agent()
        if agent is not None:
            self._update_settings(agent)
        elif self._agent is not None and not self._protocol.shutdown_requested:
            self._start_agent()

    def _update_settings(self, agent: Agent) -> None:
        configuration = self._configuration
        update = functools.partial(agent.update_settings, context_is_default=configuration.context_is_default)
        self._worker.post(update, configuration.settings)

    # --- documents and folders ----------------------------------------------------------------------------------------

    def did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        self._documents.open(document.uri, document.version, document.text)

    def did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        document = params.text_document
        self._documents.change(document.uri, document.version, [_change(change) for change in params.content_changes])

    def did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._documents.close(params.text_document.uri)

    def did_change_workspace_folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        self._editor.change_folders(
            added=[folder.uri for folder in params.event.added], removed=[folder.uri for folder in params.event.removed]
        )

    # --- the rest -----------------------------------------------------------------------------------------------------

    def code_action(self, params: types.CodeActionParams) -> list[dict[str, Any]]:
        return code_actions(params, self._client)

    async def text_document_content(self, params: types.TextDocumentContentParams) -> dict[str, str]:
        try:
            if not params.uri.startswith(f"{SCHEME}:"):
                raise NotFound(f"Only {SCHEME}: URIs have their text here, not {params.uri}.")
            agent = await self._get_agent()
            return {"text": await self._worker.call(agent.document(params.uri))}
        except Ds4Error as error:
            raise refusal(error) from error

    def set_trace(self, params: types.SetTraceParams) -> None:
        self._log.trace(str(getattr(params.value, "value", params.value)))

    async def work_done_progress_cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        # Asynchronous, so that a command received just before is known by now.
        if not (self._commands.cancel_token(params.token) or self._progress.cancelled(params.token)):
            log.debug("the cancelled progress %s has ended", params.token)

    def _log_message(self, kind: int, text: str) -> None:
        self._protocol.tell(types.WINDOW_LOG_MESSAGE, {"type": kind, "message": text})

    def _get_client(self) -> Client:
        return self._client


def _not_started(error: BaseException) -> str:
    return f"ds4-lsp could not start its agent: {error}"


async def _ended(agent: Agent) -> None:
    try:
        await agent.shutdown()
    except Exception:
        log.exception("what had started of the agent did not end in order")


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Change((start.line, start.character, end.line, end.character), change.text)
    return Change(None, change.text)
