"""The settings in force, kept up with what the client says. On the LSP loop."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from lsprotocol import types

from ds4_lsp.protocol.settings import Settings
from ds4_lsp.server.client import Client
from ds4_lsp.server.protocol import ClientError, Protocol
from ds4_lsp.server.settings import SECTION, Sources, explicit

log = logging.getLogger(__name__)

FIRST_WAIT = 2.0
"""Seconds the start of the agent waits for the client's configuration; a later answer is a change."""


class Configuration:
    """``warn`` tells the user of a setting that cannot be used; ``changed`` is called after every change."""

    def __init__(
        self,
        protocol: Protocol,
        *,
        model_path: str | None,
        warn: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._protocol = protocol
        self._client = Client()
        self._sources = Sources(model_path=model_path)
        self._warn = warn
        self._changed = changed
        self._started = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.settings = Settings()

    @property
    def context_is_default(self) -> bool:
        """Whether nobody chose the context size."""
        return not self._sources.names_context_size and "model.contextSize" not in explicit(self.settings)

    def initialize(self, client: Client) -> None:
        self._client = client
        self._sources.options = client.options

    def watch(self) -> None:
        """Ask the client to report changes, where it wants to be asked."""
        if self._client.watches_configuration:
            self._spawn(self._register())

    async def first(self) -> None:
        """Take the settings for the agent's start. Problems are told from here on, so that each is told once.

        After the first time they are followed, and this changes nothing.
        """
        if self._started:
            return
        if self._client.configuration:
            await asyncio.wait({self._spawn(self._pull())}, timeout=FIRST_WAIT)
        self._started = True
        self._take()

    def did_change(self, params: types.DidChangeConfigurationParams) -> None:
        """``workspace/didChangeConfiguration``: the section itself, or a hint to pull it."""
        given = params.settings
        content = given.get(SECTION) if isinstance(given, dict) else None
        if isinstance(content, dict):
            self._configure(content)
        elif self._client.configuration:
            self._spawn(self._pull())
        elif given == {} or (isinstance(given, dict) and SECTION in given):
            self._take_answer(content)

    async def _pull(self) -> None:
        """``workspace/configuration``; an error leaves what is known."""
        try:
            answer = await self._protocol.ask(types.WORKSPACE_CONFIGURATION, {"items": [{"section": SECTION}]})
        except ClientError as error:
            log.warning("the client gave no configuration: %s", error)
            return
        if isinstance(answer, list) and answer:
            self._take_answer(answer[0])
        else:
            log.warning("the client's configuration is not a list of one section: %.200s", answer)

    def _take_answer(self, content: Any) -> None:
        """A section's content; null means that there is none (any more), and leaves what ``initialize`` gave."""
        if content is None:
            self._configure({})
        elif isinstance(content, dict):
            self._configure(content)
        else:
            self._warn(
                f"ds4-lsp: the setting {SECTION} = {json.dumps(content)[:200]} is not an object and has no effect."
            )

    async def _register(self) -> None:
        registration = {
            "id": "ds4-configuration",
            "method": types.WORKSPACE_DID_CHANGE_CONFIGURATION,
            "registerOptions": {"section": SECTION},
        }
        try:
            await self._protocol.ask(types.CLIENT_REGISTER_CAPABILITY, {"registrations": [registration]})
        except ClientError as error:
            log.info("the client does not report changes of its configuration: %s", error)

    def _configure(self, content: Mapping[str, Any]) -> None:
        self._sources.configuration = content
        if self._started:
            before = self.settings
            self._take()
            if self.settings != before:
                self._changed()

    def _take(self) -> None:
        self.settings, problems = self._sources.settings()
        for problem in problems:
            self._warn(str(problem))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
