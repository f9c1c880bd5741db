"""Tiny models with random weights and a real vocabulary: real engine, real KV, thousands of tokens a second.

What they say means nothing, but their greedy choice depends on the whole context, so that a wrong KV shows.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np

from ds4_lsp.engine.gguf_header import Reader

WIDTH, HEADS, LAYERS, HIDDEN = 64, 4, 2, 128
HEAD = WIDTH // HEADS
WINDOW = 64
"""Tokens of the sliding window of the tiny Gemma."""
_VOCABULARY = (
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.chat_template",
)


@functools.cache
def _metadata(source: Path) -> dict[str, Any]:
    # The package's own reader takes ten seconds for what this one does in a tenth of one.
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return Reader(data, longest_array=1 << 20).read()[0]


class _Builder:
    def __init__(
        self,
        path: Path,
        architecture: str,
        source: Path,
        *,
        eos_text: str | None,
        named: Mapping[int, tuple[str, str]],
        template: str | None,
    ) -> None:
        self._random = np.random.default_rng(1)
        self.writer = gguf.GGUFWriter(path, architecture)
        metadata = dict(_metadata(source))
        if eos_text is not None:
            eos = metadata["tokenizer.ggml.tokens"].index(eos_text)
            kinds = list(metadata["tokenizer.ggml.token_type"])
            kinds[eos] = gguf.TokenType.USER_DEFINED
            metadata |= {"tokenizer.ggml.eos_token_id": eos, "tokenizer.ggml.token_type": kinds}
        if template is not None:
            metadata |= {"tokenizer.chat_template": template}
        texts, kinds = list(metadata["tokenizer.ggml.tokens"]), list(metadata["tokenizer.ggml.token_type"])
        for index, (text, kind) in named.items():
            texts[index], kinds[index] = text, gguf.TokenType[kind]
        metadata |= {"tokenizer.ggml.tokens": texts, "tokenizer.ggml.token_type": kinds}
        if template is not None:
            metadata["tokenizer.chat_template"] = template
        for key in _VOCABULARY:
            value = metadata[key]
            if isinstance(value, list):
                self.writer.add_array(key, value)
            elif isinstance(value, str):
                self.writer.add_string(key, value)
            else:
                self.writer.add_uint32(key, value)
        self.size = len(metadata["tokenizer.ggml.tokens"])

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        values = self._random.standard_normal((rows, columns)) * scale / np.sqrt(columns)
        self.writer.add_tensor(name, values.astype(np.float32))

    def vector(self, name: str, size: int, value: float = 1.0) -> None:
        self.writer.add_tensor(name, np.full(size, value, dtype=np.float32))

    def tensor(self, name: str, values: Any) -> None:
        self.writer.add_tensor(name, np.asarray(values, dtype=np.float32))

    def finish(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def _frame(
    path: Path,
    architecture: str,
    source: Path,
    *,
    layers: int,
    trained: int = 4096,
    eos_text: str | None = None,
    named: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    template: str | None = None,
) -> _Builder:
    build = _Builder(path, architecture, source, eos_text=eos_text, named=named, template=template)
    writer = build.writer
    writer.add_name(f"Tiny {architecture}" if template is None else "Tiny with a template")
    writer.add_context_length(trained)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(build.size)
    build.matrix("token_embd.weight", build.size, WIDTH, 8.0)
    build.matrix("output.weight", build.size, WIDTH, 8.0)
    build.vector("output_norm.weight", WIDTH)
    return build


def _attention(build: _Builder, layer: int) -> None:
    for part in ("q", "k", "v", "output"):
        build.matrix(f"blk.{layer}.attn_{part}.weight", WIDTH, WIDTH, 2.0)
    build.matrix(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
    build.matrix(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
    build.matrix(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
    build.vector(f"blk.{layer}.attn_norm.weight", WIDTH)
    build.vector(f"blk.{layer}.ffn_norm.weight", WIDTH)


def llama(
    path: Path,
    source: Path,
    *,
    trained: int = 4096,
    eos_text: str | None = None,
    named: Mapping[int, tuple[str, str]] = MappingProxyType({}),
    sampling: Mapping[str, float] = MappingProxyType({}),
    template: str | None = None,
) -> Path:
    """Full attention: any suffix can be dropped. ``eos_text``: a token that becomes EOS, marked as an ordinary one.
    ``named``: other texts and kinds (``CONTROL``, ``USER_DEFINED``, ``NORMAL``) of some tokens; no weight changes.
    ``sampling``: the file's ``general.sampling.*``; ``template``: another chat template."""
    build = _frame(
        path, "llama", source, layers=LAYERS, trained=trained, eos_text=eos_text, named=named, template=template
    )
    build.writer.add_head_count(HEADS)
    build.writer.add_feed_forward_length(HIDDEN)
    build.writer.add_rope_dimension_count(HEAD)
    for key, number in sampling.items():
        build.writer.add_float32(f"general.sampling.{key}", number)
    for layer in range(LAYERS):
        _attention(build, layer)
    build.finish()
    return path


def gemma(path: Path, source: Path) -> Path:
    """Gemma 3: five layers of six see ``WINDOW`` tokens only."""
    layers = 6
    build = _frame(path, "gemma3", source, layers=layers)
    writer = build.writer
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_sliding_window(WINDOW)
    writer.add_rope_freq_base(10000.0)
    for layer in range(layers):
        _attention(build, layer)
        for norm, size in (("attn_q_norm", HEAD), ("attn_k_norm", HEAD)):
            build.vector(f"blk.{layer}.{norm}.weight", size)
        for norm in ("post_attention_norm", "post_ffw_norm"):
            build.vector(f"blk.{layer}.{norm}.weight", WIDTH)
    build.finish()
    return path


def mamba(path: Path, source: Path) -> Path:
    """A recurrent state: nothing can be dropped."""
    inner, state, kernel, rank = 2 * WIDTH, 16, 4, 4
    build = _frame(path, "mamba", source, layers=LAYERS)
    writer = build.writer
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    for layer in range(LAYERS):
        build.matrix(f"blk.{layer}.ssm_in.weight", 2 * inner, WIDTH, 2.0)
        build.matrix(f"blk.{layer}.ssm_conv1d.weight", inner, kernel)
        build.vector(f"blk.{layer}.ssm_conv1d.bias", inner, 0.1)
        build.matrix(f"blk.{layer}.ssm_x.weight", rank + 2 * state, inner, 2.0)
        build.matrix(f"blk.{layer}.ssm_dt.weight", inner, rank)
        build.vector(f"blk.{layer}.ssm_dt.bias", inner, -2.0)
        build.tensor(f"blk.{layer}.ssm_a", -np.tile(np.linspace(0.01, 1.0, state), (inner, 1)))
        build.vector(f"blk.{layer}.ssm_d", inner)
        build.matrix(f"blk.{layer}.ssm_out.weight", WIDTH, inner, 2.0)
        build.vector(f"blk.{layer}.attn_norm.weight", WIDTH)
    build.finish()
    return path
