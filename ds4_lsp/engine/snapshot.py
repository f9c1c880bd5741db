"""KV snapshots on disk. A bad file can crash llama.cpp, and it does not notice a flipped byte: all is checked first.

Layout: ``MAGIC``, the header's length (4 bytes, little-endian), a JSON header, the tokens (int32), the state.
The header has the fingerprint, the number of tokens, the bytes of the state and a CRC-32 over tokens and state.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import tempfile
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ds4_lsp.engine.frames import decode_tokens

MAGIC = b"DS4KV\x001\n"
_LENGTH = struct.Struct("<I")
_MAX_HEADER = 64 * 1024


@dataclass(frozen=True)
class Snapshot:
    """``state``: a ctypes byte array of ``size`` bytes, as llama.cpp gave it."""

    fingerprint: str
    tokens: array[int]
    state: Any
    size: int


def write(path: Path, snapshot: Snapshot) -> None:
    """To a temporary file beside ``path``, fsynced and renamed, readable by its owner only; that folder is
    created, its parent is not. Raises ``OSError``."""
    view = memoryview(snapshot.state).cast("B")[: snapshot.size]
    header = json.dumps(
        {
            "fingerprint": snapshot.fingerprint,
            "tokens": len(snapshot.tokens),
            "size": snapshot.size,
            "crc": zlib.crc32(view, zlib.crc32(snapshot.tokens)),
        }
    ).encode()
    # Not its parents: the session may have been deleted meanwhile.
    path.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(MAGIC + _LENGTH.pack(len(header)) + header)
            file.write(snapshot.tokens)
            file.write(view)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        _sync_directory(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Unusable(Exception):
    """Why a snapshot is not used."""


def read(path: Path, fingerprint: str, tokens: array[int]) -> Snapshot | str:
    """The snapshot, if it is whole and holds exactly ``tokens`` for that fingerprint; else why it is not used."""
    try:
        with path.open("rb") as file:
            header = _read_header(file, fingerprint)
            held = decode_tokens(file.read(4 * header["tokens"]))
            if held != tokens:
                raise _Unusable("it holds another transcript")
            state = (ctypes.c_uint8 * header["size"])()
            file.readinto(state)
    except _Unusable as error:
        return str(error)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        return f"it cannot be read: {error}"
    if zlib.crc32(memoryview(state).cast("B"), zlib.crc32(held)) != header["crc"]:
        return "its checksum does not match"
    return Snapshot(fingerprint, held, state, header["size"])


def inspect(path: Path) -> tuple[str, array[int]] | str:
    """Fingerprint and tokens of a whole snapshot, whatever model it is of; else why it cannot be used. Memory: its
    tokens."""
    try:
        with path.open("rb") as file:
            header = _read_header(file, None)
            held = decode_tokens(file.read(4 * header["tokens"]))
            crc = zlib.crc32(held)
            while chunk := file.read(1 << 20):
                crc = zlib.crc32(chunk, crc)
    except _Unusable as error:
        return str(error)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        return f"it cannot be read: {error}"
    return (str(header["fingerprint"]), held) if crc == header["crc"] else "its checksum does not match"


def _read_header(file: BinaryIO, fingerprint: str | None) -> dict[str, Any]:
    """The header of a snapshot whose size is as it says, of that model unless None."""
    if file.read(len(MAGIC)) != MAGIC:
        raise _Unusable("it is no snapshot")
    (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
    if length > _MAX_HEADER:
        raise _Unusable("its header is damaged")
    header: dict[str, Any] = json.loads(file.read(length))
    if fingerprint not in (None, header["fingerprint"]):
        raise _Unusable("it is of another model, build or setting")
    rest = os.fstat(file.fileno()).st_size - file.tell()
    if header["size"] <= 0 or header["tokens"] < 0 or rest != 4 * header["tokens"] + header["size"]:
        raise _Unusable("it is truncated")
    return header
