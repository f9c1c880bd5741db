"""The engine as the agent sees it: ``EngineClient`` implements ``ports.Engine`` over the engine process."""

from __future__ import annotations

import asyncio
import logging
import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ds4_lsp.engine import build
from ds4_lsp.engine.death import Planned, file_state
from ds4_lsp.engine.exchange import Exchange, Operation
from ds4_lsp.engine.frames import common_prefix, fingerprint, tokens_array
from ds4_lsp.engine.paths import absolute, model_file
from ds4_lsp.ports import (
    Cancel,
    EngineStatus,
    Generated,
    GenerateRequest,
    ModelInfo,
    OnProgress,
    OnTokens,
    Segment,
    Synced,
)
from ds4_lsp.protocol.errors import Cancelled, Ds4Error, EngineDied, ModelLoadFailed, NoModel
from ds4_lsp.protocol.recommended import Advice
from ds4_lsp.protocol.settings import ModelSettings

log = logging.getLogger("ds4_lsp.engine")


class EngineClient:
    """See ``ports.Engine``. All methods belong to one event loop.

    ``swa_full=False`` lets sliding-window layers forget (less memory, no free truncation). ``notes``: what the user
    should know about the loaded model's settings.
    """

    def __init__(self, *, swa_full: bool = True) -> None:
        self._swa_full = swa_full
        self._exchange = Exchange()
        self._info: ModelInfo | None = None
        self.notes: tuple[str, ...] = ()
        self._said: set[str] = set()

    @property
    def info(self) -> ModelInfo | None:
        return self._info if self._exchange.ready else None

    @property
    def status(self) -> EngineStatus:
        return EngineStatus(kv_tokens=self._exchange.held, pid=self._exchange.pid)

    @property
    def kv(self) -> Sequence[int]:
        return self._exchange.kv

    @property
    def planned(self) -> Planned | None:
        """What is loaded, as it was planned; for ``ds4-lsp doctor``."""
        return self._exchange.planned

    # --- the model ------------------------------------------------------------------------------------------------

    async def load(
        self,
        settings: ModelSettings,
        *,
        context_is_default: bool,
        on_progress: OnProgress,
        cancel: Cancel,
        by_itself: bool = False,
    ) -> ModelInfo:
        if settings.path is None:
            raise NoModel("no model is configured: set model.path, or fetch one with `ds4-lsp model fetch`")
        exchange = self._exchange
        operation = exchange.begin("load", needs_model=False)
        try:
            operation.on_progress = on_progress
            fields = {
                "settings": settings.model_dump(by_alias=True) | {"path": str(model_file(Path(settings.path)))},
                "contextIsDefault": context_is_default,
                "swaFull": self._swa_full,
            }
            stops = exchange.stops
            await self._may_start(fields, by_itself)
            if cancel.is_set:
                raise Cancelled("loading the model was cancelled")
            # Each model gets a process of its own: nothing of the former one, memory or GPU state, can linger.
            await exchange.start(stops)
            result, _ = await exchange.run(operation, fields, array("i"), cancel)
            info = self._info = _model_info(result["info"])
            exchange.ready = True
        except Ds4Error as error:
            await exchange.stop()
            if cancel.is_set and not isinstance(error, Cancelled):
                raise Cancelled("loading the model was cancelled") from error
            raise
        except BaseException:
            exchange.kill()
            raise
        finally:
            exchange.release(operation)
        self.notes = tuple(result["notes"])
        for note in self.notes:
            if note not in self._said:
                self._said.add(note)
                log.warning("%s", note)
        return info

    async def _may_start(self, fields: dict[str, Any], by_itself: bool) -> None:
        """Refuse what is known to die. Raises ``ModelLoadFailed`` and ``EngineDied``."""
        path = fields["settings"]["path"]
        # A build or a file that was mended is worth another try.
        files = [str(Path(sys.prefix) / build.RECORD), path]
        evidence = fields, [await asyncio.to_thread(file_state, file) for file in files]
        if by_itself and (refusal := self._exchange.deaths.refusal(evidence)) is not None:
            raise EngineDied(refusal)
        self._exchange.evidence = evidence
        unfit = await asyncio.to_thread(build.unfit)
        if unfit is not None:
            raise ModelLoadFailed(unfit)

    async def unload(self) -> None:
        """Free the model's memory. Raises ``Busy`` while an operation runs."""
        operation = self._exchange.begin("unload", needs_model=False)
        try:
            await self._exchange.stop()
        finally:
            self._exchange.release(operation)

    async def close(self) -> None:
        """End the process, whatever it does; what waits for it gets ``EngineDied``."""
        await self._exchange.stop()

    # --- what the agent asks --------------------------------------------------------------------------------------

    async def tokenize(self, segments: Sequence[Segment]) -> list[int]:
        texts = [[segment.text, segment.special] for segment in segments]
        _, tokens = await self._exchange.ask("tokenize", segments=texts)
        return tokens.tolist()

    async def sync(self, tokens: Sequence[int], *, on_progress: OnProgress, cancel: Cancel) -> Synced:
        operation = self._exchange.begin("sync")
        operation.on_progress = on_progress
        result = await self._evaluate(operation, tokens, {}, cancel)
        return _synced(result["synced"])

    async def generate(
        self, request: GenerateRequest, *, on_progress: OnProgress, on_tokens: OnTokens, cancel: Cancel
    ) -> Generated:
        """See ``ports.Engine.generate``.

        A stop rule's match that is not kept is absent from ``text``, while ``tokens`` has every sampled token,
        those of the match included. With a kept match ``text`` is that of ``tokens``, even where the last one reaches
        beyond the match. A rule's pattern sees the text that there is: an assertion about what follows decides at
        once. A stop text that is no single token of the model is watched for as text outside the quiet span.
        The grammar does not bind forced tokens.
        """
        fields = {"request": _request_fields(request)}
        operation = self._exchange.begin("generate")
        operation.on_progress = on_progress
        operation.on_tokens = on_tokens
        result = await self._evaluate(operation, request.tokens, fields, cancel)
        generated = result["generated"]
        if generated["reason"] != "cancelled":
            self._exchange.deaths.forget()
        sampled = operation.stream[operation.asked :]
        return Generated(
            tokens=tuple(sampled[: generated["count"]]),
            text="".join(operation.texts),
            reason=generated["reason"],
            stop_name=generated["stopName"],
            prefill=_synced(result["synced"]),
            seconds=generated["seconds"],
        )

    async def save(self, path: Path, on_released: Callable[[], None] | None = None) -> Sequence[int]:
        fields = {"path": str(absolute(path))}
        operation = self._exchange.begin("save")
        operation.on_released = on_released
        _, tokens = await self._exchange.run(operation, fields, array("i"), Cancel())
        return tokens.tolist()

    async def restore(self, path: Path, tokens: Sequence[int]) -> bool:
        fields = {"path": str(absolute(path))}
        operation = self._exchange.begin("restore")
        with self._exchange.releasing(operation):
            operation.stream = tokens_array(tokens)
        result, _ = await self._exchange.run(operation, fields, operation.stream, Cancel())
        return bool(result["restored"])

    async def _evaluate(
        self, operation: Operation, tokens: Sequence[int], fields: dict[str, Any], cancel: Cancel
    ) -> dict[str, Any]:
        """Send what the KV lacks of ``tokens``."""
        exchange = self._exchange
        with exchange.releasing(operation):
            held = await exchange.known_kv()
            operation.stream = tokens_array(tokens)
            operation.asked = len(operation.stream)
            keep = common_prefix(held, operation.stream)
        fields = fields | {"keep": keep, "base": fingerprint(held)}
        result, _ = await exchange.run(operation, fields, operation.stream[keep:], cancel)
        return result


def _model_info(fields: dict[str, Any]) -> ModelInfo:
    return ModelInfo(
        **fields
        | {
            "end_ids": frozenset(fields["end_ids"]),
            "devices": tuple(fields["devices"]),
            "recommended": tuple(Advice(**advice) for advice in fields["recommended"]),
        }
    )


def _synced(fields: dict[str, Any]) -> Synced:
    return Synced(**(fields | {"batches": tuple((start, count) for start, count in fields["batches"])}))


def _request_fields(request: GenerateRequest) -> dict[str, Any]:
    sampling, quiet, forced = request.sampling, request.quiet, request.forced
    return {
        "maxTokens": request.max_tokens,
        "sampling": {
            "temperature": sampling.temperature,
            "topP": sampling.top_p,
            "minP": sampling.min_p,
            "seed": sampling.seed,
            "topK": sampling.top_k,
            "repeatPenalty": sampling.repeat_penalty,
        },
        "stops": [[stop.name, stop.pattern, stop.keep] for stop in request.stops],
        "stopTexts": list(request.stop_texts),
        "goesOn": list(request.goes_on),
        "visible": list(request.visible),
        "quiet": [quiet.opens, quiet.closes, quiet.initially] if quiet is not None else None,
        "grammar": request.grammar,
        "grammarTriggers": list(request.grammar_triggers),
        "forced": [forced.text, forced.delay, forced.until] if forced is not None else None,
    }
