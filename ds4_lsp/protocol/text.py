"""What text from a client has to be."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticKnownError


def refuse_lone_surrogates(value: Any) -> Any:
    """``value``, where it and what it lists can be written as UTF-8.

    JSON has an escape for half a surrogate pair, which is no character. Pydantic refuses it in text with a constraint
    only; here the error is the same.
    """
    for text in value if isinstance(value, list) else [value]:
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise PydanticKnownError("string_unicode") from None
    return value
