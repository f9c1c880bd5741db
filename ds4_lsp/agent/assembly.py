"""How an open session is put together: its views, jobs, permissions and tools; and how its edits are recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ds4_lsp.agent.documents import plain_text
from ds4_lsp.agent.earlier import Earlier
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.seen import follow
from ds4_lsp.agent.services import Services
from ds4_lsp.edits.views import FileViews
from ds4_lsp.ports import Answer, Cancel, FileEdit, Question
from ds4_lsp.session.blobs import text_name
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
from ds4_lsp.tools.recall import Recall
from ds4_lsp.tools.search import Search
from ds4_lsp.tools.workspace import Workspace
from ds4_lsp.tools.write import Write


def assemble(services: Services, session: Session, earlier: Earlier) -> Runtime:
    """Everything of one session, wired to the shared services. ``earlier`` has seen all its events."""
    views = FileViews()
    earlier.restore_views(session, views)
    session.follow(lambda event: follow(earlier.seen, views, event))

    async def ask(question: Question, cancel: Cancel) -> Answer:
        return await services.editor.ask(question, cancel)

    def record(type: str, data: dict[str, Any]) -> None:
        session.append(type, {"turn": runtime.turn, **data})

    def on_job(type: str, data: dict[str, Any]) -> None:
        if type == "job/started":
            record(type, data)
        else:
            session.record(type, {"turn": runtime.turn, **data})
        services.emit(runtime, "job", job=data)

    def on_edit(done: EditDone) -> None:
        log_edit(services, runtime, done)

    gate = Gate(services.settings, ask, record)
    workspace = Workspace(services.editor, gate, services.settings)
    files = Files(workspace, services.editor, views, services.settings)
    files.deferred = True
    files.before_edit = lambda edit: keep_texts(session, edit)
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
            Recall(session.events, plain_text),
        ]
    )
    runtime = Runtime(
        session, views, files, jobs, toolbox, turn=session.state.last_turn, notices=earlier.untold.notices()
    )
    if any(event.type == "compact/end" for event in session.recovered):
        text = "DS4: a compaction was cut short when the server ended; its record is closed now."
        services.listener.message("info", text)
    return runtime


def keep_texts(session: Session, edit: FileEdit) -> tuple[str | None, str]:
    """Store what undo needs of an edit, before it is made: where there is no room for that, nothing is edited.

    Returns the names of the texts before (None for a file that it creates) and after. Raises ``StorageFailed``.
    """
    return None if edit.create else session.blobs.put(edit.before), session.blobs.put(edit.after)


def log_edit(services: Services, runtime: Runtime, done: EditDone, *, undoes: int | None = None) -> None:
    """Record an applied edit with both texts, for undo. ``undoes``: the turn that it takes back.

    ``savedTag`` is the tag of what a formatter made of it in its own save.
    Where the log has no room for it the user and the model are told; it is recorded, and can be undone, all the same.
    """
    edit = done.edit
    before, after = None if edit.create else text_name(edit.before), text_name(edit.after)
    event = runtime.session.record(
        "edit/applied",
        {
            "turn": runtime.turn,
            "callId": runtime.call_id,
            "uri": edit.uri,
            "path": str(edit.path),
            "beforeTag": edit.before_tag,
            "afterTag": edit.after_tag,
            **({} if done.saved_tag in (None, edit.after_tag) else {"savedTag": done.saved_tag}),
            "beforeBlob": before,
            "afterBlob": after,
            "startLine": done.start_line,
            "endLine": done.end_line,
            "saved": done.saved,
            "created": edit.create,
            **({} if undoes is None else {"undoes": undoes}),
        },
    )
    if event is None:
        _tell_unlogged(services, runtime, done.name)
    services.emit(
        runtime,
        "edit",
        seq=None if event is None else event.seq,
        uri=edit.uri,
        fileTag=edit.after_tag,
        startLine=done.start_line,
        endLine=done.end_line,
    )


def _tell_unlogged(services: Services, runtime: Runtime, name: str) -> None:
    services.listener.message(
        "warning",
        f"DS4: {name} was changed, and the session log has no room to say so. Free some space "
        "(`ds4-lsp sessions prune` helps): it is recorded with the next thing that is, and can be undone.",
    )
    runtime.notices.append(f"The edit of {name} was made, whatever was said of it for want of disk space.")


def log_removal(services: Services, runtime: Runtime, uri: str, path: Path, tag: str, *, undoes: int) -> None:
    """Record that a file which turn ``undoes`` had created is gone again. ``tag``: of its last text."""
    event = runtime.session.record(
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
    if event is None:
        _tell_unlogged(services, runtime, path.name)
