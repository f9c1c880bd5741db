"""From a plan to a loaded model and its context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

import llama_cpp.llama_cpp as C

from ds4_lsp.engine import llama
from ds4_lsp.engine.fault import faults
from ds4_lsp.engine.kv import Memory, MemoryKind
from ds4_lsp.engine.plan import Plan
from ds4_lsp.engine.vocab import Vocabulary
from ds4_lsp.protocol.errors import Cancelled, ModelLoadFailed

_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
"""ggml_type."""
_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}


@dataclass(frozen=True)
class Loaded:
    """A model ready for use; ``info`` has ``ModelInfo``'s fields."""

    model: Any
    context: Any
    vocabulary: Vocabulary
    memory: Memory
    info: dict[str, Any]


def load(
    plan: Plan, log: llama.Log, abort: llama.AbortFlag, cancel: Event, on_progress: Callable[[int, int], None]
) -> Loaded:
    """Load the planned model. Raises ``Cancelled``, and ``ModelLoadFailed`` with llama.cpp's reasons."""
    C.llama_backend_init()
    shown = -1

    def report(fraction: float, _data: object) -> bool:
        nonlocal shown
        done = int(fraction * 1000)
        if done > shown:
            shown = done
            on_progress(done, 1000)
            faults.hit("load")
        return not cancel.is_set()

    # The callback object has to outlive the call that uses it.
    callback = C.llama_progress_callback(report)
    model = C.llama_model_load_from_file(str(plan.header.path).encode(), _model_params(plan, callback))
    if cancel.is_set():
        raise Cancelled("loading the model was cancelled")
    if not model:
        raise ModelLoadFailed(f"llama.cpp could not load {plan.header.path}:\n{log.tail()}", path=str(plan.header.path))
    if not C.llama_model_has_decoder(model) or C.llama_model_is_diffusion(model):
        raise ModelLoadFailed(f"{plan.name} does not generate text token by token: choose another model")
    kind = MemoryKind(
        recurrent=bool(C.llama_model_is_recurrent(model) or C.llama_model_is_hybrid(model)),
        window=int(C.llama_model_n_swa(model)),
        full_window=plan.full_window,
    )
    context = C.llama_init_from_model(model, _context_params(plan, abort, kind))
    if not context:
        raise ModelLoadFailed(
            f"llama.cpp could not make a context of {plan.context_size} tokens for {plan.name}:\n{log.tail()}",
            path=str(plan.header.path),
        )
    vocabulary = Vocabulary(C.llama_model_get_vocab(model), _template(model) or "")
    memory = Memory(context, kind, plan.context_size, plan.batch_size, log.tail)
    return Loaded(model, context, vocabulary, memory, _info(plan, model, vocabulary, kind))


def _model_params(plan: Plan, callback: Any) -> Any:
    params = C.llama_model_default_params()
    params.n_gpu_layers = plan.gpu_layers
    if plan.split_mode is not None:
        params.split_mode = _SPLIT_MODES[plan.split_mode]
    params.progress_callback = callback
    return params


def _context_params(plan: Plan, abort: llama.AbortFlag, kind: MemoryKind) -> Any:
    params = C.llama_context_default_params()
    params.n_ctx = plan.context_size
    params.n_batch = plan.batch_size
    params.n_ubatch = plan.ubatch_size
    params.n_seq_max = 1
    params.n_outputs_max = 1
    params.n_threads = params.n_threads_batch = plan.threads
    params.flash_attn_type = plan.flash_attention
    params.type_k = params.type_v = _TYPES[plan.kv_type]
    params.swa_full = plan.full_window
    params.no_perf = True
    params.offload_kqv = params.op_offload = plan.gpu
    if not kind.recurrent:
        params.abort_callback = abort.callback
        params.abort_callback_data = abort.data
    return params


def _template(model: Any) -> str | None:
    template = C.llama_model_chat_template(model, None)
    return template.decode("utf-8", "replace") if template else None


def _info(plan: Plan, model: Any, vocabulary: Vocabulary, kind: MemoryKind) -> dict[str, Any]:
    devices = [d.name for d in plan.devices if d.offloads] if plan.gpu else []
    return {
        "path": str(plan.header.path),
        "name": plan.name,
        "architecture": plan.header.architecture,
        "size": plan.header.size,
        "context_size": plan.context_size,
        "trained_context": plan.header.trained_context or int(C.llama_model_n_ctx_train(model)),
        "vocabulary_size": vocabulary.size,
        "chat_template": _template(model),
        "bos": vocabulary.bos,
        "eos": vocabulary.eos,
        "add_bos": vocabulary.add_bos,
        "end_ids": sorted(vocabulary.end_ids),
        "fingerprint": plan.fingerprint,
        "gpu": plan.gpu,
        "devices": devices or [d.name for d in plan.devices if d.kind == "cpu"],
        "truncatable": kind.truncatable,
        "batch_size": plan.batch_size,
        "recommended": [asdict(advice) for advice in plan.recommended],
    }
