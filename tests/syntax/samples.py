"""What templates write for the same calls, in every encoding: written for these tests, after what models in use do."""

from __future__ import annotations

import json

from ds4_lsp.syntax.samples import CallSamples, SampleCall

FIRST = SampleCall("tool_oneqv", {"alphaqx": "Valonesx", "betaqy": 4711, "gammaqz": True}, "pqzcall01")
SECOND = SampleCall("tool_twoqw", {"alphaqx": "Valtwosy", "betaqy": 4712, "gammaqz": False}, "pqzcall02")
TEXT = "Textqq"


def samples(call, between="\n", head="", tail="", gap="\n"):
    """``call(name, arguments, number, id)`` writes one."""
    first = call(FIRST.name, FIRST.arguments, 0, FIRST.call_id)
    second = call(SECOND.name, SECOND.arguments, 1, SECOND.call_id)
    one, two = head + first + tail, head + first + between + second + tail
    empty = head + call(FIRST.name, {}, 0, FIRST.call_id) + tail
    return CallSamples(FIRST, SECOND, TEXT, one, two, f"{TEXT}{gap}{one}", empty)


def value(written):
    return written if isinstance(written, str) else json.dumps(written)


def xml(name, arguments, *_):
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def quoted(name, arguments, *_):
    parameters = "".join(f'<parameter name="{k}">{value(v)}</parameter>\n' for k, v in arguments.items())
    return f'<invoke name="{name}">\n{parameters}</invoke>\n'


def pairs(name, arguments, *_):
    written = "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{value(v)}</arg_value>\n" for k, v in arguments.items())
    return f"<tool_call>{name}\n{written}</tool_call>"


def tight_pairs(name, arguments, *_):
    return pairs(name, arguments).replace("\n", "")


def named_twice(name, arguments, *_):
    inner = "".join(f"]<]m[>[<{k}>{value(v)}]<]m[>[</{k}>" for k, v in arguments.items())
    return f']<]m[>[<invoke name="{name}">{inner}]<]m[>[</invoke>\n'


def typed(name, arguments, number, _):
    kinds = {str: "string", int: "number", bool: "boolean"}
    inner = "".join(
        f'<|open|>argument key="{k}" type="{kinds[type(v)]}"<|sep|>{value(v)}<|close|>argument<|sep|>'
        for k, v in arguments.items()
    )
    return f'<|open|>call tool="{name}" index="{number + 1}"<|sep|>{inner}<|close|>call<|sep|>'


def braces(name, arguments, *_):
    inner = ",".join(
        f"{k}:" + (f'<|"|>{v}<|"|>' if isinstance(v, str) else json.dumps(v)) for k, v in arguments.items()
    )
    return f"<|tool_call>call:{name}{{{inner}}}<tool_call|>"


def python(name, arguments, *_):
    return f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"


def around(name, arguments, *_):
    return json.dumps({"name": name, "arguments": arguments})


def with_id(name, arguments, number, call_id):
    return json.dumps({"name": name, "arguments": arguments, "id": call_id})


def numbered(name, arguments, number, _):
    return f'\n    {{"tool_call_id": "{number}", "tool_name": "{name}", "parameters": {json.dumps(arguments)}}}'


def separated(name, arguments, *_):
    call = f"{name}\n```json\n{json.dumps(arguments)}\n```"
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call}<｜tool▁call▁end｜>"


def indented(name, arguments, *_):
    return json.dumps([{"tool_name": name, "parameters": arguments}], indent=4)[2:-2]


SAMPLES = {
    "hermes": samples(lambda n, a, *_: f"<tool_call>\n{around(n, a)}\n</tool_call>"),
    "list": samples(around, between=", ", head="<tool_calls>[", tail="]</tool_calls>"),
    "list with ids": samples(with_id, between=", ", head="[TOOL_CALLS][", tail="]", gap=""),
    "lines": samples(around, head="<tool_calls>\n", tail="\n</tool_calls>"),
    "keyed": samples(lambda n, a, *_: json.dumps({n: a}), ", ", "<|tools_prefix|>[", "]<|tools_suffix|>", gap=""),
    "numbered": samples(
        lambda n, a, number, _: (
            f'\n    {{"tool_call_id": "{number}", "tool_name": "{n}", "parameters": {json.dumps(a)}}}'
        ),
        between=",",
        head="<|START_ACTION|>[",
        tail="\n]<|END_ACTION|>",
        gap="",
    ),
    "indented": samples(indented, between=",\n", head="Action:\n```json\n[\n", tail="\n]```"),
    "named": samples(lambda n, a, *_: f"[TOOL_CALLS]{n}[ARGS]{json.dumps(a)}", between="", gap=""),
    "named with ids": samples(lambda n, a, _, i: f"[TOOL_CALLS]{n}[CALL_ID]{i}[ARGS]{json.dumps(a)}", "", gap=""),
    "sectioned": samples(
        lambda n, a, number, _: f"<|call_begin|>functions.{n}:{number}<|args|>{json.dumps(a)}<|call_end|>",
        between="",
        head="<|section_begin|>",
        tail="<|section_end|>",
        gap="",
    ),
    "separated": samples(
        lambda n, a, *_: (
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{json.dumps(a)}\n```<｜tool▁call▁end｜>"
        ),
        head="<｜tool▁calls▁begin｜>",
        tail="<｜tool▁calls▁end｜>",
        gap="",
    ),
    "id before the name": samples(
        lambda n, a, _, i: f"<|call:begin|>{i}<|call:name|>{n}<|call:args|>{json.dumps(a)}<|call:end|>",
        between="",
        head="<|tool_calls|>",
        tail="<|calls|>",
        gap="",
    ),
    "function": samples(lambda n, a, *_: f"<function={n}>{json.dumps(a)}</function>", between="", gap=""),
    "xml": samples(xml, gap="\n\n"),
    "after a line break": samples(around, head="\n<tool_calls>[", between=", ", tail="]</tool_calls>", gap=""),
    "each after a line break": samples(lambda n, a, *_: f"\n<call>{around(n, a)}</call>", between="", gap=""),
    "quoted": samples(quoted, between="", head="<m:tool_call>\n", tail="</m:tool_call>"),
    "pairs": samples(pairs),
    "tight pairs": samples(tight_pairs, between="", gap=""),
    "named twice": samples(named_twice, "", "]<]m[>[<tool_call>\n", "]<]m[>[</tool_call>", gap=""),
    "typed": samples(typed, "", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>", gap=""),
    "braces": samples(braces, between="", gap=""),
    "python": samples(python, ", ", "<|tool_call_start|>[", "]<|tool_call_end|>", gap=""),
}
