"""One reply: sample, append, decode, until something ends it. The loop that everything else waits for."""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeAlias

import llama_cpp.llama_cpp as C

from ds4_lsp.engine.fault import faults
from ds4_lsp.engine.loading import Loaded
from ds4_lsp.engine.output import Match, Output, Stop
from ds4_lsp.engine.sampler import Constraint, Sampler, check_grammar
from ds4_lsp.protocol.errors import Ds4Error, InvalidRequest

FLUSH_SECONDS = 0.04
"""Tokens sampled within that time travel in one message; the first goes at once. As often as the server tells its
client: each message wakes two processes, and on few cores their time is the model's."""

Emit: TypeAlias = "Callable[[array[int], str], None]"


@dataclass(frozen=True)
class Ending:
    """``reason`` as in ``Generated``; ``count``: how many of the sampled tokens belong to the transcript."""

    reason: str
    stop_name: str | None
    count: int


class Request:
    """A generate request, checked and resolved for the loaded model. Raises ``InvalidRequest``."""

    def __init__(self, loaded: Loaded, fields: dict[str, Any]) -> None:
        vocabulary = loaded.vocabulary
        self.max_tokens: int = fields["maxTokens"]
        self.sampling: dict[str, Any] = fields["sampling"]
        self.stops = [self._stop(*rule) for rule in fields["stops"]]
        self.stop_ids: set[int] = set()
        for text in fields["stopTexts"]:
            ids = vocabulary.tokenize([(text, True)])
            if len(ids) == 1:
                self.stop_ids.add(ids[0])
            elif ids:
                # No token of this model: then the text itself is what to watch for.
                self.stops.append(Stop(None, re.compile(re.escape(text)), keep=False, cuts_tokens=True))
        self.quiet: tuple[str, str, bool] | None = tuple(fields["quiet"]) if fields["quiet"] else None
        if self.quiet is not None and not (self.quiet[0] and self.quiet[1]):
            raise InvalidRequest("a quiet span needs an opening and a closing marker")
        self.grammar: str | None = fields["grammar"]
        self.trigger: str | None = fields["grammarTrigger"]
        if self.grammar is not None:
            check_grammar(vocabulary, self.grammar)
            if not self.trigger:
                raise InvalidRequest("a grammar needs a trigger")
        self.forced: array[int] | None = None
        self.delay = 0.0
        if fields["forced"] is not None:
            text, self.delay = fields["forced"]
            self.forced = vocabulary.tokenize([(text, True)])
            if vocabulary.end_of_turn is not None:
                self.forced.append(vocabulary.end_of_turn)

    @staticmethod
    def _stop(name: str, pattern: str, keep: bool) -> Stop:
        try:
            return Stop(name, re.compile(pattern), keep)
        except re.error as error:
            raise InvalidRequest(f"the stop rule {name} is no regular expression: {error}") from None


class Reply:
    """Samples one reply after a prefill that left logits behind."""

    def __init__(
        self, loaded: Loaded, request: Request, cancel: Event, emit: Emit, note: Callable[[str], None]
    ) -> None:
        self._context = loaded.context
        self._memory = loaded.memory
        self._vocabulary = loaded.vocabulary
        self._request = request
        self._cancel = cancel
        self._emit = emit
        self._note = note
        sampling = request.sampling
        self._sampler = Sampler(sampling["temperature"], sampling["topP"], sampling["minP"], sampling["seed"])
        armed = request.grammar is not None and request.forced is None
        self._output = Output(request.stops, request.quiet, request.trigger if armed else None)
        self._armed = armed
        self._constraint: Constraint | None = None
        self._sampled = array("i")
        self._unsent = 0
        self._flushed = 0.0
        self._begun = time.monotonic()

    def run(self) -> Ending:
        try:
            reason, match = self._loop()
        except Ds4Error:
            # The client has to know what was evaluated.
            self._flush(0)
            raise
        finally:
            self._sampler.free()
            if self._constraint is not None:
                self._constraint.free()
        text = self._output.finish(match)
        if self._unsent < len(self._sampled) or text:
            self._emit(self._sampled[self._unsent :], text)
        count = len(self._sampled)
        if match is None:
            return Ending(reason, None, count)
        if match.stop.cuts_tokens:
            return Ending("end", None, self._tokens_before(match.start))
        return Ending("stop", match.stop.name, count)

    def _loop(self) -> tuple[str, Match | None]:
        memory, sampled = self._memory, self._sampled
        end_ids, monotonic = self._vocabulary.end_ids, time.monotonic
        limit = self._request.max_tokens
        while len(sampled) < limit:
            token = self._next_token()
            if self._cancel.is_set():
                return "cancelled", None
            if token in self._request.stop_ids:
                return "end", None
            match = self._add(token)
            if sampled[-1] in end_ids:
                return "end", None
            if match is not None:
                return "stop", match
            now = monotonic()
            if now - self._flushed >= FLUSH_SECONDS:
                self._flush(now)
            if len(memory.tokens) >= memory.size or len(sampled) >= limit:
                break
            faults.hit("decode")
            if not memory.step(sampled[-1]):
                return "cancelled", None
        return "length", None

    def _add(self, token: int) -> Match | None:
        """Append a token, or another in its place where the grammar begins; the stop rule that it completes."""
        if token in self._vocabulary.end_ids:
            match = None
        elif self._armed:
            token, match = self._place(token)
        else:
            match = self._output.add(self._vocabulary.piece(token))
        self._sampled.append(token)
        return match

    def _next_token(self) -> int:
        if self._request.forced is not None:
            return self._forced_token(self._request.forced)
        token = int(C.llama_sampler_sample(self._sampler.chain, self._context, -1))
        if self._constraint is None or self._constraint.accept(token):
            return token
        return self._constrained(self._constraint, token, "no token continues the grammar")

    def _forced_token(self, forced: array[int]) -> int:
        self._cancel.wait(max(0.0, self._begun + self._request.delay - time.monotonic()))
        self._begun = time.monotonic()
        # The script ends with an end token; where the model has none, its exhaustion is the end.
        position = len(self._sampled)
        return forced[position] if position < len(forced) else min(self._vocabulary.end_ids, default=0)

    def _constrained(self, constraint: Constraint, refused: int, why: str) -> int:
        """A token that the grammar accepts in place of one that it refused; that one, and no grammar, if none is."""
        chosen = constraint.choose(self._context, self._sampler)
        if chosen is not None and constraint.accept(chosen):
            return chosen
        self._disarm(why)
        return refused

    def _flush(self, now: float) -> None:
        self._flushed = now
        self._emit(self._sampled[self._unsent :], self._output.take())
        self._unsent = len(self._sampled)

    # --- the grammar's start --------------------------------------------------------------------------------------

    def _place(self, token: int) -> tuple[int, Match | None]:
        """Add a token while the trigger is awaited. The token that completes the trigger may already break the grammar:
        then another is sampled in its place."""
        output, piece = self._output, self._vocabulary.piece
        mark = output.mark()
        match = output.add(piece(token))
        if output.trigger_at is None:
            return token, match
        self._armed = False
        constraint = self._engage(output.trigger_at) if match is None else None
        if constraint is None or constraint.accept(token):
            return token, match
        chosen = self._constrained(constraint, token, "no token completes the trigger within the grammar")
        if chosen == token:
            return token, match
        output.undo(mark)
        return chosen, None if chosen in self._vocabulary.end_ids else output.add(piece(chosen))

    def _engage(self, trigger_at: int) -> Constraint | None:
        """Make the constraint, and feed it the tokens from the one with the trigger's first character up to the one
        before last: the last is not yet sure."""
        starts = self._output.starts
        first = len(starts) - 1
        while first > 0 and ((start := starts[first]) is None or start > trigger_at):
            first -= 1
        start = starts[first]
        prefix = "" if start is None else self._output.slice(start, trigger_at)
        self._constraint = constraint = Constraint(self._vocabulary, self._request.grammar or "", prefix)
        if start is not None and constraint.accept_all(self._sampled[first:]):
            return constraint
        self._disarm("the text before the trigger does not fit it")
        return None

    def _disarm(self, why: str) -> None:
        if self._constraint is not None:
            self._constraint.free()
            self._constraint = None
        self._note(f"the grammar is off for the rest of this reply: {why}")

    def _tokens_before(self, position: int) -> int:
        """How many tokens lie wholly before that position."""
        starts = self._output.starts
        count = len(starts)
        while count > 0 and (
            (start := starts[count - 1]) is None or start >= position or self._crosses(count, position)
        ):
            count -= 1
        return count

    def _crosses(self, count: int, position: int) -> bool:
        """Whether the token before ``count`` reaches beyond ``position``."""
        starts = self._output.starts
        following = next((s for s in starts[count:] if s is not None), self._output.end)
        return following > position
