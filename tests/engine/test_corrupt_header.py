"""A damaged header is one clear refusal, soon, whatever the damaged number is."""

from __future__ import annotations

import os
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from ds4_lsp.engine.gguf_header import MAX_HEADER, read_header
from ds4_lsp.engine.plan import plan
from ds4_lsp.engine.requirements import estimate
from ds4_lsp.protocol.errors import ModelLoadFailed
from ds4_lsp.protocol.settings import ModelSettings

GOOD: dict[str, Any] = {
    "context_length": 4096,
    "block_count": 2,
    "embedding_length": 64,
    "attention.head_count": 4,
    "attention.head_count_kv": [2, 4],
    "attention.key_length": 16,
    "attention.value_length": 16,
}


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(given: Any) -> tuple[int, bytes]:
    """The type and the bytes of a metadata value."""
    match given:
        case bool():
            return 7, struct.pack("<?", given)
        case int():
            return 11, struct.pack("<q", given)
        case float():
            return 12, struct.pack("<d", given)
        case str():
            return 8, string(given)
        case list():
            parts = [value(item) for item in given]
            kind = parts[0][0] if parts else 4
            return 9, struct.pack("<IQ", kind, len(given)) + b"".join(data for _, data in parts)
    raise AssertionError(given)


def header(path: Path, metadata: dict[str, Any]) -> Path:
    """A GGUF file that is a header without tensors."""
    pairs = {f"llama.{key}": item for key, item in metadata.items()} | {"general.architecture": "llama"}
    encoded = b""
    for key, item in pairs.items():
        kind, data = value(item)
        encoded += string(key) + struct.pack("<I", kind) + data
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + encoded)
    return path


def planned(path: Path) -> None:
    settings = ModelSettings(path=str(path), context_size=1024)
    plan(settings.model_dump(by_alias=True), context_is_default=False, full_window=True)


def test_a_good_header_is_read_with_its_numbers_per_layer(tmp_path: Path) -> None:
    found = read_header(header(tmp_path / "good.gguf", GOOD))
    assert found.trained_context == 4096
    assert estimate(found, 1024, "f16", 512, flash_attention=True).kv == (2 + 4) * (16 + 16) * 1024 * 2
    planned(found.path)


@pytest.mark.parametrize("key", GOOD)
@pytest.mark.parametrize("damaged", ["abc", -5, 2**31, 2**62, 1.5, True, [-1], ["abc"], [2.5], [2**40]], ids=repr)
def test_a_number_that_no_model_has_is_a_corrupt_file_named_with_the_number(
    tmp_path: Path, key: str, damaged: Any
) -> None:
    path = header(tmp_path / "damaged.gguf", {**GOOD, key: damaged})
    with pytest.raises(ModelLoadFailed, match=rf"damaged\.gguf is corrupt.*llama\.{key}"):
        planned(path)


@pytest.mark.parametrize("key", ["context_length", "block_count", "embedding_length"])
def test_a_list_where_one_number_belongs_is_a_corrupt_file(tmp_path: Path, key: str) -> None:
    with pytest.raises(ModelLoadFailed, match="corrupt"):
        planned(header(tmp_path / "list.gguf", {**GOOD, key: [1, 2]}))


def test_an_architecture_that_is_no_text_is_a_corrupt_file(tmp_path: Path) -> None:
    kind, data = value(7)
    pair = string("general.architecture") + struct.pack("<I", kind) + data
    path = tmp_path / "number.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair)
    with pytest.raises(ModelLoadFailed, match="corrupt"):
        read_header(path)


def test_a_header_that_claims_endless_lists_is_refused_without_reading_them(tmp_path: Path) -> None:
    """The files are sparse: what they claim to hold is zeros, as after a download that reserved its room."""
    for name, count, kind in (("strings", 2**62, 8), ("many", 2**24, 8), ("bytes", MAX_HEADER + 1, 0)):
        path = tmp_path / f"{name}.gguf"
        pair = string("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, kind, count)
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair)
        os.truncate(path, 2**31)
        with pytest.raises(ModelLoadFailed, match="corrupt"):
            read_header(path)


def test_lists_within_lists_are_refused_before_they_are_built(tmp_path: Path) -> None:
    path = tmp_path / "nested.gguf"
    pair = string("x") + struct.pack("<IIQ", 9, 9, 4) + struct.pack("<IQ", 4, 0) * 4
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair)
    with pytest.raises(ModelLoadFailed, match="corrupt"):
        read_header(path)


def collect(path: Path, outcome: list[Exception]) -> None:
    try:
        read_header(path)
    except Exception as error:
        outcome.append(error)


def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    part = header(tmp_path / "part-00001-of-00002.gguf", GOOD)
    os.mkfifo(tmp_path / "part-00002-of-00002.gguf")
    for path in (pipe, part, Path("/dev/null"), tmp_path):
        outcome: list[Exception] = []
        # A daemon: where it waits for the pipe's other end, it must not keep the tests waiting.
        thread = threading.Thread(target=collect, args=(path, outcome), daemon=True)
        thread.start()
        thread.join(10)
        assert [type(error) for error in outcome] == [ModelLoadFailed], path
        assert "folder" in str(outcome[0]) if path == tmp_path else "regular file" in str(outcome[0])


@pytest.mark.parametrize("name", ["a\0b.gguf", "\ud800.gguf"])
def test_a_path_that_no_file_can_have_is_not_called_a_corrupt_file(name: str) -> None:
    with pytest.raises(ModelLoadFailed, match=r"model\.path") as caught:
        read_header(Path(f"/{name}"))
    assert "corrupt" not in str(caught.value)
