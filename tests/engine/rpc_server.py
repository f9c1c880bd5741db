"""llama.cpp's RPC server on this machine's CPU, as ``rpc-server`` is: ``python rpc_server.py HOST:PORT``."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import llama_cpp
import llama_cpp.llama_cpp as C

library = next((Path(llama_cpp.__file__).parent / "lib").glob("libggml-rpc.*"))
start = ctypes.CDLL(str(library)).ggml_backend_rpc_start_server
start.restype = None
start.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
device = C._lib.ggml_backend_dev_get
device.restype = ctypes.c_void_p
device.argtypes = [ctypes.c_size_t]
start(sys.argv[1].encode(), None, 2, 1, (ctypes.c_void_p * 1)(device(0)))
