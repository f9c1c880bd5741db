"""The compactions of one session: one at a time, joined when asked for twice, held back when they do not help."""

from __future__ import annotations

import asyncio

from ds4_lsp.compaction.host import Host
from ds4_lsp.compaction.model import Compacted, Failed, Nothing, Outcome, Pruned, Trigger
from ds4_lsp.compaction.transaction import compact
from ds4_lsp.compaction.triggers import Backoff, Limits, SoftDecision, decide_soft, limits
from ds4_lsp.ports import Cancel


class Compactions:
    """Owned by the agent, used on the worker's loop; a new one for each session."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._running: asyncio.Future[Outcome] | None = None
        self._cancel: Cancel | None = None
        self._backoff = Backoff()
        self._told = False

    @property
    def running(self) -> bool:
        return self._running is not None

    @property
    def limits(self) -> Limits:
        return limits(self._host.settings, self._host.context)

    def cancel(self) -> bool:
        """Cancel the running compaction, and only that one; False when none runs."""
        if self._cancel is None:
            return False
        self._cancel.set()
        return True

    def declined(self, needed: int) -> None:
        """The user cancelled an automatic compaction before a request of ``needed`` tokens: it is not tried again until
        the surface has grown beyond that."""
        bounds = self.limits
        self._backoff = self._backoff.after(_asked(self._bottom(), needed, bounds), None, bounds)

    def soft(self, needed: int) -> SoftDecision:
        """What to do before a request of ``needed`` tokens. ``cannot help`` has its message the first time only."""
        decision = decide_soft(needed, self._bottom(), self._host.prefix_tokens, self.limits, self._backoff)
        if decision.action != "cannot help":
            return decision
        told, self._told = self._told, True
        return SoftDecision("cannot help", "" if told else decision.message)

    async def run(
        self,
        trigger: Trigger,
        *,
        cancel: Cancel,
        instructions: str | None = None,
        needed: int | None = None,
        tail_tokens: int | None = None,
        prune: bool = True,
    ) -> Outcome:
        """Compact, or wait for the compaction that runs and return its outcome. Errors as ``compact``; who joined
        hears of them as well."""
        if self._running is not None:
            return await asyncio.shield(self._running)
        running = self._running = asyncio.get_running_loop().create_future()
        own = self._cancel = Cancel()
        forget = cancel.on_set(own.set)
        # Asked for now: when the compaction has ended the engine may be gone, and its death is what is to be told then.
        before, bounds = self._bottom(), self.limits
        outcome: Outcome | None = None
        try:
            outcome = await compact(
                self._host,
                trigger,
                cancel=own,
                instructions=instructions,
                needed=needed,
                tail_tokens=tail_tokens,
                prune=prune,
            )
            running.set_result(outcome)
            return outcome
        except asyncio.CancelledError:
            running.set_result(Failed("cancelled", cancelled=True))
            raise
        except BaseException as error:
            running.set_exception(error)
            running.exception()  # it is raised here; nobody need have joined
            raise
        finally:
            self._running = self._cancel = None
            forget()
            self._remember(outcome, before, _asked(before, needed or 0, bounds), bounds)

    def _remember(self, outcome: Outcome | None, before: int, needed: int, bounds: Limits) -> None:
        match outcome:
            case Compacted(result=result):
                after: int | None = result.after_tokens
            case Pruned(after_tokens=tokens):
                after = tokens
            case Failed(cancelled=True):
                return
            case Nothing() | Failed() | None:
                # The request that it was for is no growth that could make the next attempt a better one.
                before, after = needed, None
        self._backoff = self._backoff.after(before, after, bounds)

    def _bottom(self) -> int:
        return self._host.prefix_tokens + sum(item.tokens for item in self._host.surface())


def _asked(bottom: int, needed: int, bounds: Limits) -> int:
    """The size from which growth counts. A request that is far too large, and so never sent, must not switch ``soft``
    off for good."""
    return max(bottom, min(needed, bounds.context - bounds.reserve - bounds.step))
