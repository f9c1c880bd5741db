"""The scripted agent with the real file tools: prompts ``tool JSON`` run one, as a model's call would."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from scripted_agent import Scripted

from ds4_lsp.edits.views import FileViews
from ds4_lsp.ports import Cancel, Editor, Listener
from ds4_lsp.server.seam import Start
from ds4_lsp.tools.base import Call
from ds4_lsp.tools.bash import Bash
from ds4_lsp.tools.dispatch import Toolbox
from ds4_lsp.tools.edit import Edit
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.jobs import Jobs
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.read import Read
from ds4_lsp.tools.workspace import Workspace
from ds4_lsp.tools.write import Write


class Editing(Scripted):
    def __init__(self, editor: Editor, listener: Listener, start: Start) -> None:
        super().__init__(editor, listener, start)
        gate = Gate(lambda: self.settings, editor.ask, lambda _type, _data: None)
        files = Files(Workspace(editor, gate, lambda: self.settings), editor, FileViews(), lambda: self.settings)
        place = Path(tempfile.mkdtemp())
        self.jobs = Jobs(lambda: place, lambda _type, _data: None)
        self.toolbox = Toolbox(
            [
                Read(files),
                Write(files, gate, lambda _done: None),
                Edit(files, gate, lambda _done: None),
                Bash(self.jobs, editor, gate),
            ]
        )

    async def do_tool(self, turn: int, rest: str, cancel: Cancel) -> str:
        """``{"name", …arguments}``"""
        arguments: dict[str, Any] = json.loads(rest)
        name = arguments.pop("name")
        result = await self.toolbox.run(name, arguments, Call("s1", turn, "c1", cancel))
        tags = [place.file_tag for place in result.shown]
        return json.dumps({"ok": result.ok, "text": result.text, "tags": tags, **result.data})

    async def shutdown(self) -> None:
        await self.jobs.close()
        await super().shutdown()
