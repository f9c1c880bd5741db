"""The tool ``write``: a new file, or the whole text of one."""

from __future__ import annotations

from pydantic import Field

from ds4_lsp.edits.guard import Target, Whole
from ds4_lsp.edits.uris import from_path
from ds4_lsp.protocol.errors import Ds4Error, NotFound, StaleFileTag
from ds4_lsp.tools.applying import EditRequest, OnEdit, apply_guarded
from ds4_lsp.tools.base import UNTAUGHT, Call, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.edit import report
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.refused import what_stands_there


class WriteArguments(ToolArguments):
    path: str = Field(description="File. Missing folders are made.")
    content: str = Field(description="The whole text of the file.")
    file_tag: str | None = Field(None, json_schema_extra=UNTAUGHT, description="The tag shown when you read it.")


class Write(Tool[WriteArguments]):
    name = "write"
    description = "Create a file, or replace all of one that you were shown in full."
    Arguments = WriteArguments
    changes = True

    def __init__(self, files: Files, gate: Gate, on_edit: OnEdit) -> None:
        self._files = files
        self._gate = gate
        self._on_edit = on_edit

    async def run(self, arguments: WriteArguments, call: Call) -> ToolResult:
        """Errors: those of :func:`~ds4_lsp.tools.applying.apply_guarded`, ``OutsideWorkspace``, ``Denied``."""
        path = await self._files.workspace.resolve(arguments.path, call)
        name = self._files.workspace.display(path)
        there = await self._files.exists(path)
        tag = (arguments.file_tag or "").strip()
        if there and not tag and self._files.views.latest(from_path(path)) is None:
            raise StaleFileTag(f'{name} exists already. Read it (read path="{name}") before you replace it.')
        if tag and not there and not self._files.views.any(from_path(path)):
            raise NotFound(f"{name} does not exist: leave file_tag out to create it.")
        await self._gate.check("write", detail=name, key=str(path), call=call)
        target: Target | None = Whole("text") if there or tag else None
        label = f"ds4: {'create' if target is None else 'write'} {name}"
        request = EditRequest(path, target, arguments.content, tag, label, slips=True)
        done = await apply_guarded(self._files, request, call, on_edit=self._on_edit)
        return report(done, await self._files.problems(done.edit) if done.changed else ())

    async def after_refusal(self, arguments: WriteArguments, error: Ds4Error, call: Call) -> ToolResult | None:
        return await what_stands_there(self._files, arguments.path, error, call)
