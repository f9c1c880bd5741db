"""What the server announces to a client. Plain JSON, since it is needed before the LSP library is loaded."""

from __future__ import annotations

from typing import Any

from ds4_lsp import __version__
from ds4_lsp.protocol.commands import COMMANDS
from ds4_lsp.protocol.events import EVENT_FIELDS
from ds4_lsp.server.client import Client

SCHEME = "ds4"
"""Of the URIs whose text ``workspace/textDocumentContent`` gives."""
EXPLAIN = "ds4.explain"
EDIT = "refactor.rewrite.ds4"
FIX = "quickfix.ds4"
KINDS = (FIX, EDIT, EXPLAIN)
"""Of code actions."""
_INCREMENTAL = 2
"""``TextDocumentSyncKind``."""


def initialize_result(client: Client) -> dict[str, Any]:
    """LSP's ``InitializeResult``."""
    return {
        "capabilities": server_capabilities(client),
        "serverInfo": {"name": "ds4-lsp", "version": __version__},
    }


def server_capabilities(client: Client) -> dict[str, Any]:
    """LSP's ``ServerCapabilities``. 3.18 features appear where the client announces them."""
    content = {"textDocumentContent": {"schemes": [SCHEME]}} if client.text_document_content else {}
    return {
        "positionEncoding": client.encoding,
        "textDocumentSync": {"openClose": True, "change": _INCREMENTAL, "save": {"includeText": False}},
        "codeActionProvider": {"codeActionKinds": list(KINDS)},
        "executeCommandProvider": {"commands": list(COMMANDS), "workDoneProgress": True},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}, **content},
        "experimental": {
            "ds4": {
                "version": __version__,
                "events": sorted(EVENT_FIELDS),
                "guardedApply": True,
                "saveDocument": True,
            },
            "serverStatusNotification": True,
        },
    }
