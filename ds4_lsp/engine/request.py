"""A generate request, checked and resolved for the loaded model: which tokens end the reply, what is watched for."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any

from ds4_lsp.engine.output import REACH, Stop
from ds4_lsp.engine.sampler import check_grammar
from ds4_lsp.engine.vocab import Vocabulary
from ds4_lsp.protocol.errors import InvalidRequest


class Request:
    """``fields`` as the client sends them. Raises ``InvalidRequest``.

    ``ends``: tokens that end the reply and belong to it. ``silent``: those of them that are not in its text. ``cuts``:
    tokens that end it and do not belong to it. ``goes_on``: tokens that end nothing, whatever llama.cpp says.
    """

    def __init__(self, vocabulary: Vocabulary, fields: dict[str, Any]) -> None:
        self.max_tokens: int = fields["maxTokens"]
        self.sampling: dict[str, Any] = fields["sampling"]
        self.stops = [_stop(*rule) for rule in fields["stops"]]
        visible: list[str] = fields["visible"]
        self.goes_on = _single(vocabulary, fields["goesOn"])
        shown = _single(vocabulary, visible)
        stops = [text for text in fields["stopTexts"] if text not in fields["goesOn"]]
        stop_ids = _single(vocabulary, stops) - self.goes_on
        self.ends = (vocabulary.end_ids | (stop_ids & shown)) - self.goes_on
        self.cuts = stop_ids - shown
        self.silent = self.ends - shown
        # What is no token of this model is to be watched for as text.
        self.stops += [_text_stop(text, text in visible) for text in stops if len(_tokens(vocabulary, text)) > 1]
        self.quiet = _quiet(fields["quiet"])
        self.triggers: list[str] = fields["grammarTriggers"]
        self.grammar: str | None = fields["grammar"]
        _check_marks("a trigger", self.triggers)
        if self.grammar is not None:
            check_grammar(vocabulary, self.grammar)
            if not self.triggers:
                raise InvalidRequest("a grammar needs a trigger")
        self.end = self._end(vocabulary)
        self.forced: array[int] | None = None
        self.delay, self.until = 0.0, ""
        if fields["forced"] is not None:
            text, self.delay, self.until = fields["forced"]
            self.forced = _tokens(vocabulary, text)
            if self.end is not None:
                self.forced.append(self.end)

    def _end(self, vocabulary: Vocabulary) -> int | None:
        """The token that ends a forced reply; None where the model has none."""
        usual = [token for token in vocabulary.usual_ends if token in self.ends]
        return usual[0] if usual else min(self.ends, default=None)


def _tokens(vocabulary: Vocabulary, text: str) -> array[int]:
    return vocabulary.tokenize([(text, True)])


def _single(vocabulary: Vocabulary, texts: Sequence[str]) -> frozenset[int]:
    """The tokens of those texts that are one each."""
    return frozenset(tokens[0] for text in texts if len(tokens := _tokens(vocabulary, text)) == 1)


def _stop(name: str, pattern: str, keep: bool) -> Stop:
    try:
        return Stop(name, re.compile(pattern), keep)
    except re.error as error:
        raise InvalidRequest(f"the stop rule {name} is no regular expression: {error}") from None


def _text_stop(text: str, keep: bool) -> Stop:
    return Stop(None, re.compile(re.escape(text)), keep=keep, cuts_tokens=not keep)


def _quiet(fields: list[Any] | None) -> tuple[list[str], list[str], bool] | None:
    if not fields:
        return None
    opens, closes, initially = fields
    if not opens or not closes:
        raise InvalidRequest("a quiet span needs opening and closing marks")
    _check_marks("a mark of a quiet span", [*opens, *closes])
    return opens, closes, initially


def _check_marks(what: str, texts: Sequence[str]) -> None:
    if not all(0 < len(text) <= REACH for text in texts):
        raise InvalidRequest(f"{what} has between 1 and {REACH} characters")
