"""Writes what the extension shares with the server: ``generate.py [--check]``.

The settings in ``package.json`` and the types in ``src/generated/protocol.ts`` come from the server's models and from
nowhere else. With ``--check`` nothing is written, and the exit code is 1 where a file is stale.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ds4_lsp import __version__
from ds4_lsp.agent.slash import WORDS
from ds4_lsp.protocol.commands import COMMANDS
from ds4_lsp.protocol.events import EVENT_FIELDS
from ds4_lsp.protocol.schema import settings_fields
from ds4_lsp.protocol.settings import Settings

ROOT = Path(__file__).parents[1]
MACHINE = ("model.path", "model.rpcServers", "sessions.directory", "permissions.")
"""Settings that a workspace must not choose: what is loaded or reached, where sessions lie, what needs no question."""
OWN: dict[str, dict[str, Any]] = {
    "server.path": {
        "type": "string",
        "default": "",
        "scope": "machine",
        "markdownDescription": "Path of the `ds4-lsp` executable. Empty: the active Python environment, then the PATH.",
    },
    "server.arguments": {
        "type": "array",
        "items": {"type": "string"},
        "default": [],
        "scope": "machine",
        "markdownDescription": "Arguments for `ds4-lsp`, for example `--trace` and a file.",
    },
    "trace.server": {
        "type": "string",
        "enum": ["off", "messages", "verbose"],
        "default": "off",
        "scope": "window",
        "description": "What of the traffic with the server is logged, once the log level is Trace.",
    },
}
"""The extension's own settings, which the server never sees."""
BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
TYPES = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "unknown"}


def setting(key: str, info: FieldInfo) -> dict[str, Any]:
    """One property of ``contributes.configuration``."""
    found: dict[str, Any] = json_type(info.annotation)
    for item in info.metadata:
        for name, keyword in BOUNDS.items():
            if name in getattr(type(item), "__slots__", ()):
                found[keyword] = getattr(item, name)
    default = info.get_default(call_default_factory=True)
    found |= {
        "default": default,
        "scope": "machine" if key.startswith(MACHINE) else "window",
        "description": info.description or "",
    }
    if key == "systemPrompt":
        found["editPresentation"] = "multilineText"
    return found


def json_type(annotation: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in {typing.Union, types.UnionType}:
        parts = [json_type(argument) for argument in arguments]
        values = [value for part in parts for value in part.get("enum", ())]
        merged: dict[str, Any] = {"type": [part["type"] for part in parts]}
        return merged | ({"enum": [*values, None]} if values else {})
    if origin is list:
        return {"type": "array", "items": json_type(arguments[0])}
    return {"type": PLAIN[annotation]}


def package() -> str:
    text = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    text["version"] = __version__
    generated = {f"ds4.{key}": setting(key, info) for key, info in settings_fields(Settings)}
    text["contributes"]["configuration"] = {
        "title": "DS4",
        "properties": {f"ds4.{key}": value for key, value in OWN.items()} | generated,
    }
    return json.dumps(text, indent=2, ensure_ascii=False) + "\n"


class Types:
    """TypeScript interfaces of pydantic models, each written once."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    def name(self, annotation: Any) -> str:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Literal:
            return " | ".join(json.dumps(value) for value in arguments)
        if origin in {typing.Union, types.UnionType}:
            return " | ".join(dict.fromkeys(self.name(argument) for argument in arguments))
        if origin is list:
            inner = self.name(arguments[0])
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        if origin is dict:
            return f"Record<string, {self.name(arguments[1])}>"
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            self.model(annotation)
            return annotation.__name__
        return TYPES[annotation]

    def model(self, model: type[BaseModel]) -> None:
        if model.__name__ in self.written:
            return
        self.written[model.__name__] = ""
        rows = [self._row(name, info) for name, info in model.model_fields.items()]
        if model.model_config.get("extra") == "allow":
            rows.append("  [extra: string]: unknown;")
        body = "\n".join(rows)
        self.written[model.__name__] = f"export interface {model.__name__} {{\n{body}\n}}\n"

    def _row(self, name: str, info: FieldInfo) -> str:
        mark = "" if info.is_required() else "?"
        return f"  {info.alias or name}{mark}: {self.name(info.annotation)};"


def protocol() -> str:
    kinds = Types()
    for command in COMMANDS.values():
        kinds.model(command.arguments)
        kinds.model(command.result)
    rows = "\n".join(
        f"  '{command.name}': {{ arguments: {command.arguments.__name__}; result: {command.result.__name__} }};"
        for command in COMMANDS.values()
    )
    events = " | ".join(f"'{kind}'" for kind in EVENT_FIELDS)
    words = "\n".join(
        f"  {{ name: {_quoted(word.name)}, usage: {_quoted(word.usage)}, help: {_quoted(word.help)} }},"
        for word in WORDS
    )
    return (
        "// Generated by scripts/generate.py from the server's models; do not edit.\n"
        "/* eslint-disable */\n\n"
        f"export interface Commands {{\n{rows}\n}}\n\n"
        f"export type EventKind = {events};\n\n"
        "/** What a prompt can be instead of a prompt. */\n"
        f"export const SLASH_WORDS = [\n{words}\n] as const;\n\n" + "\n".join(kinds.written.values())
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> int:
    files = {"package.json": package(), "src/generated/protocol.ts": protocol()}
    stale = [name for name, text in files.items() if not (ROOT / name).is_file() or (ROOT / name).read_text() != text]
    if sys.argv[1:] == ["--check"]:
        for name in stale:
            print(f"editors/vscode/{name} is stale: run editors/vscode/scripts/generate.py", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(files[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
