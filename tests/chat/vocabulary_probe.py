"""What llama.cpp says of a model and of segments, in a process of its own.

stdin: JSON ``{model, segments: [[text, special], …]}``. stdout: JSON ``{tokens: [[[id, piece, kind], …] per segment],
next}``; kind is ``control``, ``user`` (user-defined) or ``text``; ``next`` is the likeliest id after the last of them.
"""

from __future__ import annotations

import ctypes
import json
import sys

import llama_cpp.llama_cpp as C

LAST = 64
"""Tokens decoded: the context is small."""
CONTROL, USER_DEFINED = C.LLAMA_TOKEN_ATTR_CONTROL, C.LLAMA_TOKEN_ATTR_USER_DEFINED


def piece(vocab, token):
    buffer = ctypes.create_string_buffer(256)
    size = C.llama_token_to_piece(vocab, token, buffer, 256, 0, True)
    return buffer.raw[:size].decode("utf-8", "replace") if token >= 0 else ""


def tokenize(vocab, text, special):
    data = text.encode()
    buffer = (C.llama_token * (len(data) + 8))()
    count = C.llama_tokenize(vocab, data, len(data), buffer, len(buffer), False, special)
    return list(buffer[:count])


def kind(vocab, token):
    attributes = C.llama_vocab_get_attr(vocab, token)
    return "control" if attributes & CONTROL else "user" if attributes & USER_DEFINED else "text"


def likeliest(model, vocab, tokens):
    parameters = C.llama_context_default_params()
    parameters.n_ctx, parameters.n_threads, parameters.n_threads_batch = 512, 1, 1
    context = C.llama_init_from_model(model, parameters)
    array = (C.llama_token * len(tokens))(*tokens)
    batch = C.llama_batch_get_one(array, len(tokens))
    if C.llama_decode(context, batch) != 0:
        raise SystemExit("decode failed")
    logits = C.llama_get_logits_ith(context, -1)[: C.llama_vocab_n_tokens(vocab)]
    return max(range(len(logits)), key=logits.__getitem__)


request = json.load(sys.stdin)
C.llama_backend_init()
parameters = C.llama_model_default_params()
model = C.llama_model_load_from_file(request["model"].encode(), parameters)
if not model:
    raise SystemExit("load failed")
vocab = C.llama_model_get_vocab(model)
tokens = [tokenize(vocab, text, special) for text, special in request["segments"]]
flat = [token for part in tokens for token in part]
json.dump(
    {
        "tokens": [[[token, piece(vocab, token), kind(vocab, token)] for token in part] for part in tokens],
        "next": likeliest(model, vocab, flat[-LAST:]),
    },
    sys.stdout,
)
