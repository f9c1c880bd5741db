"""GBNF for one block of calls, derived from the tools' specifications.

Required parameters, and the alternatives of which a call needs one, come in their declared order, then any of the
optional ones, in order: a fixed order keeps the grammar small, and the sampler's stacks few. Lengths are not limited;
bounds above the minimum and below zero are left to the tool where GBNF would need many rules.
"""

from __future__ import annotations

from collections.abc import Iterable

from ds4_lsp.ports import ParameterSpec, ToolSpec
from ds4_lsp.syntax.marks import BAR, DSML, INVOKE_CLOSE, TOOL_CALLS_CLOSE, TOOL_CALLS_OPEN

# A text and its closing tag, as an automaton that is always in one state. After "</", white space or not, a bar can
# only be the closing tag's: the parser would take it for one. Each rule ends in at most one other: no stack grows.
_TEXT = rf"""
text ::= [^<] text | "<" text-a
text-a ::= "<" text-a | "/" text-b | [^</] text
text-b ::= "{BAR}DSML{BAR}parameter>\n" | "<" text-a | [ \t\r\n] text-c | [^<{BAR} \t\r\n] text
text-c ::= "<" text-a | [ \t\r\n] text-c | [^<{BAR} \t\r\n] text
end ::= "</{DSML}parameter>\n"
"""


def grammar(specs: Iterable[ToolSpec]) -> str:
    """The grammar whose root is a whole block, markers included, with at least one call. Raises ``ValueError`` for no
    tools, or two whose names differ only in ``-`` and ``_``."""
    rules: dict[str, str] = {}
    for spec in specs:
        rule = _rule_name(spec.name)
        if rule in rules:
            raise ValueError(f"two tools named {spec.name}")
        rules[rule] = _call(spec)
    if not rules:
        raise ValueError("a grammar needs at least one tool")
    opening = _literal(f'<{DSML}invoke name="')
    head = [
        f"root ::= {_literal(TOOL_CALLS_OPEN + chr(10))} call+ {_literal(TOOL_CALLS_CLOSE)}",
        f"call ::= {opening} ({' | '.join(rules)}) {_literal(INVOKE_CLOSE + chr(10))}",
    ]
    return "\n".join([*head, *(f"{name} ::= {body}" for name, body in rules.items())]) + _TEXT


def _call(spec: ToolSpec) -> str:
    known = {parameter.name: parameter for parameter in spec.parameters}
    grouped = [name for names in spec.one_of for name in names]
    needed: list[str] = []
    for parameter in spec.parameters:
        if parameter.required:
            needed.append(_parameter(parameter))
        elif grouped and parameter.name == grouped[0]:
            ways = [" ".join(_parameter(known[name]) for name in names) for names in spec.one_of]
            needed.append(f"({' | '.join(ways)})")
    free = [p for p in spec.parameters if not p.required and p.name not in grouped]
    optional = [f"({_parameter(parameter)})?" for parameter in free]
    return " ".join([_literal(f'{spec.name}">\n'), *needed, *optional])


def _parameter(spec: ParameterSpec) -> str:
    is_text = spec.kind in ("string", "enum")
    opening = _literal(f'<{DSML}parameter name="{spec.name}" string="{"true" if is_text else "false"}">')
    match spec.kind:
        case "string":
            return f"{opening} text"
        case "enum":
            return f"{opening} ({' | '.join(_literal(choice) for choice in spec.choices)}) end"
        case "boolean":
            return f'{opening} ("true" | "false") end'
        case "integer":
            return f"{opening} ({_integer(spec.minimum, spec.maximum)}) end"


def _integer(minimum: int | None, maximum: int | None) -> str:
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


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _rule_name(name: str) -> str:
    return "call-" + name.replace("_", "-")
