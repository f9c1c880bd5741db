"""How much memory a model needs, and how much there is: asked before llama.cpp is, since it may abort on a failure.

An estimate. It errs on the small side: what is refused here could not have worked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ds4_lsp.engine.gguf_header import Header
from ds4_lsp.engine.llama import Device

BYTES_PER_VALUE = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}
"""ggml's block sizes, in bytes per value."""


@dataclass(frozen=True)
class Need:
    """Bytes."""

    weights: int
    kv: int
    compute: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.compute


def estimate(header: Header, context: int, kv_type: str, ubatch: int, flash_attention: bool) -> Need:
    """What a model needs with a context of that many tokens."""
    heads = _most(header.value("attention.head_count", 0))
    layers = _most(header.value("block_count", 0))
    width = _most(header.value("embedding_length", 0))
    head_size = width // heads if heads else 0
    keys = _most(header.value("attention.key_length", head_size))
    values = _most(header.value("attention.value_length", head_size))
    kv_heads = _of_all_layers(header.value("attention.head_count_kv", heads), layers)
    kv = kv_heads * (keys + values) * context * BYTES_PER_VALUE[kv_type]
    scores = 0 if flash_attention else heads * ubatch * context * 4
    return Need(header.size, int(kv), scores + ubatch * width * 4 * 8)


def _most(value: Any) -> int:
    """Some architectures have one number for all layers, others a list of theirs; None is a list too long to be one."""
    return max(value, default=0) if isinstance(value, list) else int(value or 0)


def _of_all_layers(value: Any, layers: int) -> int:
    return sum(value) if isinstance(value, list) else int(value or 0) * layers


@dataclass(frozen=True)
class Shortage:
    """Where the model does not fit: a device's name or ``memory``; bytes needed and available."""

    where: str
    needed: int
    available: int


def shortage(need: Need, layers: int, gpu_layers: int, devices: Sequence[Device], ram: int) -> Shortage | None:
    """The first place with too little memory; None when all is well. ``gpu_layers``: -1 means all."""
    gpus = [device for device in devices if device.offloads]
    if not gpus or gpu_layers == 0:
        return Shortage("memory", need.total, ram) if need.total > ram else None
    share = 1.0 if gpu_layers < 0 else min(1.0, gpu_layers / (layers + 1))
    on_gpu = int((need.weights + need.kv) * share) + need.compute
    free = sum(device.free for device in gpus)
    if free and on_gpu > free:
        return Shortage(" + ".join(device.name for device in gpus), on_gpu, free)
    on_cpu = need.total - need.compute - int((need.weights + need.kv) * share)
    return Shortage("memory", on_cpu, ram) if on_cpu > ram else None


def available_ram() -> int:
    """Bytes that can be had without swapping; within the process's cgroup, where it has a limit."""
    free = int(psutil.virtual_memory().available)
    limit = _cgroup_free(Path("/sys/fs/cgroup"))
    return free if limit is None else min(free, limit)


def _cgroup_free(root: Path) -> int | None:
    """What a cgroup v2 limit leaves, page cache counted as free; None without a limit."""
    try:
        limit = (root / "memory.max").read_text().strip()
        used = int((root / "memory.current").read_text())
        stat = dict(line.split() for line in (root / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if limit == "max":
        return None
    return max(0, int(limit) - used + int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0)))


def in_words(count: int) -> str:
    """Bytes as GiB with one decimal, MiB when small."""
    gib = count / 2**30
    return f"{gib:.1f} GiB" if gib >= 1 else f"{count / 2**20:.0f} MiB"
