"""Every refusal ds4-lsp can make, as one tree.

::

    Ds4Error                      code              raised when
    ├── Busy                      busy              the engine or session does something that excludes the request
    ├── NoModel                   noModel           no model is configured or loaded
    ├── ModelLoadFailed           modelLoad         a model file is missing, corrupt or does not fit
    ├── EngineDied                engineDied        the engine process ended: why, what to do, and where its log is
    ├── NotFound                  notFound          a session, job, file or turn does not exist
    ├── Ambiguous                 ambiguous         a prefix or an edit target matches more than once
    ├── StaleFileTag              staleFileTag      an edit names text that is not there (any more)
    ├── NotApplied                notApplied        the editor did not apply an edit
    ├── OutsideWorkspace          outsideWorkspace  a path leaves the workspace folders
    ├── Denied                    denied            a permission was refused
    ├── ContextTooSmall           contextTooSmall   a request cannot fit the context, with both sizes
    ├── SessionLocked             sessionLocked     another process owns the session
    ├── CorruptSession            corruptSession    a session log is damaged or from a newer version
    ├── StorageFailed             storage           the log could not be written (disk full, read-only)
    ├── InvalidRequest            invalid           arguments that no retry will make right
    └── Cancelled                 cancelled         the user stopped the operation

Messages say what to do next. ``data`` holds machine-readable detail, in the units of its keys.
"""

from __future__ import annotations

from typing import Any, ClassVar


class Ds4Error(Exception):
    """Base of the tree; ``code`` is sent to clients as ``data.code``."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class Busy(Ds4Error):
    code = "busy"


class NoModel(Ds4Error):
    code = "noModel"


class ModelLoadFailed(Ds4Error):
    code = "modelLoad"


class EngineDied(Ds4Error):
    code = "engineDied"


class NotFound(Ds4Error):
    code = "notFound"


class Ambiguous(Ds4Error):
    code = "ambiguous"


class StaleFileTag(Ds4Error):
    code = "staleFileTag"


class NotApplied(Ds4Error):
    code = "notApplied"


class OutsideWorkspace(Ds4Error):
    code = "outsideWorkspace"


class Denied(Ds4Error):
    code = "denied"


class ContextTooSmall(Ds4Error):
    code = "contextTooSmall"


class SessionLocked(Ds4Error):
    code = "sessionLocked"


class CorruptSession(Ds4Error):
    code = "corruptSession"


class StorageFailed(Ds4Error):
    code = "storage"


class InvalidRequest(Ds4Error):
    code = "invalid"


class Cancelled(Ds4Error):
    code = "cancelled"
