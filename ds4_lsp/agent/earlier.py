"""What a reopened log says of views, jobs, and what the model was not told before the server ended. Folds."""

from __future__ import annotations

from contextlib import suppress

from ds4_lsp.agent.seen import Seen
from ds4_lsp.edits.views import FileViews
from ds4_lsp.protocol.commands import JobInfo
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.session.events import Event
from ds4_lsp.session.session import Session
from ds4_lsp.session.state import GARBLED, garbled

UNSEEN = ("lost", "elsewhere")
"""States of jobs whose end nobody saw: the next opening of the session writes them."""


class Earlier:
    """Memory: the files that were shown, and the jobs. Raises ``CorruptSession`` for events of another shape."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._jobs: dict[int, JobInfo] = {}
        self._started: dict[int, float] = {}
        self._before = 0.0
        """Time of the last event that no opening of the log can have written."""
        self.untold = Untold()

    @property
    def jobs(self) -> list[JobInfo]:
        return list(self._jobs.values())

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        try:
            self._apply(event)
        except GARBLED as error:
            raise garbled(event, error) from error

    def _apply(self, event: Event) -> None:
        data = event.data
        self.seen.apply(event)
        if event.type == "user/message":
            if data.get("kind") == "notice":
                self.untold = Untold()
        elif event.type == "job/started":
            self._started[data["job"]] = event.time
            self._jobs[data["job"]] = JobInfo(
                job=data["job"],
                pid=data.get("pid"),
                command=data.get("command", ""),
                state="running",
                exit_status=None,
                elapsed=0.0,
            )
        elif event.type == "job/ended" and data["job"] in self._jobs:
            # When a job ended that was lost is not known: the log says how long it was there at least.
            end = self._before if data["state"] in UNSEEN else event.time
            elapsed = round(max(0.0, end - self._started[data["job"]]), 3)
            ended = {"state": data["state"], "exit_status": data.get("exitStatus"), "elapsed": elapsed}
            job = self._jobs[data["job"]] = JobInfo.model_validate(self._jobs[data["job"]].model_dump() | ended)
            if job.state in UNSEEN:
                self.untold.jobs[job.job] = (job, data.get("session"))
        elif event.type == "edit/applied" and data.get("undoes") is not None:
            self.untold.undone.setdefault(data["undoes"], {})[data["path"].rsplit("/", 1)[-1]] = None
        if event.type != "compact/end" and not (event.type == "job/ended" and data["state"] in UNSEEN):
            self._before = event.time

    def restore_views(self, session: Session, views: FileViews) -> None:
        for place, read in self.seen.places():
            text, view = None, views.seen(place.uri, place.tag)
            if place.blob and (view is None or view.text is None):
                # Without its text a view still serves edits of a file that did not change.
                with suppress(Ds4Error):
                    text = session.blobs.get(place.blob)
            views.restore(place.uri, place.tag, text, place.ranges if read else ())


class Untold:
    """What happened since the model was last told of such things: a notice waits in memory for the next prompt, and a
    second restart must not lose it."""

    def __init__(self) -> None:
        self.jobs: dict[int, tuple[JobInfo, str | None]] = {}
        """Jobs lost or left behind, and the session that they go on in."""
        self.undone: dict[int, dict[str, None]] = {}
        """Names of files whose edits were undone, by turn."""

    def notices(self) -> list[str]:
        """One text for each kind of thing."""
        notices = [undone(turn, list(names)) for turn, names in self.undone.items()]
        lost = [job for job, origin in self.jobs.values() if origin is None]
        if lost:
            notices.append(f"The server was restarted: these jobs are lost. {_names(lost)}")
        for session in {origin: None for _, origin in self.jobs.values() if origin is not None}:
            there = [job for job, origin in self.jobs.values() if origin == session]
            notices.append(
                f"This session is a copy of {session}: these jobs belong to that one and cannot be reached from here. "
                f"{_names(there)}"
            )
        return notices


def undone(turn: int, names: list[str]) -> str:
    """What the model is told of edits that the user took back."""
    return f"The user undid your edits of turn {turn} in {', '.join(names)}. Read again before you edit."


def _names(jobs: list[JobInfo]) -> str:
    return "; ".join(f"job {job.job}: {job.command}" for job in jobs)
