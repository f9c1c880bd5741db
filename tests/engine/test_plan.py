"""What is refused before llama.cpp is asked, and how."""

from __future__ import annotations

import mmap
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ds4_lsp.engine.gguf_header import Reader, read_header
from ds4_lsp.engine.llama import Device
from ds4_lsp.engine.plan import Plan, plan
from ds4_lsp.engine.requirements import Need, estimate, in_words, shortage
from ds4_lsp.protocol.errors import ModelLoadFailed, NoModel
from ds4_lsp.protocol.settings import ModelSettings

GIB = 2**30


def planned(path: Path | None, *, default: bool = False, full_window: bool = True, **settings: Any) -> Plan:
    model = ModelSettings(path=str(path) if path else None, **({"context_size": 1024} | settings))
    return plan(model.model_dump(by_alias=True), context_is_default=default, full_window=full_window)


def test_a_missing_a_foreign_a_truncated_and_a_corrupt_file_each_have_their_message(
    tiny_model: Path, tmp_path: Path
) -> None:
    data = tiny_model.read_bytes()[:5000]
    (tmp_path / "foreign.gguf").write_bytes(b"PK\x03\x04 no model")
    (tmp_path / "head.gguf").write_bytes(data[:1000])
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "counts.gguf").write_bytes(data[:8] + b"\xff" * 16 + data[24:])
    (tmp_path / "version.gguf").write_bytes(data[:4] + b"\x09" + data[5:])
    (tmp_path / "part-00001-of-00002.gguf").write_bytes(tiny_model.read_bytes())
    for name, message in (
        ("missing.gguf", "no model file at"),
        ("foreign.gguf", "not a GGUF model"),
        ("head.gguf", "corrupt or incomplete"),
        ("empty.gguf", "not a GGUF model"),
        ("counts.gguf", "corrupt or incomplete"),
        ("version.gguf", "version 9"),
        ("part-00001-of-00002.gguf", "part-00002-of-00002.gguf"),
        (".", "is a folder"),
    ):
        with pytest.raises(ModelLoadFailed, match=message):
            planned(tmp_path / name)
    with pytest.raises(NoModel):
        planned(None)


def test_any_prefix_of_a_header_is_a_clear_refusal(tiny_model: Path, tmp_path: Path) -> None:
    data = tiny_model.read_bytes()
    with tiny_model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        _, end = Reader(mapped).read()
    path = tmp_path / "cut.gguf"
    for length in (*range(0, 400, 7), *range(400, end, 250_000), end - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ModelLoadFailed):
            read_header(path)
    path.write_bytes(data[:end])
    assert read_header(path).value("block_count") == 2


def test_a_context_above_the_trained_one_is_refused_with_both_numbers_or_clamped_by_default(tiny_model: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"9999.*4096") as caught:
        planned(tiny_model, context_size=9999)
    assert caught.value.data == {"contextSize": 9999, "trainedContext": 4096}
    assert planned(tiny_model, context_size=9999, default=True).context_size == 4096


def test_more_memory_than_there_is_is_refused_with_both_numbers(
    tiny: ModuleType, small_model: Path, tmp_path: Path
) -> None:
    path = tiny.llama(tmp_path / "huge.gguf", small_model, trained=2**30)
    with pytest.raises(ModelLoadFailed, match=r"needs about .* is free") as caught:
        planned(path, context_size=2**30)
    assert caught.value.data["needed"] > caught.value.data["available"] > 0


def test_a_quantised_kv_turns_flash_attention_on_or_is_refused(tiny_model: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="flash attention"):
        planned(tiny_model, kv_cache_type="q8_0", flash_attention="off")
    forced = planned(tiny_model, kv_cache_type="q8_0")
    assert forced.flash_attention == 1
    assert planned(tiny_model).flash_attention == (-1 if forced.gpu else 0)


def test_a_split_mode_is_passed_on_and_left_to_llama_cpp_where_none_is_set(tiny_model: Path) -> None:
    assert {mode: planned(tiny_model, split_mode=mode).split_mode for mode in ("none", "layer", "row")} == {
        mode: mode for mode in ("none", "layer", "row")
    }
    assert planned(tiny_model).split_mode is None


def test_rpc_servers_without_rpc_in_the_build_or_without_a_server_are_refused(tiny_model: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"GGML_RPC|cannot be reached"):
        planned(tiny_model, rpc_servers=["127.0.0.1:1"])


def test_the_fingerprint_changes_with_file_context_kv_type_and_window(tiny_model: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copyfile(tiny_model, tmp_path / "copy.gguf"))
    plans = [
        planned(tiny_model),
        planned(tiny_model, context_size=512),
        planned(tiny_model, kv_cache_type="f32"),
        planned(tiny_model, full_window=False),
        planned(copy),
    ]
    assert len({p.fingerprint for p in plans}) == len(plans)
    assert planned(tiny_model, threads=1, batch_size=8).fingerprint == plans[0].fingerprint


def test_the_header_says_what_the_model_is(small_model: Path) -> None:
    header = read_header(small_model)
    assert (header.architecture, header.trained_context) == ("llama", 8192)
    assert header.size == small_model.stat().st_size
    assert header.metadata["tokenizer.ggml.tokens"] is None


def test_the_estimate_of_the_kv_is_llama_cpp_s_own(small_model: Path) -> None:
    """22.5 KiB a token at f16."""
    need = estimate(read_header(small_model), 8192, "f16", 512, flash_attention=True)
    assert need.kv == 8192 * 23040
    assert estimate(read_header(small_model), 8192, "q8_0", 512, True).kv == need.kv * 34 // 64
    assert estimate(read_header(small_model), 8192, "f16", 512, False).compute > need.compute


def test_a_shortage_names_the_place() -> None:
    need = Need(10 * GIB, 2 * GIB, GIB)
    gpu = Device("CUDA0", "", "gpu", 12 * GIB, 24 * GIB)
    cpu = Device("CPU", "", "cpu", 0, 0)
    assert shortage(need, 30, -1, [cpu], 14 * GIB) is None
    short = shortage(need, 30, -1, [cpu], 12 * GIB)
    assert short is not None
    assert (short.where, short.needed, short.available) == ("memory", 13 * GIB, 12 * GIB)
    short = shortage(need, 30, -1, [cpu, gpu], 100 * GIB)
    assert short is not None
    assert short.where == "CUDA0"
    assert shortage(need, 30, 20, [cpu, gpu], 100 * GIB) is None
    assert shortage(need, 30, 0, [cpu, gpu], 14 * GIB) is None
    assert in_words(3 * GIB // 2) == "1.5 GiB"
