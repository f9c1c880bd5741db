"""From settings to a plan for loading. Everything that can be refused is refused here, before llama.cpp is asked."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as C
import psutil

from ds4_lsp.engine import llama
from ds4_lsp.engine.gguf_header import Header, read_header
from ds4_lsp.engine.requirements import BYTES_PER_VALUE, Need, available_ram, estimate, in_words, shortage
from ds4_lsp.protocol.errors import ModelLoadFailed, NoModel
from ds4_lsp.protocol.recommended import Advice, recommended

MAX_UBATCH = 512
"""Tokens of one graph: bounds the compute memory, and the work lost by a cancel."""
_ALL_LAYERS = 999
_QUANTISED = frozenset(BYTES_PER_VALUE) - {"f32", "f16", "bf16"}


@dataclass(frozen=True)
class Plan:
    """What was decided before loading. ``notes``: what the user should know."""

    header: Header
    name: str
    context_size: int
    gpu: bool
    gpu_layers: int
    flash_attention: int
    threads: int
    batch_size: int
    ubatch_size: int
    kv_type: str
    split_mode: str | None
    full_window: bool
    devices: tuple[llama.Device, ...]
    recommended: tuple[Advice, ...]
    notes: tuple[str, ...]

    @property
    def need(self) -> Need:
        """Memory, by an estimate."""
        return estimate(self.header, self.context_size, self.kv_type, self.ubatch_size, self.flash_attention != 0)

    def described(self) -> dict[str, Any]:
        """``death.Planned``'s fields."""
        need, layers = self.need, int(self.header.value("block_count", 0) or 0) + 1
        return {
            "name": self.name,
            "path": str(self.header.path),
            "size": self.header.size,
            "mtime_ns": self.header.mtime_ns,
            "context_size": self.context_size,
            "kv_type": self.kv_type,
            "gpu": self.gpu,
            "layers": layers,
            "gpu_layers": min(layers, self.gpu_layers) if self.gpu else 0,
            "weights": need.weights,
            "kv": need.kv,
            "compute": need.compute,
        }

    @property
    def fingerprint(self) -> str:
        """What a snapshot depends on."""
        parts = (
            self.header.size,
            self.header.mtime_ns,
            self.header.digest,
            llama.build(),
            self.context_size,
            self.kv_type,
            self.flash_attention,
            self.full_window,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def plan(settings: dict[str, Any], *, context_is_default: bool, full_window: bool) -> Plan:
    """Check ``model.*`` settings (camelCase keys) against the file and the machine.

    Raises ``NoModel`` and ``ModelLoadFailed``.
    """
    if not settings["path"]:
        raise NoModel("no model is configured: set model.path, or fetch one with `ds4-lsp model fetch`")
    header = read_header(Path(settings["path"]))
    name = str(header.metadata.get("general.name") or header.path.stem)
    context = _context_size(header, name, settings["contextSize"], context_is_default)
    advice, notes = recommended(header.metadata)
    _add_rpc_servers(settings["rpcServers"])
    devices = tuple(llama.devices())
    gpu = any(device.offloads for device in devices)
    layers = settings["gpuLayers"]
    if layers > 0 and not gpu:
        notes.append(
            f"model.gpuLayers is {layers}, but the installed llama-cpp-python has no GPU: running on the CPU."
            f" For a GPU build: {llama.INSTALL_GPU}"
        )
    gpu = gpu and layers != 0
    flash = _flash_attention(settings["flashAttention"], settings["kvCacheType"], gpu, notes)
    ubatch = min(settings["batchSize"], MAX_UBATCH)
    result = Plan(
        header=header,
        name=name,
        context_size=context,
        gpu=gpu,
        gpu_layers=_ALL_LAYERS if layers < 0 else layers,
        flash_attention=flash,
        threads=settings["threads"] or default_threads(),
        batch_size=settings["batchSize"],
        ubatch_size=ubatch,
        kv_type=settings["kvCacheType"],
        split_mode=settings["splitMode"],
        full_window=full_window,
        devices=devices,
        recommended=tuple(advice),
        notes=tuple(notes),
    )
    _check_memory(result, layers)
    return result


def _context_size(header: Header, name: str, wanted: int, is_default: bool) -> int:
    trained = header.trained_context
    if trained is None or wanted <= trained:
        return wanted
    if is_default:
        return trained
    raise ModelLoadFailed(
        f"model.contextSize is {wanted} tokens, but {name} was trained for {trained}: set it to {trained} or less",
        contextSize=wanted,
        trainedContext=trained,
    )


def _add_rpc_servers(servers: list[str]) -> None:
    if not servers:
        return
    if not llama.supports_rpc():
        raise ModelLoadFailed(
            f"model.rpcServers needs a build of llama.cpp with RPC, which the installed one is not: {llama.INSTALL_RPC}"
        )
    for server in servers:
        host, _, port = server.rpartition(":")
        try:
            # llama.cpp may abort on a server that does not answer.
            socket.create_connection((host, int(port)), timeout=5).close()
        except (OSError, ValueError) as error:
            raise ModelLoadFailed(
                f"the RPC server {server} cannot be reached ({error}): is rpc-server running there?"
            ) from None
        if not llama.add_rpc_server(server):
            raise ModelLoadFailed(
                f"the RPC server {server} does not answer as one of llama.cpp's, or is of another version"
            )


def _flash_attention(setting: str, kv_type: str, gpu: bool, notes: list[str]) -> int:
    quantised = kv_type in _QUANTISED
    if setting == "off" and quantised:
        raise ModelLoadFailed(
            f"model.kvCacheType {kv_type} needs flash attention:"
            " set model.flashAttention to auto or on, or the type to f16"
        )
    if setting == "on":
        return int(C.LLAMA_FLASH_ATTN_TYPE_ENABLED)
    if setting == "auto" and quantised:
        if not gpu:
            notes.append(f"flash attention is on, which is slow on a CPU, because model.kvCacheType is {kv_type}")
        return int(C.LLAMA_FLASH_ATTN_TYPE_ENABLED)
    if setting == "auto" and gpu:
        return int(C.LLAMA_FLASH_ATTN_TYPE_AUTO)
    return int(C.LLAMA_FLASH_ATTN_TYPE_DISABLED)


def default_threads() -> int:
    """Physical cores that this process may use."""
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:
        usable = os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or usable, usable))


def _check_memory(plan: Plan, gpu_layers: int) -> None:
    need = plan.need
    layers = plan.header.value("block_count", 0)
    short = shortage(need, layers, gpu_layers, plan.devices, available_ram())
    if short is None:
        return
    raise ModelLoadFailed(
        f"{plan.name} needs about {in_words(short.needed)} of {short.where}, and {in_words(short.available)} is free"
        f" (model {in_words(need.weights)}, context of {plan.context_size} tokens {in_words(need.kv)},"
        f" work space {in_words(need.compute)}): lower model.contextSize or model.gpuLayers,"
        " choose a smaller model.kvCacheType or a smaller model",
        needed=short.needed,
        available=short.available,
    )
