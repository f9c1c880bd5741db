"""The only room that knows LSP: registration, commands, progress, approvals, applying edits."""
