"""The bare loop, in a process of its own: ``llama_decode`` and a sampler chain, and nothing else.

``python -m benchmarks.bare_loop`` reads one JSON object a line and answers each with one. Shares no code with the
server: what the two have in common are the parameters they are given.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

import llama_cpp.llama_cpp as C
import psutil

TOKEN = 1000
"""Which token is evaluated makes no difference to the time."""


class Loop:
    """A loaded model and a batch. Times are in seconds, sizes in bytes."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._quiet = C.llama_log_callback(lambda _level, _text, _data: None)
        C.llama_log_set(self._quiet, ctypes.c_void_p(0))
        C.llama_backend_init()
        params = C.llama_model_default_params()
        params.n_gpu_layers = 999
        self._model = C.llama_model_load_from_file(settings["model"].encode(), params)
        self._batch_size = settings["batch"]
        self._context = C.llama_init_from_model(self._model, self._context_params(settings))
        self._memory = C.llama_get_memory(self._context)
        self._batch = C.llama_batch_init(self._batch_size, 0, 1)
        for i in range(self._batch_size):
            self._batch.n_seq_id[i] = 1
            self._batch.seq_id[i][0] = 0
            self._batch.token[i] = TOKEN
        self._held = 0

    @staticmethod
    def _context_params(settings: dict[str, Any]) -> Any:
        params = C.llama_context_default_params()
        params.n_ctx = settings["context"]
        params.n_batch = settings["batch"]
        params.n_ubatch = min(settings["batch"], 512)
        params.n_seq_max = params.n_outputs_max = 1
        params.n_threads = params.n_threads_batch = settings["threads"]
        params.flash_attn_type = C.LLAMA_FLASH_ATTN_TYPE_AUTO if settings["gpu"] else C.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.swa_full = True
        params.no_perf = True
        params.offload_kqv = params.op_offload = settings["gpu"]
        return params

    def _move_to(self, position: int) -> None:
        """Hold exactly that many tokens."""
        if position < self._held:
            C.llama_memory_seq_rm(self._memory, 0, position, -1)
            self._held = position
        self._evaluate(position - self._held)

    def _evaluate(self, count: int) -> None:
        while count:
            size = min(count, self._batch_size)
            self._batch.n_tokens = size
            for i in range(size):
                self._batch.pos[i] = self._held + i
                self._batch.logits[i] = 0
            self._batch.logits[size - 1] = count == size
            if C.llama_decode(self._context, self._batch):
                raise RuntimeError("llama_decode failed")
            self._held += size
            count -= size

    def tokenize(self, text: str) -> list[int]:
        """Tokens of ``text``, none of them control tokens."""
        data = text.encode()
        tokens = (C.llama_token * (len(data) + 8))()
        vocabulary = C.llama_model_get_vocab(self._model)
        count = C.llama_tokenize(vocabulary, data, len(data), tokens, len(tokens), False, False)
        return list(tokens[:count])

    def prefill(self, start: int, count: int) -> float:
        """Evaluate ``count`` tokens behind ``start``."""
        self._move_to(start)
        began = time.perf_counter()
        self._evaluate(count)
        # On a GPU the call returns before the work is done.
        C.llama_synchronize(self._context)
        return time.perf_counter() - began

    def decode(self, start: int, count: int, sampling: dict[str, float]) -> float:
        """Sample ``count`` tokens behind ``start``; the last one is not evaluated."""
        chain = C.llama_sampler_chain_init(C.llama_sampler_chain_default_params())
        for sampler in (
            C.llama_sampler_init_min_p(sampling["minP"], 1),
            C.llama_sampler_init_temp(sampling["temperature"]),
            C.llama_sampler_init_dist(1),
        ):
            C.llama_sampler_chain_add(chain, sampler)
        self._move_to(start - 1)
        self._evaluate(1)
        C.llama_synchronize(self._context)
        batch = self._batch
        batch.n_tokens = 1
        batch.logits[0] = 1
        began = time.perf_counter()
        token = C.llama_sampler_sample(chain, self._context, -1)
        for _ in range(count - 1):
            batch.token[0] = token
            batch.pos[0] = self._held
            if C.llama_decode(self._context, batch):
                raise RuntimeError("llama_decode failed")
            self._held += 1
            token = C.llama_sampler_sample(chain, self._context, -1)
        took = time.perf_counter() - began
        batch.token[0] = TOKEN
        C.llama_sampler_free(chain)
        return took


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    loop: Loop | None = None
    answer: dict[str, Any]
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "load":
            before = psutil.Process().memory_info().rss
            loop = Loop(request)
            answer = {"before": before, "after": psutil.Process().memory_info().rss}
        elif loop is None:
            raise RuntimeError("load comes first")
        elif request["op"] == "memory":
            answer = {"rss": psutil.Process().memory_info().rss}
        elif request["op"] == "tokenize":
            answer = {"tokens": loop.tokenize(request["text"])}
        elif request["op"] == "prefill":
            answer = {"seconds": loop.prefill(request["start"], request["count"])}
        else:
            answer = {"seconds": loop.decode(request["start"], request["count"], request["sampling"])}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
