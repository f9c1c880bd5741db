"""How an open session is put together: its views, jobs, permissions and tools, and what it had before a restart."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.edits.views import FileViews
from ds4_lsp.ports import Answer, Cancel, Question
from ds4_lsp.protocol.commands import JobInfo
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.session.events import Event
from ds4_lsp.session.session import Session
from ds4_lsp.tools.applying import EditDone
from ds4_lsp.tools.bash import Bash, BashStatus, BashStop
from ds4_lsp.tools.dispatch import Toolbox
from ds4_lsp.tools.edit import Edit
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.jobs import Jobs
from ds4_lsp.tools.list import List
from ds4_lsp.tools.more import More
from ds4_lsp.tools.permissions import Gate
from ds4_lsp.tools.read import Read
from ds4_lsp.tools.search import Search
from ds4_lsp.tools.workspace import Workspace
from ds4_lsp.tools.write import Write

log = logging.getLogger(__name__)


def assemble(services: Services, session: Session) -> Runtime:
    """Everything of one session, wired to the shared services."""
    views, earlier = FileViews(), Earlier()
    for event in session.events():
        earlier.apply(event)
    earlier.restore_views(session, views)

    async def ask(question: Question, cancel: Cancel) -> Answer:
        return await services.editor.ask(question, cancel)

    def record(type: str, data: dict[str, Any]) -> None:
        session.append(type, {"turn": runtime.turn, **data})

    def on_job(type: str, data: dict[str, Any]) -> None:
        record(type, data)
        services.emit(runtime, "job", job=data)

    def on_edit(done: EditDone) -> None:
        log_edit(services, runtime, done)

    gate = Gate(services.settings, ask, record)
    workspace = Workspace(services.editor, gate, services.settings)
    files = Files(workspace, services.editor, views, services.settings)
    jobs = Jobs(lambda: session.jobs_dir, on_job, earlier=earlier.jobs)
    toolbox = Toolbox(
        [
            Read(files),
            More(files),
            Write(files, gate, on_edit),
            Edit(files, gate, on_edit),
            Search(files),
            List(files),
            Bash(jobs, services.editor, gate),
            BashStatus(jobs),
            BashStop(jobs),
        ]
    )
    runtime = Runtime(session, views, files, jobs, toolbox, turn=session.state.last_turn)
    lost = {event.data["job"] for event in session.recovered if event.type == "job/ended"}
    if any(event.type == "compact/end" for event in session.recovered):
        text = "DS4: a compaction was cut short when the server ended; its record is closed now."
        services.listener.message("info", text)
    if lost:
        names = "; ".join(f"job {info.job}: {info.command}" for info in earlier.jobs if info.job in lost)
        runtime.notices.append(f"The server was restarted: these jobs are lost. {names}")
    return runtime


def log_edit(services: Services, runtime: Runtime, done: EditDone, *, undoes: int | None = None) -> None:
    """Record an applied edit with both texts, for undo. ``undoes``: the turn that it takes back."""
    edit, blobs = done.edit, runtime.session.blobs
    event = runtime.session.append(
        "edit/applied",
        {
            "turn": runtime.turn,
            "callId": runtime.call_id,
            "uri": edit.uri,
            "path": str(edit.path),
            "beforeTag": edit.before_tag,
            "afterTag": edit.after_tag,
            "beforeBlob": None if edit.create else blobs.put(edit.before),
            "afterBlob": blobs.put(edit.after),
            "startLine": done.start_line,
            "endLine": done.end_line,
            "saved": done.saved,
            "created": edit.create,
            **({} if undoes is None else {"undoes": undoes}),
        },
    )
    services.emit(
        runtime,
        "edit",
        seq=event.seq,
        uri=edit.uri,
        fileTag=edit.after_tag,
        startLine=done.start_line,
        endLine=done.end_line,
    )


def log_removal(runtime: Runtime, uri: str, path: Path, tag: str, *, undoes: int) -> None:
    """Record that a file which turn ``undoes`` had created is gone again. ``tag``: of its last text."""
    runtime.session.append(
        "edit/applied",
        {
            "turn": runtime.turn,
            "callId": "",
            "uri": uri,
            "path": str(path),
            "beforeTag": tag,
            "afterTag": "",
            "beforeBlob": None,
            "afterBlob": None,
            "startLine": 1,
            "endLine": 0,
            "saved": True,
            "created": False,
            "undoes": undoes,
        },
    )


class Earlier:
    """What a reopened log says of views and jobs. A fold."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], dict[str, Any]] = {}
        self._jobs: dict[int, JobInfo] = {}

    @property
    def jobs(self) -> list[JobInfo]:
        return list(self._jobs.values())

    def apply(self, event: Event) -> None:
        data = event.data
        if event.type in ("tool/result", "user/message"):
            places = [*(data.get("shown") or ()), *(p for c in data.get("context") or () for p in c.get("shown") or ())]
            for place in places:
                known = self._shown.setdefault((place["uri"], place["fileTag"]), {"ranges": [], "blob": None})
                known["ranges"] += [(pair[0], pair[1]) for pair in place["ranges"]]
                known["blob"] = place.get("blob") or known["blob"]
        elif event.type == "job/started":
            self._jobs[data["job"]] = JobInfo(
                job=data["job"],
                pid=data.get("pid"),
                command=data.get("command", ""),
                state="running",
                exit_status=None,
                elapsed=0.0,
            )
        elif event.type == "job/ended" and data["job"] in self._jobs:
            ended = {"state": data["state"], "exit_status": data.get("exitStatus")}
            self._jobs[data["job"]] = self._jobs[data["job"]].model_copy(update=ended)

    def restore_views(self, session: Session, views: FileViews) -> None:
        for (uri, tag), known in self._shown.items():
            text = None
            if known["blob"]:
                # Without its text a view still serves edits of a file that did not change.
                with suppress(Ds4Error):
                    text = session.blobs.get(known["blob"])
            views.restore(uri, tag, text, known["ranges"])
