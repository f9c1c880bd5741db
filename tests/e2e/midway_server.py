"""Run as a program in place of ``python -m ds4_lsp``: the same server, killed in the middle of a prefill or a reply.

``MIDWAY`` is ``prefill:N`` or ``decoding:N``: at the N-th report of that kind which a prompt's engine work gives the
process gets SIGKILL. While the file ``MIDWAY_ARMED`` does not exist nothing happens.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ds4_lsp.engine.client import EngineClient
from ds4_lsp.ports import Cancel, Generated, GenerateRequest, OnProgress, OnTokens
from ds4_lsp.server.run import main

phase, _, number = os.environ["MIDWAY"].partition(":")
armed = Path(os.environ["MIDWAY_ARMED"])
left = iter(range(int(number) - 1, -1, -1))
generate = EngineClient.generate


def pass_by(name: str) -> None:
    if name == phase and armed.exists() and next(left) == 0:
        os.kill(os.getpid(), signal.SIGKILL)


async def generate_and_die(
    engine: EngineClient, request: GenerateRequest, *, on_progress: OnProgress, on_tokens: OnTokens, cancel: Cancel
) -> Generated:
    def progressed(done: int, total: int) -> None:
        on_progress(done, total)
        if done < total:
            pass_by("prefill")

    def heard(ids: Sequence[int], text: str) -> Any:
        on_tokens(ids, text)
        pass_by("decoding")

    return await generate(engine, request, on_progress=progressed, on_tokens=heard, cancel=cancel)


EngineClient.generate = generate_and_die  # type: ignore[method-assign]
sys.exit(main())
