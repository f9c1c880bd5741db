"""Choosing a token: the sampler chain, and a grammar that is asked about one token before the whole vocabulary."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import llama_cpp.llama_cpp as C
import numpy as np

from ds4_lsp.engine.vocab import Vocabulary
from ds4_lsp.protocol.errors import InvalidRequest

_MAX_GRAMMAR = 1 << 20
_MAX_DEPTH = 200
"""Open brackets in a grammar: llama.cpp's parser recurses on them."""
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""As ``llama_token_data``."""


PENALISED = 64
"""Tokens that the repeat penalty looks back: llama.cpp's own default."""


def penalise(logits: np.ndarray[Any, Any], recent: Sequence[int], penalty: float) -> None:
    """Make ``recent`` tokens less likely, in place: positive logits are divided, others multiplied. Keskar et al.,
    *CTRL* (2019), with llama.cpp's cure for negative logits."""
    ids = np.unique(np.asarray(recent, dtype=np.int64))
    values = logits[ids]
    logits[ids] = np.where(values > 0, values / penalty, values * penalty)


class Sampler:
    """Repeat penalty, then llama.cpp's chain: top-k, top-p, min-p, temperature, draw; or greedy at temperature 0."""

    def __init__(self, sampling: Mapping[str, Any]) -> None:
        """``sampling``: as in ``ports.Sampling``, under its names on the wire."""
        self.chain = C.llama_sampler_chain_init(C.llama_sampler_chain_default_params())
        self._penalty: float = sampling["repeatPenalty"]
        if sampling["temperature"] <= 0:
            self._add(C.llama_sampler_init_greedy())
            return
        if sampling["topK"] > 0:
            self._add(C.llama_sampler_init_top_k(sampling["topK"]))
        if sampling["topP"] < 1:
            self._add(C.llama_sampler_init_top_p(sampling["topP"], 1))
        if sampling["minP"] > 0:
            self._add(C.llama_sampler_init_min_p(sampling["minP"], 1))
        self._add(C.llama_sampler_init_temp(sampling["temperature"]))
        seed = sampling["seed"]
        self._add(C.llama_sampler_init_dist(C.LLAMA_DEFAULT_SEED if seed is None else seed))

    def _add(self, sampler: Any) -> None:
        C.llama_sampler_chain_add(self.chain, sampler)

    def sample(self, context: Any, size: int, said: Sequence[int]) -> int:
        """The next token. ``said``: what the penalty is for, the last tokens of it; ``size``: that of the vocabulary.
        Once per step: the penalty is put on the context's own logits, so that ``Constraint.choose`` sees it too, and a
        token that is refused afterwards leaves no trace."""
        if self._penalty != 1 and said:
            logits = np.ctypeslib.as_array(C.llama_get_logits_ith(context, -1), shape=(size,))
            penalise(logits, said[-PENALISED:], self._penalty)
        return int(C.llama_sampler_sample(self.chain, context, -1))

    def choose(self, candidates: Any) -> int:
        """The chain's choice among ``llama_token_data_array``."""
        C.llama_sampler_apply(self.chain, ctypes.byref(candidates))
        return int(candidates.data[candidates.selected].id)

    def free(self) -> None:
        C.llama_sampler_free(self.chain)


def _init(vocabulary: Vocabulary, grammar: str, root: str) -> Any:
    return C.llama_sampler_init_grammar(vocabulary.handle, grammar.encode("utf-8", "replace"), root.encode())


def check_grammar(vocabulary: Vocabulary, grammar: str) -> None:
    """Raises ``InvalidRequest`` when ``grammar`` is no GBNF with a ``root``."""
    if not grammar.strip() or "\0" in grammar or len(grammar) > _MAX_GRAMMAR or _depth(grammar) > _MAX_DEPTH:
        raise InvalidRequest("the grammar is empty, too large or too deeply nested")
    sampler = _init(vocabulary, grammar, "root")
    if not sampler:
        raise InvalidRequest("the grammar is not valid GBNF with a rule named root; the engine's log says where")
    C.llama_sampler_free(sampler)


def _depth(grammar: str) -> int:
    depth = deepest = 0
    for character in grammar:
        if character == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif character == ")":
            depth = max(0, depth - 1)
    return deepest


def _literal(text: str) -> str:
    """``text`` as a GBNF literal."""
    return '"' + "".join(f"\\U{ord(c):08X}" for c in text) + '"'


class Constraint:
    """A grammar that has been fed the reply from its trigger on.

    llama.cpp aborts the process when a grammar is given a token that it does not accept: every token is tried first.
    """

    def __init__(self, vocabulary: Vocabulary, grammar: str, prefix: str) -> None:
        """``prefix``: the text before the trigger in the first token that will be fed."""
        if prefix:
            grammar, root = f"{grammar}\nds4-prefixed ::= {_literal(prefix)} root\n", "ds4-prefixed"
        else:
            root = "root"
        self._sampler = _init(vocabulary, grammar, root)
        self._size = vocabulary.size
        self._end = min(vocabulary.end_ids, default=None)
        self._no_ends = vocabulary.html
        """A grammar takes them for ends, whatever it says of their text."""
        self._one = (C.llama_token_data * 1)()
        self._array = C.llama_token_data_array(
            ctypes.cast(self._one, C.llama_token_data_p), ctypes.c_size_t(1), -1, False
        )

    @property
    def complete(self) -> bool:
        """Whether the grammar allows the reply to end here."""
        return self._end is not None and self.allows(self._end)

    def allows(self, token: int) -> bool:
        if not self._sampler or token in self._no_ends:
            return False
        self._one[0].id, self._one[0].logit = token, 1.0
        self._array.size, self._array.selected, self._array.sorted = 1, -1, False
        C.llama_sampler_apply(self._sampler, ctypes.byref(self._array))
        return bool(self._one[0].logit > float("-inf"))

    def accept(self, token: int) -> bool:
        """Take the token when it fits; False when it does not."""
        if not self.allows(token):
            return False
        C.llama_sampler_accept(self._sampler, token)
        return True

    def accept_all(self, tokens: Sequence[int]) -> bool:
        return all(self.accept(token) for token in tokens)

    def choose(self, context: Any, sampler: Sampler) -> int | None:
        """Sample among the tokens that fit (not yet accepted); None when none does."""
        logits = C.llama_get_logits_ith(context, -1)
        candidates = np.empty(self._size, dtype=_CANDIDATE)
        candidates["id"] = np.arange(self._size, dtype=np.int32)
        candidates["logit"] = np.ctypeslib.as_array(logits, shape=(self._size,))
        candidates["logit"][list(self._no_ends)] = -np.inf
        candidates["p"] = 0.0
        data = candidates.ctypes.data_as(C.llama_token_data_p)
        array = C.llama_token_data_array(data, ctypes.c_size_t(self._size), -1, False)
        C.llama_sampler_apply(self._sampler, ctypes.byref(array))
        if not np.isfinite(candidates["logit"]).any():
            return None
        token = sampler.choose(array)
        return token if self.allows(token) else None

    def free(self) -> None:
        if self._sampler:
            C.llama_sampler_free(self._sampler)
            self._sampler = None
