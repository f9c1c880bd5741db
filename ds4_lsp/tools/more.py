"""The tool ``more``: the rest of the last ``read`` or ``search``."""

from __future__ import annotations

from pydantic import Field

from ds4_lsp.protocol.errors import NotFound
from ds4_lsp.tools.base import UNTAUGHT, Call, Tool, ToolArguments, ToolResult
from ds4_lsp.tools.files import Files


class MoreArguments(ToolArguments):
    count: int = Field(
        500, ge=1, json_schema_extra=UNTAUGHT, description="Most lines (after `read`) or matches (after `search`)."
    )


class More(Tool[MoreArguments]):
    name = "more"
    description = "Go on where the last `read` or `search` stopped."
    Arguments = MoreArguments

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, arguments: MoreArguments, call: Call) -> ToolResult:
        """``NotFound``: nothing is left to show."""
        if self._files.more is None:
            raise NotFound("Nothing is left to show: the last `read` or `search` was complete, or there was none.")
        return await self._files.more(arguments.count, call)
