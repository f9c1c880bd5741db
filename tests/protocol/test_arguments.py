"""What the commands' arguments refuse by themselves."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ds4_lsp.protocol.commands import COMMANDS, Arguments

LONE = "a\ud800b"


def models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in typing.get_args(annotation) for model in models(argument)]


def is_text(annotation: Any) -> bool:
    return annotation is str or str in typing.get_args(annotation)


def texts(model: type[BaseModel]) -> list[tuple[type[BaseModel], str]]:
    """Every field of text of a model and of the models in it."""
    found = []
    for name, info in model.model_fields.items():
        if is_text(info.annotation):
            found.append((model, info.alias or name))
        for inner in models(info.annotation):
            found += texts(inner)
    return found


FIELDS = dict.fromkeys(field for command in COMMANDS.values() for field in texts(command.arguments))


def test_the_fields_are_found() -> None:
    named = {(model.__name__, name) for model, name in FIELDS}
    assert {("PromptArguments", "text"), ("NewSessionArguments", "title"), ("Context", "diagnostic")} <= named
    assert len(named) > 15
    assert all(issubclass(model, Arguments) for model, _ in FIELDS)


@pytest.mark.parametrize(("model", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_text_that_is_no_unicode_is_refused_in_every_argument(model: type[Arguments], name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate({name: LONE})
    [detail] = [detail for detail in caught.value.errors() if detail["loc"] == (name,)]
    assert detail["type"] == "string_unicode"
