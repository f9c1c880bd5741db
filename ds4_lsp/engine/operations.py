"""What the engine process does on its main thread, one request after the other: load, sync, generate, save, restore."""

from __future__ import annotations

import sys
import threading
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ds4_lsp.engine import llama, snapshot
from ds4_lsp.engine.fault import faults
from ds4_lsp.engine.frames import fingerprint
from ds4_lsp.engine.loading import Loaded, load
from ds4_lsp.engine.plan import plan
from ds4_lsp.engine.reply import Reply
from ds4_lsp.engine.request import Request as ReplyRequest
from ds4_lsp.protocol.errors import ContextTooSmall, InvalidRequest, NoModel, StorageFailed

if TYPE_CHECKING:
    from ds4_lsp.engine.process import Request


class Send(Protocol):
    def __call__(
        self, request: Request, event: str, fields: dict[str, Any], tokens: array[int] | None = None
    ) -> None: ...


class Operations:
    """Owns the model. ``abort`` stops a running ``llama_decode``; the reader thread sets it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.abort = llama.AbortFlag()
        self._log = llama.Log()
        self._log.expected = lambda: self.abort.is_set
        self.loaded: Loaded | None = None
        self._run = {
            "load": self._load,
            "sync": self._sync,
            "generate": self._generate,
            "save": self._save,
            "restore": self._restore,
            "kv": self._kv,
        }

    def run(self, request: Request) -> None:
        """Raises ``Ds4Error``; everything else is answered through ``send``."""
        operation = self._run.get(request.kind)
        if operation is None:
            raise InvalidRequest(f"the engine knows no operation {request.kind!r}")
        operation(request)

    def kv(self) -> list[int] | None:
        """[length, CRC-32] of what the KV holds; None without a model."""
        return fingerprint(self.loaded.memory.tokens) if self.loaded is not None else None

    def _model(self) -> Loaded:
        if self.loaded is None:
            raise NoModel("no model is loaded")
        return self.loaded

    def _result(self, request: Request, tokens: array[int] | None = None, **fields: Any) -> None:
        self._send(request, "result", fields | {"kv": self.kv()}, tokens)

    # --- load -----------------------------------------------------------------------------------------------------

    def _load(self, request: Request) -> None:
        if self.loaded is not None:
            raise InvalidRequest("a model is loaded: each gets a process of its own")
        fields = request.fields
        planned = plan(fields["settings"], context_is_default=fields["contextIsDefault"], full_window=fields["swaFull"])
        self._send(request, "planned", {"plan": planned.described()})

        def progress(done: int, total: int) -> None:
            self._send(request, "progress", {"done": done, "total": total})

        self.loaded = load(planned, self._log, self.abort, request.cancelled, progress)
        self._result(request, info=self.loaded.info, notes=planned.notes)

    # --- evaluate -------------------------------------------------------------------------------------------------

    def _sync(self, request: Request) -> None:
        synced = self._evaluate(request, logits=False)
        self._result(request, synced=synced)

    def _evaluate(self, request: Request, *, logits: bool) -> dict[str, Any]:
        """Make the KV hold ``keep`` tokens of what it has, and then the request's."""
        memory = self._model().memory
        keep: int = request.fields["keep"]
        if request.fields["base"] != self.kv() or not 0 <= keep <= len(memory.tokens):
            raise InvalidRequest("the client's mirror of the KV is wrong", reason="mirror")
        total = keep + len(request.tokens)
        if total > memory.size:
            raise ContextTooSmall(
                f"{total} tokens do not fit the context of {memory.size}", needed=total, size=memory.size
            )
        begun = time.monotonic()
        wanted = memory.tokens[:keep] + request.tokens
        kept = memory.truncate(min(keep, total - 1) if logits else keep)
        suffix = wanted[kept:]

        def progress(done: int) -> None:
            self._send(request, "progress", {"done": done, "total": len(suffix), "kv": kept + done})

        if suffix:
            progress(0)
        batches = memory.evaluate(suffix, logits=logits, cancel=request.cancelled, on_batch=progress)
        done = sum(count for _, count in batches)
        return {
            "evaluated": done,
            "cached": kept,
            "seconds": time.monotonic() - begun,
            "batches": batches,
            "cancelled": done < len(suffix),
        }

    def _generate(self, request: Request) -> None:
        loaded = self._model()
        reply_request = ReplyRequest(loaded.vocabulary, request.fields["request"])
        if not request.fields["keep"] + len(request.tokens):
            raise InvalidRequest("a reply needs at least one token before it")
        synced = self._evaluate(request, logits=True)
        generated: dict[str, Any] = {"reason": "cancelled", "stopName": None, "count": 0, "seconds": 0.0}
        if not synced["cancelled"]:
            begun = time.monotonic()

            def emit(tokens: array[int], text: str) -> None:
                self._send(request, "tokens", {"text": text, "kv": len(loaded.memory.tokens)}, tokens)

            ending = Reply(loaded, reply_request, request.cancelled, emit, self._note).run()
            generated = {
                "reason": ending.reason,
                "stopName": ending.stop_name,
                "count": ending.count,
                "seconds": time.monotonic() - begun,
            }
        self._result(request, generated=generated, synced=synced)

    @staticmethod
    def _note(text: str) -> None:
        sys.stderr.write(f"W|{text}\n")
        sys.stderr.flush()

    # --- snapshots ------------------------------------------------------------------------------------------------

    def _save(self, request: Request) -> None:
        loaded = self._model()
        held = snapshot.Snapshot(
            loaded.info["fingerprint"], array("i", loaded.memory.tokens), state := loaded.memory.state(), len(state)
        )
        # The copy is made: writing it does not need the model.
        self._send(request, "released", {"kv": self.kv()})

        def write() -> None:
            try:
                faults.hit("save")
                snapshot.write(Path(request.fields["path"]), held)
            except OSError as error:
                message = f"the KV snapshot could not be written to {request.fields['path']}: {error.strerror}"
                self._send(request, "error", {"code": StorageFailed.code, "message": message, "data": {}})
            else:
                self._send(request, "result", {}, held.tokens)

        threading.Thread(target=write, name="snapshot", daemon=True).start()

    def _restore(self, request: Request) -> None:
        loaded = self._model()
        found = snapshot.read(Path(request.fields["path"]), loaded.info["fingerprint"], request.tokens)
        faults.hit("restore")
        if isinstance(found, str):
            loaded.memory.clear()
            self._log_miss(request, found)
            self._result(request, restored=False)
            return
        restored = loaded.memory.set_state(found.state, found.size, found.tokens)
        if not restored:
            self._log_miss(request, "llama.cpp did not take it")
        self._result(request, restored=restored)

    def _log_miss(self, request: Request, why: str) -> None:
        self._note(f"the KV snapshot {request.fields['path']} is not used: {why}")

    def _kv(self, request: Request) -> None:
        self._result(request, self._model().memory.tokens)
