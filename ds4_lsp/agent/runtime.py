"""One open session with everything that lives as long as it does. Owned by the session worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ds4_lsp.agent.transcript import Transcript
from ds4_lsp.compaction import Compactions
from ds4_lsp.edits.views import FileViews
from ds4_lsp.ports import Cancel
from ds4_lsp.session.session import Session
from ds4_lsp.tools.base import Shown
from ds4_lsp.tools.dispatch import Toolbox
from ds4_lsp.tools.files import Files
from ds4_lsp.tools.jobs import Jobs

if TYPE_CHECKING:
    from ds4_lsp.agent.compaction_host import CompactionHost

LARGEST_KEPT = 4_000_000
"""Code points of a seen text above which it is not kept on disk: after a restart such a file must be read again."""


@dataclass
class Runtime:
    """``transcript`` is None until a model is loaded, and after another one was."""

    session: Session
    views: FileViews
    files: Files
    jobs: Jobs
    toolbox: Toolbox
    transcript: Transcript | None = None
    spoken_as: object = None
    """The model and the settings that ``transcript`` was made for."""
    compaction: tuple[CompactionHost, Compactions] | None = None
    """Made at the first use; see ``compactor``."""
    turn: int = 0
    """The running turn, or the last one."""
    call_id: str = ""
    """The call being run: permission and edit events name it."""
    cancel: Cancel | None = None
    """Set while an operation (turn or compaction) runs on this session."""
    header: dict[str, Any] | None = None
    """The ``request/header`` last written."""
    notices: list[str] = field(default_factory=list)
    """Told to the model with the next user message, such as jobs lost in a restart."""

    @property
    def id(self) -> str:
        return str(self.session.id)

    def record(self, type: str, data: dict[str, Any]) -> None:
        """Append a log-only event of the running turn."""
        self.session.append(type, {"turn": self.turn, "callId": self.call_id, **data})

    def next_call_id(self) -> str:
        return str(self.session.next_call_id())

    def shown(self, place: Shown) -> dict[str, Any]:
        """What the model was shown of a file, for the log. The text is kept beside it, so that the guard still knows it
        after a restart."""
        entry: dict[str, Any] = {
            "uri": place.uri,
            "path": place.path,
            "fileTag": place.file_tag,
            "ranges": [list(pair) for pair in place.ranges],
        }
        view = self.views.seen(place.uri, place.file_tag)
        if view is not None and view.text is not None and len(view.text) <= LARGEST_KEPT:
            entry["blob"] = self.session.blobs.put(view.text)
        return entry
