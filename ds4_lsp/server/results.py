"""Arguments and results of commands: JSON to models and back. Pure."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from ds4_lsp.protocol.commands import COMMANDS, Arguments, Command, Wire
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest
from ds4_lsp.server.protocol import INVALID_PARAMS, REQUEST_FAILED, Refusal


def command_of(name: str) -> Command:
    """Raises ``Refusal`` for a name that is not a command."""
    command = COMMANDS.get(name)
    if command is None:
        raise Refusal(f"There is no command {name!r}. There are: {', '.join(COMMANDS)}.", INVALID_PARAMS)
    return command


def parse_arguments(command: Command, arguments: list[Any]) -> Arguments:
    """The one JSON object that a command takes; an absent one is empty. Raises ``Refusal`` naming the field."""
    values = arguments or [{}]
    if len(values) != 1 or not isinstance(values[0], dict):
        raise Refusal(f"{command.name}: arguments has to hold exactly one JSON object.", INVALID_PARAMS)
    try:
        return command.arguments.model_validate(values[0])
    except ValidationError as error:
        details = error.errors(include_url=False)
        named = [_fields(detail) for detail in details]
        reasons = [
            f"{', '.join(names)}: {detail['msg']}" if names else detail["msg"]
            for names, detail in zip(named, details, strict=True)
        ]
        fields = [name for names in named for name in names]
        raise Refusal(f"{command.name}: {'; '.join(reasons)}", INVALID_PARAMS, {"fields": fields}) from None


def _fields(detail: Any) -> list[str]:
    """The wire names of the fields that an error is about."""
    if detail["loc"]:
        return [".".join(str(part) for part in detail["loc"])]
    return list(detail.get("ctx", {}).get("fields", ()))


def refusal(error: Ds4Error) -> Refusal:
    """A refusal of the agent's, as the error answer of its request."""
    data = to_jsonable_python(error.data, by_alias=True, fallback=str)
    code = INVALID_PARAMS if isinstance(error, InvalidRequest) else REQUEST_FAILED
    return Refusal(error.message, code, data | {"code": error.code})


def to_wire(value: Any) -> Any:
    """JSON with wire names. A field that may be absent is absent when None; a nullable one is null."""
    if isinstance(value, Wire):
        fields = type(value).model_fields
        known = {
            info.alias or name: to_wire(getattr(value, name))
            for name, info in fields.items()
            if info.is_required() or getattr(value, name) is not None
        }
        return known | to_wire(value.model_extra or {})
    if isinstance(value, dict):
        return {str(key): to_wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in value]
    return to_jsonable_python(value, by_alias=True)
