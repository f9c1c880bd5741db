"""Asks llama.cpp, in a process of its own, which texts a grammar takes: a bad grammar may abort the process.

stdin: JSON ``{model, cases: [[grammar, texts], …]}``. stdout: JSON, per case and text the characters taken, -1 where
text and grammar end together; null for a grammar that does not parse.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys

import llama_cpp.llama_cpp as C


def allowed(sampler, token):
    data = (C.llama_token_data * 1)(C.llama_token_data(token, 0.0, 0.0))
    array = C.llama_token_data_array(data, 1, -1, False)
    C.llama_sampler_apply(sampler, ctypes.byref(array))
    return not math.isinf(data[0].logit)


def taken(vocab, grammar, text):
    """One token per character or byte sequence, so that refusals are exact."""
    sampler = C.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
    if not sampler:
        return None
    buffer = (C.llama_token * 64)()
    for index, character in enumerate(text):
        data = character.encode()
        count = C.llama_tokenize(vocab, data, len(data), buffer, 64, False, False)
        for token in buffer[:count]:
            if not allowed(sampler, token):
                return index
            C.llama_sampler_accept(sampler, token)
    return -1 if allowed(sampler, C.llama_vocab_eos(vocab)) else len(text)


request = json.load(sys.stdin)
C.llama_backend_init()
parameters = C.llama_model_default_params()
parameters.vocab_only = True
model = C.llama_model_load_from_file(request["model"].encode(), parameters)
vocab = C.llama_model_get_vocab(model)
json.dump([[taken(vocab, grammar, text) for text in texts] for grammar, texts in request["cases"]], sys.stdout)
