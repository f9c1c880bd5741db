"""What stands around and between the parts of calls, cut out of a template's renderings of calls that are known.

A mark is a text; characters of a private range in it are holes: what differs from call to call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ds4_lsp.syntax.marks import NAME, SPACE, Marker, marker
from ds4_lsp.syntax.samples import CallSamples, SampleCall

ID, TOOL, KEY, COUNT = "\ue0f0", "\ue0f1", "\ue0f2", "\ue0f3"
"""Holes: the call's id, the tool's name once more, the parameter's name, the call's number."""
HOLES = {ID: r"[\w\-.:]{1,64}", TOOL: NAME, KEY: NAME, COUNT: r"\d{1,4}"}
_UNIT = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]|\s|[^\W_]+|.", re.DOTALL)
_LONGEST = 160
"""Characters of a mark. Those of models in use have half as many at most."""
_LEAST_ID = 5
"""Characters of a word that is taken for an id, where two calls differ in it."""


Span: TypeAlias = "tuple[int, int, int]"
"""Where a call's name begins, and where its arguments begin and end."""


@dataclass(frozen=True)
class Shape:
    """A reply with calls is ``head``, calls with ``between`` in the middle, ``tail``. A call is ``before``, the name,
    ``middle``, the arguments, ``after``. ``gap`` stands before ``head`` where text precedes."""

    head: str
    before: str
    middle: str
    after: str
    between: str
    tail: str
    gap: str
    base: int
    """The number of the first call, where calls are numbered."""
    several: bool
    """Whether the template writes several calls in one reply."""

    def fill(self, mark: str, *, index: int = 0, call_id: str = "", name: str = "") -> str:
        """``mark`` of the call ``index`` (from 0) with its holes filled."""
        if not any(hole in mark for hole in HOLES):
            return mark
        return mark.replace(ID, call_id).replace(TOOL, name).replace(COUNT, str(self.base + index))


def shape_of(samples: CallSamples, one: Sequence[Span], two: Sequence[Span] | None) -> Shape | None:
    """The marks between the parts, from where they lie in ``samples.one`` and ``samples.two``; None where the two
    do not agree."""
    first, second = samples.first, samples.second
    assert samples.one is not None
    gaps, middles = _parts(samples.one, [first], one)
    if two is None or samples.two is None:
        alone = [_named(part, first) for part in (gaps[0], middles[0], gaps[1])]
        return Shape("", alone[0], alone[1], alone[2], "", "", _gap(samples, gaps[0]), 0, several=False)
    gaps_two, middles_two = _parts(samples.two, [first, second], two)
    lead, inner_first, inner, tail = (
        units(_named(gaps_two[0], first)),
        units(_named(gaps_two[1], first)),
        units(_named(gaps_two[1], second)),
        units(_named(gaps_two[2], second)),
    )
    common = _aligned(units(_named(middles_two[0], first)), units(_named(middles_two[1], second)))
    after, bases = _aligned(inner_first, tail)
    middle, middle_bases = common
    left = len(inner) - len(after)
    before_reversed, before_bases = _aligned(lead[::-1], inner[len(after) :][::-1])
    if len(middle) != len(units(_named(middles_two[0], first))) or lead != units(_named(gaps[0], first)):
        return None
    before = before_reversed[::-1]
    bases = [*bases, *middle_bases, *before_bases]
    return Shape(
        head="".join(lead[: len(lead) - len(before)]),
        before="".join(before),
        middle="".join(middle),
        after="".join(after),
        between="".join(inner[len(after) : len(after) + left - len(before)]),
        tail="".join(tail[len(after) :]),
        gap=_gap(samples, gaps[0]),
        base=bases[0] if bases else 0,
        several=True,
    )


def units(mark: str) -> list[str]:
    return _UNIT.findall(mark)


def flexible(mark: str, *, key: str | None = None) -> Marker | None:
    """Matches ``mark`` with other white space; None for nothing but white space, and for no mark that anybody would
    write. ``key``: fills that hole."""
    words = (mark if key is None else mark.replace(KEY, key)).split()
    if not words or len(mark) > _LONGEST:
        return None
    parts: list[str | tuple[str]] = []
    for index, word in enumerate(words):
        if index:
            parts.append((SPACE,))
        for piece in re.split(f"([{''.join(HOLES)}])", word):
            parts += [(HOLES[piece],)] if piece in HOLES else ([piece] if piece else [])
    return marker(*parts)


def _parts(text: str, calls: Sequence[SampleCall], spans: Sequence[Span]) -> tuple[list[str], list[str]]:
    gaps: list[str] = []
    middles: list[str] = []
    at = 0
    for call, (name, begin, end) in zip(calls, spans, strict=True):
        gaps.append(text[at:name])
        middles.append(text[name + len(call.name) : begin])
        at = end
    return [*gaps, text[at:]], middles


def _named(text: str, call: SampleCall) -> str:
    text = text.replace(call.name, TOOL)
    return text.replace(call.call_id, ID) if call.call_id else text


def _aligned(a: Sequence[str], b: Sequence[str]) -> tuple[list[str], list[int]]:
    """What two marks begin with alike, with holes where only a number or an id differs; the first's numbers there."""
    common: list[str] = []
    bases: list[int] = []
    for left, right in zip(a, b, strict=False):
        if left == right:
            common.append(left)
        elif left.isdigit() and right.isdigit() and int(right) == int(left) + 1:
            common.append(COUNT)
            bases.append(int(left))
        elif min(len(left), len(right)) >= _LEAST_ID and left.isalnum() and right.isalnum():
            common.append(ID)
        else:
            break
    return common, bases


def _gap(samples: CallSamples, lead: str) -> str:
    """What parts text from the first mark of calls that follow it, or from a name that no mark precedes."""
    if samples.after_text is None or samples.after_text.count(samples.text) != 1:
        return "\n\n"
    _, _, after = samples.after_text.partition(samples.text)
    return after[: max(0, after.find(lead.lstrip() or samples.first.name))]
