"""What the server announces to a client."""

from __future__ import annotations

from lsprotocol import types

from ds4_lsp import __version__
from ds4_lsp.protocol.commands import COMMANDS
from ds4_lsp.protocol.events import EVENT_FIELDS
from ds4_lsp.server.actions import KINDS
from ds4_lsp.server.client import Client

SCHEME = "ds4"
"""Of the URIs whose text ``workspace/textDocumentContent`` gives."""


def server_capabilities(client: Client) -> types.ServerCapabilities:
    """3.18 features appear where the client announces them."""
    content = types.TextDocumentContentOptions(schemes=[SCHEME]) if client.text_document_content else None
    return types.ServerCapabilities(
        position_encoding=client.encoding,
        text_document_sync=types.TextDocumentSyncOptions(
            open_close=True, change=types.TextDocumentSyncKind.Incremental, save=types.SaveOptions(include_text=False)
        ),
        code_action_provider=types.CodeActionOptions(code_action_kinds=list(KINDS)),
        execute_command_provider=types.ExecuteCommandOptions(commands=list(COMMANDS), work_done_progress=True),
        workspace=types.WorkspaceOptions(
            workspace_folders=types.WorkspaceFoldersServerCapabilities(supported=True, change_notifications=True),
            text_document_content=content,
        ),
        experimental={
            "ds4": {
                "version": __version__,
                "events": sorted(EVENT_FIELDS),
                "guardedApply": True,
                "saveDocument": True,
            },
            "serverStatusNotification": True,
        },
    )
