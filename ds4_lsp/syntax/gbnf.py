"""Pieces of GBNF that every syntax needs. Rules end in at most one other, so that no stack grows with a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax.shape import COUNT, HOLES, ID, KEY, TOOL

_HOLES = {ID: "[a-zA-Z0-9] [a-zA-Z0-9_-]{0,31}", COUNT: "[0-9]{1,3}", TOOL: "[a-z_]{1,64}", KEY: "[a-z_]{1,64}"}

JSON_STRING = r"""
json-string ::= "\"" json-rest
json-rest ::= "\"" | [^"\\\x00-\x1F] json-rest | "\\" json-escape
json-escape ::= ["\\/bfnrt] json-rest | "u" [0-9a-fA-F]{4} json-rest
"""


class Rules:
    """A grammar that is put together. ``text`` has each rule once."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    @property
    def text(self) -> str:
        extra = "".join(self._texts.values())
        return "\n".join(f"{name} ::= {body}" for name, body in self._rules.items()) + "\n" + extra

    def add(self, name: str, body: str) -> None:
        self._rules[name] = body

    def named(self, kind: str, name: str) -> str:
        """A rule's name for a tool. Raises ``ValueError`` where there is one already."""
        rule = f"{kind}-{re.sub('[^a-zA-Z0-9]', '-', name)}"
        if rule in self._rules:
            raise ValueError(f"two tools named {name}")
        self._rules[rule] = ""
        return rule

    def json_string(self) -> str:
        self._texts["json-string"] = JSON_STRING
        return "json-string"

    def until(self, kind: str, close: str, final: str | None = None) -> str:
        """Any text, and ``close`` after it; ``close`` is in no such text before its end."""
        if kind not in self._texts:
            self._texts[kind] = "\n" + _until(kind, close, literal(close if final is None else final)) + "\n"
        return f"{kind}-0"

    def raw(self, kind: str, text: str) -> None:
        """Rules written out."""
        self._texts[kind] = text


def _until(kind: str, close: str, final: str) -> str:
    """The automaton of Knuth, Morris and Pratt that looks for ``close``: one rule for each part of it that is seen."""
    lines = []
    for seen in range(len(close)):
        steps: dict[str, int] = {}
        for character in dict.fromkeys(close):
            steps[character] = _longest(close, close[:seen] + character)
        arms = [
            f"{literal(character)} {kind}-{state}" if state < len(close) else literal(character)
            for character, state in steps.items()
            if state
        ]
        others = "".join(_in_class(character) for character, state in steps.items() if state)
        lines.append(f"{kind}-{seen} ::= " + " | ".join([*arms, f"[^{others}] {kind}-0"]))
    return "\n".join(lines)


def _longest(close: str, seen: str) -> int:
    """How much of the end of ``seen`` is a beginning of ``close``."""
    return next((size for size in range(min(len(seen), len(close)), 0, -1) if seen.endswith(close[:size])), 0)


def _in_class(character: str) -> str:
    escaped = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    return escaped or (f"\\{character}" if character in "\\]^-[" else character)


def literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def mark(text: str) -> str:
    """A mark as written; its holes take what they may hold."""
    pieces = re.split(f"([{''.join(HOLES)}])", text)
    return " ".join(f"({_HOLES[piece]})" if piece in _HOLES else literal(piece) for piece in pieces if piece)


def choices(texts: Sequence[str]) -> str:
    return "(" + " | ".join(literal(text) for text in texts) + ")"


def scalar(spec: ParameterSpec, *, boolean: Sequence[str] = ("true", "false")) -> str:
    """A number or a truth value as it is written without quotes."""
    return choices(boolean) if spec.kind == "boolean" else f"({integer(spec.minimum, spec.maximum)})"


def members(spec: ToolSpec, one: Callable[[ParameterSpec], str], separator: str = "", *, begun: bool = False) -> str:
    """The parameters of a call: what it needs in the declared order, then any of the others, in any order, each as
    often as there are others. ``separator``: between them, as a rule. ``begun``: something precedes the first."""
    known = {parameter.name: parameter for parameter in spec.parameters}
    grouped = [name for names in spec.one_of for name in names]
    needed: list[str] = []
    for parameter in spec.parameters:
        if parameter.required:
            needed.append(one(parameter))
        elif grouped and parameter.name == grouped[0]:
            between = f" {separator} " if separator else " "
            needed.append("(" + " | ".join(between.join(one(known[n]) for n in names) for names in spec.one_of) + ")")
    free = [one(p) for p in spec.parameters if not p.required and p.name not in grouped]
    joint = f" {separator} " if separator else " "
    head = joint.join(needed)
    if not free:
        return head
    other = "(" + " | ".join(free) + ")"
    if head or begun or not separator:
        return f"{head} ({separator} {other}){{0,{len(free)}}}"
    more = f" ({separator} {other}){{0,{len(free) - 1}}}" if len(free) > 1 else ""
    return f"({other}{more})?"


def integer(minimum: int | None, maximum: int | None) -> str:
    """Alternatives for a JSON integer: at most ``maximum`` (if that is positive), no sign or zero where the minimum
    forbids them."""
    alternatives = [] if minimum is not None and minimum > 0 else ['"0"']
    alternatives += _up_to(maximum) if maximum is not None and maximum > 0 else ["[1-9] [0-9]{0,8}"]
    if minimum is None or minimum < 0:
        alternatives.append('"-" [1-9] [0-9]{0,8}')
    return " | ".join(alternatives)


def _up_to(maximum: int) -> list[str]:
    """Alternatives for 1..maximum: fewer digits, then each first place where a smaller digit makes the rest free."""
    digits = str(maximum)
    alternatives = [f"[1-9] [0-9]{{{count}}}" if count else "[1-9]" for count in range(len(digits) - 1)]
    for place, digit in enumerate(digits):
        least = 1 if place == 0 else 0
        if int(digit) > least:
            prefix = f'"{digits[:place]}" ' if place else ""
            free = len(digits) - place - 1
            rest = f" [0-9]{{{free}}}" if free else ""
            alternatives.append(f"{prefix}[{least}-{int(digit) - 1}]{rest}")
    return [*alternatives, f'"{digits}"']
