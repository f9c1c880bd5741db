"""What the client can do, read from the raw ``initialize`` parameters.

Raw, because a value that the LSP library does not know (a new enumeration member in some capability) must not make
``initialize`` fail.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, cast

PositionEncoding = Literal["utf-8", "utf-16", "utf-32"]

ENCODINGS: tuple[PositionEncoding, ...] = ("utf-8", "utf-16", "utf-32")
LLM_GENERATED = 1
"""``CodeActionTag.LLMGenerated`` of LSP 3.18."""


@dataclass(frozen=True)
class Client:
    """Capabilities, as far as they matter here. Everything is off for a client that announces nothing."""

    name: str = ""
    process_id: int | None = None
    folders: tuple[str, ...] = ()
    """URIs of the workspace folders."""
    options: dict[str, Any] = field(default_factory=dict)
    """``initializationOptions``."""
    trace: str = "off"
    encoding: PositionEncoding = "utf-16"

    progress: bool = False
    configuration: bool = False
    watches_configuration: bool = False
    """Takes a dynamic registration for ``workspace/didChangeConfiguration``."""
    message_requests: bool = False
    apply_edit: bool = False
    document_changes: bool = False
    annotations: bool = False
    create_files: bool = False
    action_literals: bool = False
    action_tags: bool = False
    text_document_content: bool = False
    server_status: bool = False
    show_document: bool = False

    events: bool = False
    guarded_apply: bool = False
    save_document: bool = False
    trusted: bool = True
    """False where the client says that its user does not trust the workspace."""
    edit_command: str | None = None
    """The client's own command that asks for an instruction and prompts with it."""


def choose_encoding(offered: Any) -> PositionEncoding:
    """The client's first choice that is known; UTF-16 where there is none (LSP 3.17, ``positionEncoding``)."""
    for encoding in offered if isinstance(offered, list) else ():
        if encoding in ENCODINGS:
            return cast(PositionEncoding, encoding)
    return "utf-16"


def read(params: dict[str, Any]) -> Client:
    """Never raises: what is malformed counts as absent."""
    at = _Reader(params.get("capabilities"))
    edit = _Reader(at("workspace", "workspaceEdit"))
    action = _Reader(at("textDocument", "codeAction"))
    ds4 = _Reader(at("experimental", "ds4"))
    options, process_id = params.get("initializationOptions"), params.get("processId")
    edit_command = ds4("editCommand")
    return Client(
        name=str(_Reader(params.get("clientInfo"))("name") or ""),
        process_id=process_id if isinstance(process_id, int) and process_id > 0 else None,
        folders=_folders(params),
        options=options if isinstance(options, dict) else {},
        trace=str(params.get("trace") or "off"),
        encoding=choose_encoding(at("general", "positionEncodings")),
        progress=at("window", "workDoneProgress") is True,
        configuration=at("workspace", "configuration") is True,
        watches_configuration=at("workspace", "didChangeConfiguration", "dynamicRegistration") is True,
        message_requests=isinstance(at("window", "showMessage"), dict),
        apply_edit=at("workspace", "applyEdit") is True,
        document_changes=edit("documentChanges") is True,
        annotations=isinstance(edit("changeAnnotationSupport"), dict),
        create_files="create" in (_list(edit("resourceOperations"))),
        action_literals=isinstance(action("codeActionLiteralSupport"), dict),
        action_tags=LLM_GENERATED in _list(action("tagSupport", "valueSet")),
        text_document_content=isinstance(at("workspace", "textDocumentContent"), dict),
        server_status=at("experimental", "serverStatusNotification") is True,
        show_document=at("window", "showDocument", "support") is True,
        events=ds4("events") is True,
        guarded_apply=ds4("guardedApply") is True,
        save_document=ds4("saveDocument") is True,
        trusted=ds4("trusted") is not False,
        edit_command=edit_command if isinstance(edit_command, str) and edit_command else None,
    )


def _folders(params: dict[str, Any]) -> tuple[str, ...]:
    folders = [folder.get("uri") for folder in _list(params.get("workspaceFolders")) if isinstance(folder, dict)]
    uris = tuple(uri for uri in folders if isinstance(uri, str))
    root = params.get("rootUri")
    if not uris and isinstance(root, str):
        return (root,)
    return uris


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _Reader:
    """Looks up a path of keys; None as soon as one is missing."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def __call__(self, *path: str) -> Any:
        here = self._root
        for key in path:
            here = here.get(key) if isinstance(here, dict) else None
        return here
