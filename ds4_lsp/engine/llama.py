"""llama.cpp's C interface as the engine uses it: log, devices, the abort flag."""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import llama_cpp
import llama_cpp.llama_cpp as C

LOG_LINES = 40
"""Lines of llama.cpp's log kept for error messages."""


def _install(flag: str) -> str:
    return (
        f'`CMAKE_ARGS="{flag}" make install` in a checkout, else '
        f'`CMAKE_ARGS="{flag}" pip install --force-reinstall --no-cache-dir llama-cpp-python`'
    )


INSTALL_GPU = _install("-DGGML_CUDA=on") + " (-DGGML_METAL=on, -DGGML_VULKAN=on or -DGGML_HIP=on for other GPUs)"
INSTALL_RPC = _install("-DGGML_RPC=on")

_DEVICE_KINDS = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accelerator", 4: "meta"}


def _backend(name: str, result: Any, *arguments: Any) -> Any:
    """A function of ggml's backend registry, which the wrapper does not declare."""
    function = getattr(C._lib, name)
    function.argtypes = arguments
    function.restype = result
    return function


_P = ctypes.c_void_p
_SIZE_P = ctypes.POINTER(ctypes.c_size_t)
_dev_count = _backend("ggml_backend_dev_count", ctypes.c_size_t)
_dev_get = _backend("ggml_backend_dev_get", _P, ctypes.c_size_t)
_dev_name = _backend("ggml_backend_dev_name", ctypes.c_char_p, _P)
_dev_description = _backend("ggml_backend_dev_description", ctypes.c_char_p, _P)
_dev_type = _backend("ggml_backend_dev_type", ctypes.c_int, _P)
_dev_memory = _backend("ggml_backend_dev_memory", None, _P, _SIZE_P, _SIZE_P)
_reg_count = _backend("ggml_backend_reg_count", ctypes.c_size_t)
_reg_get = _backend("ggml_backend_reg_get", _P, ctypes.c_size_t)
_reg_name = _backend("ggml_backend_reg_name", ctypes.c_char_p, _P)
_reg_by_name = _backend("ggml_backend_reg_by_name", _P, ctypes.c_char_p)
_reg_proc = _backend("ggml_backend_reg_get_proc_address", _P, _P, ctypes.c_char_p)
_register = _backend("ggml_backend_register", None, _P)


_LEVEL_LETTERS = {1: "D", 2: "I", 3: "W", 4: "E"}
_CONTINUED = 5
"""The level of text that goes on with the line before."""


class Log:
    """Takes llama.cpp's log: to stderr, each line after its level, the last ones kept."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LOG_LINES)
        self._partial = ""
        self._level = 2
        self.expected: Callable[[], bool] = lambda: False
        """Whether a failure is one that was asked for: llama.cpp calls an aborted batch an error."""
        # llama.cpp keeps the bare pointer: the object has to live as long as the process.
        self._callback = C.llama_log_callback(self._write)
        C.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _write(self, level: int, text: bytes, _data: object) -> None:
        if level != _CONTINUED:
            self._level = level
        lines = (self._partial + text.decode("utf-8", "replace")).split("\n")
        self._partial = lines.pop()
        for line in lines:
            if line.strip(" ."):
                self.lines.append(line)
                letter = _LEVEL_LETTERS.get(self._level, "I")
                sys.stderr.write(f"{'I' if letter in 'WE' and self.expected() else letter}|{line}\n")
        sys.stderr.flush()

    def tail(self, count: int = 5) -> str:
        """The last lines, joined, for a message."""
        return "\n".join(list(self.lines)[-count:])


class AbortFlag:
    """Stops ``llama_decode`` from another thread without a call into Python.

    llama.cpp asks ``bool callback(void *)`` before every node of the graph; a Python function there costs a tenth of a
    small model's speed. libc's ``strlen`` fits the signature and answers 0 until the first byte is set.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(64)
        libc = ctypes.CDLL(None)
        self.callback = ctypes.cast(libc.strlen, C.ggml_abort_callback)
        self.data = ctypes.cast(self._text, ctypes.c_void_p)

    def set(self) -> None:
        self._text[0] = b"\x01"

    def clear(self) -> None:
        self._text[0] = b"\x00"

    @property
    def is_set(self) -> bool:
        return bool(self._text.raw[0])


@dataclass(frozen=True)
class Device:
    """A compute device. Memory in bytes; ``kind``: ``cpu``, ``gpu``, ``igpu``, ``accelerator``, ``meta``."""

    name: str
    description: str
    kind: str
    free: int
    total: int

    @property
    def offloads(self) -> bool:
        return self.kind in ("gpu", "igpu")


def devices() -> list[Device]:
    """Every device that ggml's backends offer."""
    found = []
    for index in range(_dev_count()):
        handle = _dev_get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _dev_memory(handle, ctypes.byref(free), ctypes.byref(total))
        found.append(
            Device(
                name=(_dev_name(handle) or b"").decode("utf-8", "replace"),
                description=(_dev_description(handle) or b"").decode("utf-8", "replace"),
                kind=_DEVICE_KINDS.get(_dev_type(handle), "unknown"),
                free=free.value,
                total=total.value,
            )
        )
    return found


def build() -> str:
    """Identifies the build of llama.cpp: a snapshot of another one is not read."""
    return f"{llama_cpp.__version__}/{C.llama_version().decode()}"


def supports_rpc() -> bool:
    return _reg_by_name(b"RPC") is not None


def supports_gpu() -> bool:
    """Whether the build has a GPU's backend. llama.cpp's own answer counts RPC as one."""
    names = {_reg_name(_reg_get(index)) for index in range(_reg_count())}
    return bool(names - {b"CPU", b"RPC", b"BLAS"})


def add_rpc_server(endpoint: str) -> bool:
    """Register the devices of an RPC server; False when it does not answer."""
    address = _reg_proc(_reg_by_name(b"RPC"), b"ggml_backend_rpc_add_server")
    if not address:
        return False
    add = ctypes.CFUNCTYPE(_P, ctypes.c_char_p)(address)
    registry = add(endpoint.encode())
    if not registry:
        return False
    _register(registry)
    return True


def describe() -> dict[str, Any]:
    """What the installed llama.cpp is and can do; for ``ds4-lsp doctor``."""
    C.llama_backend_init()
    return {
        "binding": llama_cpp.__version__,
        "version": C.llama_version().decode(),
        "system": C.llama_print_system_info().decode("utf-8", "replace"),
        "gpuOffload": supports_gpu(),
        "rpc": supports_rpc(),
        "devices": [asdict(device) for device in devices()],
    }
