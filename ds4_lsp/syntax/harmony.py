"""gpt-oss: a call is a message to a tool, in a channel of its own; where its name stands differs from call to call."""

from __future__ import annotations

from ds4_lsp.ports import ToolSpec
from ds4_lsp.syntax import gbnf, json_calls
from ds4_lsp.syntax.block import Syntax, markers
from ds4_lsp.syntax.json_calls import NamedJsonCalls, Style
from ds4_lsp.syntax.samples import CallSamples
from ds4_lsp.syntax.shape import Shape

_TO = "to=functions."
_CHANNELS = ("commentary", "analysis")
_MIDDLES = (" <|constrain|>json<|message|>", "<|channel|>commentary json<|message|>", "<|message|>")


class HarmonyCalls(NamedJsonCalls):
    """``to=functions.NAME`` stands in the role or behind the channel's name; the arguments are the message."""

    name = "harmony"

    def __init__(self, shape: Shape, style: Style) -> None:
        super().__init__(shape, style)
        starts = ("<|start|>assistant", "")
        heads = [f"{start}<|channel|>{channel} {_TO}" for start in starts for channel in _CHANNELS]
        self.openings = markers([*heads, f"<|start|>assistant {_TO}", _TO])
        self.entries = (_TO,)
        self.hidden = tuple(f"{start}<|channel|>{channel}<|message|>" for start in starts for channel in _CHANNELS[:1])
        self._opens = self.openings
        self._middle = markers(["<|channel|>", *_CHANNELS, "<|constrain|>", "json", "<|message|>"])

    def _tool_rule(self, rules: gbnf.Rules, spec: ToolSpec) -> str:
        name = rules.named("call", spec.name)
        body = self.arguments_rule(rules, spec)
        rules.add(name, f"{gbnf.literal(spec.name)} {gbnf.choices(_MIDDLES)} {body} {gbnf.mark(self.shape.after)}")
        return name


def recognise(samples: CallSamples) -> Syntax | None:
    found = json_calls.recognise(samples)
    if (
        not isinstance(found, NamedJsonCalls)
        or _TO not in found.shape.before
        or "<|message|>" not in found.shape.middle
    ):
        return None
    return HarmonyCalls(found.shape, found.style)
