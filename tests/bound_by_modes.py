"""Run as a program in front of another one: modes bind that one, though it may run as the superuser.

``python bound_by_modes.py PROGRAM ARGUMENT…`` gives up the superuser's right to pass by the modes of files, for good,
and becomes the program. Anybody else has no such right, and nothing is done.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2

if os.geteuid() == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the superuser's rights cannot be given up")
os.execv(sys.argv[1], sys.argv[1:])
