"""One round: sync the KV, sample a reply, append it to the log as it was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ds4_lsp.agent.compaction_host import common_prefix
from ds4_lsp.agent.compactor import Compactor
from ds4_lsp.agent.quotations import Quotations
from ds4_lsp.agent.reply import Reply
from ds4_lsp.agent.runtime import Runtime
from ds4_lsp.agent.services import Services
from ds4_lsp.agent.transcript import Transcript, tokenizer_name
from ds4_lsp.ports import Cancel, Generated, GenerateRequest, ModelInfo, Sampling, ToolSpec
from ds4_lsp.protocol.errors import Ds4Error
from ds4_lsp.protocol.recommended import chosen
from ds4_lsp.protocol.settings import SamplingSettings, Settings

if TYPE_CHECKING:
    from ds4_lsp.agent.turn import Outcome


def sampling(settings: SamplingSettings, info: ModelInfo, *, thinking: bool) -> Sampling:
    """``thinking``: the model may think."""
    found = {name: one.value for name, one in chosen(settings, info.recommended, thinking=thinking).items()}
    return Sampling(
        temperature=found["temperature"],
        top_p=found["topP"],
        min_p=found["minP"],
        top_k=int(found["topK"]),
        repeat_penalty=found["repeatPenalty"],
        seed=settings.seed,
    )


class RoundRunner:
    """Asks the engine for one reply at a time."""

    def __init__(self, services: Services, compactor: Compactor) -> None:
        self._services = services
        self._compactor = compactor

    async def run(self, runtime: Runtime, outcome: Outcome) -> tuple[Reply, Generated]:
        """The reply is in the log when this returns, also when the engine died under it."""
        services, settings = self._services, self._services.settings()
        transcript = await services.transcript(runtime)
        opening, thinking = await transcript.assistant_open(settings.thinks, *runtime.session.surface.events[-1:])
        tokens = await transcript.tokens(runtime.session.surface) + opening
        specs = runtime.toolbox.specs()
        reply = Reply(
            specs,
            thinking,
            lambda kind, **data: services.emit(runtime, kind, **data),
            runtime.next_call_id,
            told=outcome.told,
            speech=transcript.speech,
            quoted=Quotations(runtime.session.surface.events),
        )
        room = await self._compactor.budget(runtime, len(tokens))
        request = self._request(
            transcript, tokens, specs, thinking=thinking, room=room, outcome=outcome, settings=settings
        )
        runtime.session.sync()
        services.meter.uses(runtime.id, len(tokens))
        services.enter(runtime, "prefill")
        services.meter.generation_begins()
        if services.trace.on:
            suffix = tokens[common_prefix(services.engine.kv, tokens) :]
            services.trace.record(
                "generate", sessionId=runtime.id, tokens=len(tokens), suffix=suffix, maxTokens=request.max_tokens
            )

        def on_progress(done: int, total: int) -> None:
            services.meter.prefilled(done, total)
            services.listener.progress("turn", "DS4", message=f"reading {done}/{total} tokens", done=done, total=total)

        def on_tokens(ids: Sequence[int], text: str) -> None:
            if not reply.tokens:
                services.meter.generation_begins()
            services.enter(runtime, "generating")
            services.meter.generated(len(ids))
            services.trace.record("tokens", ids=list(ids), text=text)
            reply.feed(ids, text)
            if reply.repeats:
                cancel.set()

        assert runtime.cancel is not None
        cancel = Cancel()
        forget = runtime.cancel.on_set(cancel.set)
        try:
            generated = await services.engine.generate(
                request, on_progress=on_progress, on_tokens=on_tokens, cancel=cancel
            )
        except Ds4Error:
            reply.finish(broken_off=True)
            self._append(runtime, transcript, reply, thinking=thinking, stop="error", settings=settings)
            outcome.text.append(reply.visible)
            raise
        finally:
            forget()
        reply.finish(broken_off=generated.reason == "cancelled")
        stop = {"end": "end", "stop": "tool", "length": "length", "cancelled": "cancelled"}[generated.reason]
        reply.tokens = list(generated.tokens)
        self._append(runtime, transcript, reply, thinking=thinking, stop=stop, settings=settings)
        self._account(outcome, generated)
        services.meter.measured(generated)
        services.meter.uses(runtime.id, len(tokens) + len(generated.tokens))
        return reply, generated

    def _request(
        self,
        transcript: Transcript,
        tokens: list[int],
        specs: Sequence[ToolSpec],
        *,
        thinking: bool,
        room: int,
        outcome: Outcome,
        settings: Settings,
    ) -> GenerateRequest:
        frames = transcript.frames
        left = settings.sampling.most_tokens - outcome.usage.completion_tokens
        spoken = transcript.speech
        syntax = spoken.syntax
        grammar = syntax.grammar([spec.taught() for spec in specs])
        return GenerateRequest(
            tokens=tokens,
            max_tokens=max(1, min(left, room)),
            sampling=sampling(settings.sampling, transcript.info, thinking=settings.thinks and frames.thinks),
            stops=syntax.stops,
            stop_texts=frames.stop_texts,
            goes_on=tuple(mark for mark in frames.inner_marks if mark not in spoken.closing),
            visible=spoken.closing,
            quiet=spoken.marks.quiet(thinking),
            grammar=grammar.text if grammar and settings.tools.grammar else None,
            grammar_triggers=grammar.triggers if grammar else (),
            forced=self._services.script.next("turn"),
        )

    @staticmethod
    def _append(
        runtime: Runtime, transcript: Transcript, reply: Reply, *, thinking: bool, stop: str, settings: Settings
    ) -> None:
        if not reply.tokens:
            return
        runtime.session.append(
            "assistant/message",
            {
                "turn": runtime.turn,
                "text": reply.raw_text,
                **reply.parts(),
                "tokens": reply.tokens,
                "tokenizer": tokenizer_name(transcript.info),
                "thinking": thinking,
                "think": settings.thinks,
                "calls": [call.wire() for call in reply.calls] if stop not in ("cancelled", "error") else [],
                "stop": stop,
            },
            surface_op={"op": "append"},
        )

    @staticmethod
    def _account(outcome: Outcome, generated: Generated) -> None:
        usage = outcome.usage
        usage.prompt_tokens += generated.prefill.evaluated
        usage.cached_tokens += generated.prefill.cached
        usage.completion_tokens += len(generated.tokens)
        usage.prompt_seconds += generated.prefill.seconds
        usage.completion_seconds += generated.seconds
