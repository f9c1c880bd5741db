"""One reply: sample, append, decode, until something ends it. The loop that everything else waits for."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TypeAlias

from ds4_lsp.engine.fault import faults
from ds4_lsp.engine.loading import Loaded
from ds4_lsp.engine.output import Match, Output
from ds4_lsp.engine.request import Request
from ds4_lsp.engine.sampler import Constraint, Sampler
from ds4_lsp.protocol.errors import Ds4Error

FLUSH_SECONDS = 0.04
"""Tokens sampled within that time travel in one message; the first goes at once. As often as the server tells its
client: each message wakes two processes, and on few cores their time is the model's."""
HELD_SECONDS = 0.01
"""Between two looks for the file that a script waits for."""

Emit: TypeAlias = "Callable[[array[int], str], None]"


@dataclass(frozen=True)
class Ending:
    """``reason`` as in ``Generated``; ``count``: how many of the sampled tokens belong to the transcript."""

    reason: str
    stop_name: str | None
    count: int


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
        self._sampler = Sampler(request.sampling)
        armed = request.grammar is not None and request.forced is None
        self._output = Output(request.stops, request.quiet, request.triggers)
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
        if match.stop.name is None:
            return Ending("end", None, self._tokens_before(match.start) if match.stop.cuts_tokens else count)
        return Ending("stop", match.stop.name, count)

    def _loop(self) -> tuple[str, Match | None]:
        memory, sampled = self._memory, self._sampled
        ends, cuts, monotonic = self._request.ends, self._request.cuts, time.monotonic
        limit = self._request.max_tokens
        while len(sampled) < limit:
            token = self._next_token()
            if self._cancel.is_set():
                return "cancelled", None
            if token in cuts:
                return "end", None
            match = self._add(token)
            if match is not None:
                return "stop", match
            if sampled[-1] in ends:
                return "end", None
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
        if self._armed and token not in self._request.silent:
            token, match = self._place(token)
        else:
            match = self._add_text(token)
        self._sampled.append(token)
        return match

    def _add_text(self, token: int) -> Match | None:
        return None if token in self._request.silent else self._output.add(self._vocabulary.piece(token))

    def _next_token(self) -> int:
        if self._request.forced is not None:
            return self._forced_token(self._request.forced)
        # In a call nothing is penalised: the new text of an edit has to say again what the old one said.
        said = self._sampled if self._output.trigger_at is None else ()
        token = self._sampler.sample(self._context, self._vocabulary.size, said)
        constraint = self._constraint
        if constraint is None:
            return token
        if token in self._request.goes_on and constraint.complete:
            self._rearm()
        elif not constraint.accept(token):
            token = self._constrained(constraint, token, "no token continues the grammar")
            if token in self._request.goes_on and self._constraint is not None and constraint.complete:
                self._rearm()
        return token

    def _forced_token(self, forced: array[int]) -> int:
        self._cancel.wait(max(0.0, self._begun + self._request.delay - time.monotonic()))
        self._begun = time.monotonic()
        # The script ends with an end token; where the model has none, its exhaustion is the end.
        position = len(self._sampled)
        if position >= len(forced) - 1:
            self._hold()
        return forced[position] if position < len(forced) else self._request.end or 0

    def _hold(self) -> None:
        """Say all that is to be said, and wait for the file that a script names."""
        if self._request.until:
            self._flush(time.monotonic())
            while not Path(self._request.until).exists() and not self._cancel.wait(HELD_SECONDS):
                pass

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
        return chosen, self._add_text(chosen)

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
            self._output.bound = True
            return constraint
        self._disarm("the text before the trigger does not fit it")
        return None

    def _release(self) -> None:
        if self._constraint is not None:
            self._constraint.free()
            self._constraint = None
        self._output.bound = False

    def _rearm(self) -> None:
        """The call is complete and the reply goes on: the grammar waits for the next one."""
        self._release()
        self._output.rearm()
        self._armed = True

    def _disarm(self, why: str) -> None:
        self._release()
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
