"""All syntaxes: which one a model's template writes, which one a name stands for, and which are understood besides."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache

from ds4_lsp.syntax import dsml, harmony, json_calls, python_calls, tagged
from ds4_lsp.syntax.block import Syntax
from ds4_lsp.syntax.dsml import Dsml
from ds4_lsp.syntax.loose_calls import LooseCalls
from ds4_lsp.syntax.samples import CallSamples, SampleCall

log = logging.getLogger(__name__)

_LONGEST = 4000
"""Code points of a sample: those of templates in use have some hundreds."""
_RECOGNISERS: tuple[Callable[[CallSamples], Syntax | None], ...] = (
    dsml.recognise,
    harmony.recognise,
    json_calls.recognise,
    python_calls.recognise,
    tagged.recognise,
)


def recognise(samples: CallSamples) -> Syntax | None:
    """The syntax that a template writes its calls in; None where none of ours does. Never raises: a template is text
    from outside."""
    if any(text is not None and len(text) > _LONGEST for text in (samples.one, samples.two, samples.empty)):
        return None
    for one in _RECOGNISERS:
        try:
            syntax = one(samples)
        except (ValueError, IndexError, RecursionError) as error:
            log.debug("%s: %s", one.__module__, error)
            continue
        if syntax is not None:
            return syntax
    return None


def _named(one: str, two: str, after_text: str, empty: str) -> Syntax:
    first = SampleCall("tool-one", {"key-a": "text-one", "key-b": 4711, "key-c": True})
    second = SampleCall("tool-two", {"key-a": "text-two", "key-b": 4712, "key-c": False})
    syntax = recognise(CallSamples(first, second, "some-text", one, two, after_text, empty))
    assert syntax is not None
    return syntax


@lru_cache(maxsize=8)
def named(name: str) -> Syntax:
    """A syntax that a setting names, with its usual marks. Raises ``KeyError``."""
    return _NAMES[name]()


def _hermes() -> Syntax:
    def call(name: str, arguments: str) -> str:
        return f'<tool_call>\n{{"name": "{name}", "arguments": {{{arguments}}}}}\n</tool_call>'

    one = call("tool-one", '"key-a": "text-one", "key-b": 4711, "key-c": true')
    two = call("tool-two", '"key-a": "text-two", "key-b": 4712, "key-c": false')
    return _named(one, f"{one}\n{two}", f"some-text\n{one}", call("tool-one", ""))


def _xml() -> Syntax:
    def call(name: str, *values: str) -> str:
        parameters = "".join(
            f"<parameter=key-{letter}>\n{value}\n</parameter>\n" for letter, value in zip("abc", values, strict=False)
        )
        return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"

    one = call("tool-one", "text-one", "4711", "true")
    two = call("tool-two", "text-two", "4712", "false")
    return _named(one, f"{one}\n{two}", f"some-text\n\n{one}", call("tool-one"))


_NAMES: dict[str, Callable[[], Syntax]] = {"dsml": Dsml, "hermes": _hermes, "xml": _xml}
NAMES = ("auto", *_NAMES)


def understood(main: Syntax, *, strict: bool = False) -> tuple[Syntax, ...]:
    """``main``, and what a model that is taught it may write instead. ``strict``: nothing else."""
    if strict:
        return (main,)
    others = [syntax for syntax in map(named, ("dsml", "hermes", "xml")) if syntax.openings != main.openings]
    return (main, *others, LooseCalls(main.example))


@lru_cache(maxsize=1)
def default() -> tuple[Syntax, ...]:
    """DSML alone."""
    return (named("dsml"),)
