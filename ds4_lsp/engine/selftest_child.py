"""The other half of ``selftest``: evaluates batches on a tiny model of its own making, and compares with numpy.

Run by its path, in a process that may die: nothing of this project is imported, since at an install there is nothing
yet to import. One line of JSON on stdout before each step, ``{"step": ...}``, and ``{"error": ...}`` or ``{"done":
...}`` at the end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

# llama.cpp may print; the lines for the parent go where nothing else does.
_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import llama_cpp.llama_cpp as C  # noqa: E402
import numpy as np  # noqa: E402

BATCHES = (1, 8, 64, 512)
"""Tokens. llama.cpp has other kernels for one row, for few and for many."""
TYPES = {"F16": 1, "Q8_0": 7, "Q4_0": 2, "Q4_K": 14}
"""``llama_ftype``. The weights are such that each type can hold them."""
TOLERANCE = 0.1
"""How far logits may be from the exact ones, as a share of their length. What is left is that kernels round what they
multiply the weights with to 8 or 16 bits, which costs up to 0.03. Logits that have nothing to do with the exact ones
are off by 1.4."""
BLOCK = 32
"""Values that share a scale."""
WIDTH, HIDDEN, HEADS, VOCABULARY, CONTEXT = 256, 512, 4, 512, 1024
"""Rows are whole blocks of every type: Q4_K puts 256 values together."""
STEP = 1 / 32
"""Between two levels: activations keep about their size from one product to the next."""
EPSILON, BASE = 1e-5, 10000.0
_HEAD = WIDTH // HEADS
_ALIGNMENT = 32
_F32, _F16, _U32, _STRING, _FLOAT = 0, 1, 4, 8, 6
_MATRICES = {
    "token_embd": (VOCABULARY, WIDTH),
    "output": (VOCABULARY, WIDTH),
    "blk.0.attn_q": (WIDTH, WIDTH),
    "blk.0.attn_k": (WIDTH, WIDTH),
    "blk.0.attn_v": (WIDTH, WIDTH),
    "blk.0.attn_output": (WIDTH, WIDTH),
    "blk.0.ffn_gate": (HIDDEN, WIDTH),
    "blk.0.ffn_up": (HIDDEN, WIDTH),
    "blk.0.ffn_down": (WIDTH, HIDDEN),
}
_NORMS = ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")


def say(**fields: Any) -> None:
    _out.write(json.dumps(fields) + "\n")
    _out.flush()


def weights() -> dict[str, Any]:
    """One layer of random weights, of the sixteen levels that 4 bits can tell."""
    random = np.random.default_rng(1)

    def matrix(rows: int, columns: int) -> Any:
        levels = random.integers(-8, 8, (rows * columns // BLOCK, BLOCK))
        # A block's scale comes from its extremes.
        levels[:, 0], levels[:, 1] = -8, 7
        return (random.permuted(levels, axis=1).reshape(rows, columns) * STEP).astype(np.float16)

    return {name: matrix(*shape) for name, shape in _MATRICES.items()}


def write_model(path: Path, matrices: dict[str, Any]) -> None:
    """A GGUF file, version 3, little-endian, of a llama without a vocabulary."""
    numbers = {
        "block_count": 1,
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "rope.dimension_count": _HEAD,
        "vocab_size": VOCABULARY,
    }
    fields = [_pair("general.architecture", _STRING, _string("llama"))]
    fields += [_pair("tokenizer.ggml.model", _STRING, _string("no_vocab"))]
    fields += [_pair(f"llama.{name}", _U32, struct.pack("<I", value)) for name, value in numbers.items()]
    fields += [
        _pair("llama.attention.layer_norm_rms_epsilon", _FLOAT, struct.pack("<f", EPSILON)),
        _pair("llama.rope.freq_base", _FLOAT, struct.pack("<f", BASE)),
    ]
    tensors = {f"{name}.weight": (_F16, data) for name, data in matrices.items()}
    tensors |= {f"{name}.weight": (_F32, np.ones(WIDTH, dtype=np.float32)) for name in _NORMS}
    heads, at = [], 0
    for name, (kind, data) in tensors.items():
        shape = data.shape[::-1]
        heads.append(_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at))
        at += _padded(data.nbytes)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields)) + b"".join(fields + heads)
    with path.open("wb") as file:
        file.write(head.ljust(_padded(len(head)), b"\0"))
        for _, data in tensors.values():
            file.write(data.tobytes().ljust(_padded(data.nbytes), b"\0"))


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _pair(name: str, kind: int, value: bytes) -> bytes:
    return _string(name) + struct.pack("<I", kind) + value


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def exact_logits(matrices: dict[str, Any], tokens: Any) -> Any:
    """The logits after each of ``tokens``: a llama's one layer, in 32 bits."""
    w = {name.rpartition(".")[2]: data.astype(np.float32) for name, data in matrices.items()}
    x = w["token_embd"][tokens]
    a = _norm(x)
    q, k, v = (_heads(a @ w[name].T) for name in ("attn_q", "attn_k", "attn_v"))
    scores = _rotate(q) @ _rotate(k).transpose(0, 2, 1) / np.sqrt(_HEAD)
    scores[:, np.triu_indices(len(tokens), 1)[0], np.triu_indices(len(tokens), 1)[1]] = -np.inf
    share = np.exp(scores - scores.max(axis=-1, keepdims=True))
    share /= share.sum(axis=-1, keepdims=True)
    x = x + (share @ v).transpose(1, 0, 2).reshape(len(tokens), WIDTH) @ w["attn_output"].T
    h = _norm(x)
    gate = h @ w["ffn_gate"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w["ffn_up"].T)) @ w["ffn_down"].T
    return _norm(x) @ w["output"].T


def _norm(x: Any) -> Any:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON)


def _heads(x: Any) -> Any:
    return x.reshape(len(x), HEADS, _HEAD).transpose(1, 0, 2)


def _rotate(x: Any) -> Any:
    """Positions as rotations of neighbouring values."""
    angles = np.arange(x.shape[1])[:, None] * BASE ** (-np.arange(0, _HEAD, 2) / _HEAD)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = np.empty_like(x)
    turned[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
    turned[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
    return turned


class Failure(Exception):
    """What is wrong, in words."""


def check(path: Path, name: str, tokens: Any, exact: Any) -> float:
    """Evaluate ``tokens`` in batches of every size; returns the largest error. Raises ``Failure``."""
    say(step=f"loading {name}")
    parameters = C.llama_model_default_params()
    parameters.n_gpu_layers = 99
    model = C.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        raise Failure(f"{name}: the model does not load")
    parameters = C.llama_context_default_params()
    parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = CONTEXT, max(BATCHES), max(BATCHES)
    parameters.n_threads = parameters.n_threads_batch = min(4, os.cpu_count() or 1)
    context = C.llama_init_from_model(model, parameters)
    if not context:
        raise Failure(f"{name}: no context can be made")
    worst = 0.0
    for size in BATCHES:
        say(step=f"a batch of {size} in {name}")
        C.llama_memory_clear(C.llama_get_memory(context), True)
        error = _error(_evaluate(context, tokens[:size], name), exact[size - 1])
        # One more token: what was just written into the KV is read.
        say(step=f"a token after a batch of {size} in {name}")
        error = max(error, _error(_evaluate(context, tokens[size : size + 1], name), exact[size]))
        if not error < TOLERANCE:
            raise Failure(f"a batch of {size} in {name} comes out wrong: off by {error:.2f}, and {TOLERANCE} is fine")
        worst = max(worst, error)
    C.llama_free(context)
    C.llama_model_free(model)
    return worst


def _evaluate(context: Any, tokens: Any, name: str) -> Any:
    ids = (C.llama_token * len(tokens))(*tokens.tolist())
    if C.llama_decode(context, C.llama_batch_get_one(ids, len(tokens))) != 0:
        raise Failure(f"{name}: llama.cpp refuses a batch of {len(tokens)}")
    return np.ctypeslib.as_array(C.llama_get_logits_ith(context, -1), shape=(VOCABULARY,)).astype(np.float64)


def _error(logits: Any, exact: Any) -> float:
    """As a share of the exact logits' length; NaN where one of them is no number."""
    return float(np.linalg.norm(logits - exact) / np.linalg.norm(exact))


def quantise(source: Path, target: Path, kind: int) -> None:
    parameters = C.llama_model_quantize_default_params()
    parameters.ftype, parameters.pure, parameters.nthread = kind, True, 1
    if C.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(parameters)) != 0:
        raise Failure(f"llama.cpp does not quantise to {target.stem}")


def run(folder: Path) -> dict[str, float]:
    """The largest error of each type. Raises ``Failure``."""
    say(step="starting llama.cpp")
    C.llama_backend_init()
    matrices = weights()
    tokens = np.random.default_rng(2).integers(0, VOCABULARY, max(BATCHES) + 1)
    exact = exact_logits(matrices, tokens)
    source = folder / "F16.gguf"
    write_model(source, matrices)
    worst = {}
    for name, kind in TYPES.items():
        path = folder / f"{name}.gguf"
        if path != source:
            say(step=f"quantising to {name}")
            quantise(source, path, kind)
        worst[name] = check(path, name, tokens, exact)
    return worst


def main() -> int:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # A crash must not spend seconds on writing gigabytes of core.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        with tempfile.TemporaryDirectory(prefix="ds4-lsp-selftest-") as name:
            worst = run(Path(name))
    except Failure as failure:
        say(error=str(failure))
        return 1
    say(done={name: round(error, 4) for name, error in worst.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
