"""The KV of a context's one sequence, and the tokens that it holds: never anything else.

A memory that cannot drop a suffix may claim that it did and compute wrong logits afterwards, so that every removal and
restore is checked by the positions that the memory reports. Where the check fails, a checkpoint kept in memory is
restored, and without one the memory is cleared.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

import llama_cpp.llama_cpp as C

from ds4_lsp.engine.fault import faults
from ds4_lsp.protocol.errors import ContextTooSmall, Ds4Error

_SEQ = 0
_PARTIAL = 1
"""LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: the state of what cannot be truncated."""
_NO_SLOT, _ABORTED = 1, 2
MAX_CHECKPOINTS = 8
CHECKPOINT_EVERY = 2048
"""Tokens between two checkpoints of a long prefill."""

OnBatch = Callable[[int], None]


@dataclass(frozen=True)
class MemoryKind:
    """``recurrent``: has a state without positions (hybrids included). ``window``: tokens of its sliding window, 0
    without. ``full_window``: the sliding-window layers keep all positions."""

    recurrent: bool
    window: int
    full_window: bool

    @property
    def truncatable(self) -> bool:
        return not self.recurrent and (self.window == 0 or self.full_window)


@dataclass(frozen=True)
class _Checkpoint:
    length: int
    state: Any
    size: int


class Memory:
    """``tokens``: what the KV holds, in order."""

    def __init__(self, context: Any, kind: MemoryKind, size: int, batch_size: int, log_tail: Callable[[], str]) -> None:
        self._context = context
        self._memory = C.llama_get_memory(context)
        self.kind = kind
        self.size = size
        self._log_tail = log_tail
        self.tokens = array("i")
        self._checkpoints: list[_Checkpoint] = []
        # An aborted batch leaves a recurrent state undefined: it is never aborted, so its batches are small.
        self.batch_size = min(batch_size, 128) if kind.recurrent else batch_size
        self._batch = self._new_batch(self.batch_size)
        self._single = self._new_batch(1)
        self._single.logits[0] = 1
        self._single.n_tokens = 1

    @staticmethod
    def _new_batch(capacity: int) -> Any:
        batch = C.llama_batch_init(capacity, 0, 1)
        for i in range(capacity):
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = _SEQ
            batch.logits[i] = 0
        return batch

    # --- removing -------------------------------------------------------------------------------------------------

    def truncate(self, length: int) -> int:
        """Keep at most ``length`` tokens; returns how many are left: fewer where the memory could not be cut there."""
        if length >= len(self.tokens):
            return len(self.tokens)
        removed = length > 0 and C.llama_memory_seq_rm(self._memory, _SEQ, length, -1)
        if removed and self._holds(length):
            self._set_length(length)
        elif length == 0 or not self._restore_checkpoint(length):
            self.clear()
        return len(self.tokens)

    def clear(self) -> None:
        C.llama_memory_clear(self._memory, True)
        self._checkpoints.clear()
        del self.tokens[:]

    def _set_length(self, length: int) -> None:
        del self.tokens[length:]
        self._checkpoints = [c for c in self._checkpoints if c.length <= length]

    def _holds(self, length: int) -> bool:
        """Whether the memory holds the first ``length`` positions, as far as the next one attends to them.

        A sliding window of w lets position p see p - w + 1 and later; chunked windows see less.
        """
        if C.llama_memory_seq_pos_max(self._memory, _SEQ) != length - 1:
            return False
        if length == 0 or self.kind.recurrent:
            return True
        first: int = C.llama_memory_seq_pos_min(self._memory, _SEQ)
        reach = max(0, length - self.kind.window + 1) if self.kind.window else 0
        return 0 <= first <= reach

    def _restore_checkpoint(self, length: int) -> bool:
        for checkpoint in sorted(self._checkpoints, key=lambda c: -c.length):
            if checkpoint.length > length:
                continue
            read = C.llama_state_seq_set_data_ext(self._context, checkpoint.state, checkpoint.size, _SEQ, _PARTIAL)
            if (
                read == checkpoint.size
                and C.llama_memory_seq_rm(self._memory, _SEQ, checkpoint.length, -1)
                and self._holds(checkpoint.length)
            ):
                self._set_length(checkpoint.length)
                return True
        return False

    def _checkpoint(self) -> None:
        """Remember the state here. The first checkpoint (the head of the transcript) and the latest ones stay."""
        length = len(self.tokens)
        if length == 0 or any(c.length == length for c in self._checkpoints):
            return
        size = C.llama_state_seq_get_size_ext(self._context, _SEQ, _PARTIAL)
        state = (ctypes.c_uint8 * size)()
        if C.llama_state_seq_get_data_ext(self._context, state, size, _SEQ, _PARTIAL) != size:
            return
        if len(self._checkpoints) >= MAX_CHECKPOINTS:
            del self._checkpoints[1]
        self._checkpoints.append(_Checkpoint(length, state, size))

    # --- evaluating -----------------------------------------------------------------------------------------------

    def evaluate(self, suffix: array[int], *, logits: bool, cancel: Event, on_batch: OnBatch) -> list[tuple[int, int]]:
        """Append ``suffix``; ``logits``: those of its last token are wanted. Returns the batches that were done, as
        (position, length): fewer tokens than asked for mean that ``cancel`` was set. ``on_batch`` hears the number of
        tokens done. Raises ``ContextTooSmall``, and ``Ds4Error`` when llama.cpp fails.
        """
        batches: list[tuple[int, int]] = []
        done = 0
        if not self.kind.truncatable:
            self._checkpoint()
        while done < len(suffix) and not cancel.is_set():
            start = len(self.tokens)
            count = self._next_batch(len(suffix) - done)
            last = done + count == len(suffix)
            code = self._decode(suffix[done : done + count], logits=logits and last)
            if code:
                added = self._settle(code, start, suffix[done : done + count])
                if added > start:
                    batches.append((start, added - start))
                    on_batch(done + added - start)
                break
            faults.hit("prefill")
            batches.append((start, count))
            done += count
            on_batch(done)
            if not self.kind.truncatable and self._checkpoint_due(len(suffix) - done):
                self._checkpoint()
        return batches

    def _next_batch(self, left: int) -> int:
        # Sampling from a transcript that is evaluated already drops its last token: a checkpoint is wanted before it.
        if left > 1 and not self.kind.truncatable:
            left -= 1
        return min(left, self.batch_size)

    def _checkpoint_due(self, left: int) -> bool:
        last = self._checkpoints[-1].length if self._checkpoints else 0
        return left == 1 or len(self.tokens) - last >= CHECKPOINT_EVERY

    def _decode(self, tokens: array[int], *, logits: bool) -> int:
        batch, count, start = self._batch, len(tokens), len(self.tokens)
        batch.n_tokens = count
        ctypes.memmove(batch.token, tokens.buffer_info()[0], 4 * count)
        positions = array("i", range(start, start + count))
        ctypes.memmove(batch.pos, positions.buffer_info()[0], 4 * count)
        batch.logits[count - 1] = logits
        code: int = C.llama_decode(self._context, batch)
        batch.logits[count - 1] = 0
        if code == 0:
            self.tokens.extend(tokens)
        return code

    def step(self, token: int) -> bool:
        """Append one token, with its logits; False when it was aborted. Errors as in ``evaluate``."""
        batch, start = self._single, len(self.tokens)
        batch.token[0] = token
        batch.pos[0] = start
        code: int = C.llama_decode(self._context, batch)
        if code == 0:
            self.tokens.append(token)
            return True
        self._settle(code, start, array("i", [token]))
        return False

    def _settle(self, code: int, start: int, tokens: array[int]) -> int:
        """After a decode that did not end well: keep what is truly in the memory; returns the new length."""
        held: int = C.llama_memory_seq_pos_max(self._memory, _SEQ) + 1
        failed = code < 0
        if start <= held <= start + len(tokens) and self._holds(held) and not (failed and self.kind.recurrent):
            self.tokens.extend(tokens[: held - start])
        else:
            self.clear()
        if code == _NO_SLOT:
            raise ContextTooSmall(
                f"the context of {self.size} tokens has no room for {len(tokens)} more after {start}",
                needed=start + len(tokens),
                size=self.size,
            )
        if code != _ABORTED:
            raise Ds4Error(f"llama.cpp could not evaluate the batch (code {code}): {self._log_tail()}")
        return len(self.tokens)

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> Any:
        """The whole state of the sequence, as a ctypes byte array. Logits are not part of it."""
        size = C.llama_state_seq_get_size(self._context, _SEQ)
        state = (ctypes.c_uint8 * size)()
        written = C.llama_state_seq_get_data(self._context, state, size, _SEQ)
        if written != size:
            raise Ds4Error(f"llama.cpp gave {written} of {size} bytes of the KV: {self._log_tail()}")
        return state

    def set_state(self, state: Any, size: int, tokens: array[int]) -> bool:
        """Replace everything by a saved state that holds ``tokens``; the memory is empty when it does not."""
        self.clear()
        read = C.llama_state_seq_set_data(self._context, state, size, _SEQ)
        if read != size or not self._holds(len(tokens)):
            self.clear()
            return False
        self.tokens.extend(tokens)
        return True
