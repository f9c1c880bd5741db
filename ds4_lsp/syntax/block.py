"""What all syntaxes with marks share: a block of calls is entered at an opening mark and read call by call.

Words of marks count, white space between them does not; an outer mark that a model leaves out is not missed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ds4_lsp.ports import Segment, StopRule, ToolSpec
from ds4_lsp.syntax import gbnf
from ds4_lsp.syntax.calls import Calls
from ds4_lsp.syntax.events import CallsEnd, Malformed
from ds4_lsp.syntax.lines import Lines
from ds4_lsp.syntax.marks import Marker
from ds4_lsp.syntax.shape import COUNT, HOLES, ID, Shape, flexible
from ds4_lsp.syntax.source import Ended, Source, Step

MadeCall: TypeAlias = "tuple[str, Mapping[str, Any], str]"
"""A call to render: name, arguments, id."""

_HOLE = f"[{''.join(HOLES)}]"
_ONE = rf"(?:<[^<>\s]*>?|\[/?[A-Z_]+\]|[^\s<\[{''.join(HOLES)}]+|\[)"
_WORD = re.compile(rf"{_ONE}?(?:{_HOLE}{_ONE}?)+|{_ONE}")
_PLAIN_WORD = re.compile(_ONE)
_DISTINCT = re.compile(r"[<\[]\S{2,}|>>>|.*[▁｜]")
TOOL_NAME = re.compile(r"[\w.\-]{1,64}(?::\d{1,4})?")


@dataclass(frozen=True)
class Grammar:
    """GBNF, and the texts at which it begins to hold."""

    text: str
    triggers: tuple[str, ...]


class Syntax:
    """How calls are written: one of the encodings with one model's marks.

    ``lead``: the marks up to a call's name, or to what holds it; ``after``: those behind its arguments, or behind what
    holds them.
    """

    name = ""

    def __init__(self, shape: Shape, lead: str, after: str) -> None:
        self.shape = shape
        opening = words(shape.head + lead)
        self._opens = markers([shape.head + lead, lead, *(word for word in opening if not word.isalnum())])
        # What only stands beside a hole, such as a message's own mark, may stand elsewhere too.
        alone = [word for word in _WORD.findall(shape.head + lead) if not has_hole(word)]
        distinct = [word for word in alone if _DISTINCT.match(word)]
        distinct = distinct or [word for word in opening if _DISTINCT.match(word) and not has_hole(word)]
        whole = (shape.head + lead).strip()
        self.entries: tuple[str, ...] = tuple(distinct) or ((whole,) if whole and not has_hole(whole) else ())
        """Marks that begin a block, also where those before them are left out."""
        first = flexible(whole) if whole and not has_hole(whole[0]) else None
        self.openings: tuple[Marker, ...] = tuple(filter(None, (first, *markers(distinct))))
        self._close_by(after)

    def _close_by(self, after: str) -> None:
        """``after``: the marks behind what holds a call. A block ends at the whole of the last marks, or at their last
        word, where that stands nowhere else."""
        shape = self.shape
        last, inner = (shape.tail, after) if shape.tail.strip() else (after, "")
        final = words(last)[-1:]
        elsewhere = words(" ".join((shape.head, shape.before, shape.middle, inner, shape.between)))
        alone = [] if final and (final[0] in elsewhere or words(last).count(final[0]) > 1) else final
        self._tail = markers([last, *alone]) if last.strip() else ()
        every = [*words(inner), *(word for word in words(last) if word not in elsewhere and word not in alone)]
        self._closes = (*self._tail, *(marker for marker in markers(every) if marker not in self._tail))

    # --- reading --------------------------------------------------------------------------------------------------

    hints: tuple[str, ...] = ()
    """What a model has to know that sees one call only."""
    strict = False
    """A fault's message shows what was expected; else it shows the right form."""
    hidden: tuple[str, ...] = ()
    """Marks around text, which is no call: they are not shown."""
    strays: tuple[Marker, ...] = ()
    """What looks like a mark of this syntax and is none."""

    @property
    def recovery(self) -> tuple[Marker, ...]:
        """Where reading goes on after a fault; nothing: at once."""
        return self._tail

    def opens_here(self, lines: Lines) -> bool:
        """Whether an opening mark at that place is one."""
        return bool(self.entries) or (lines.blank and not lines.in_fence)

    def refuses(self, lines: Lines) -> bool:
        """Whether a call there is only shown: among other text in a code fence."""
        return lines.in_fence and not lines.fence_is_new

    def unfinished(self, calls: Calls) -> str:
        """What a reply that ends within a block lacks, in words for the model."""
        return f"the call of {calls.name} does not end" if calls.name else "the block of calls does not end"

    def read(self, source: Source, calls: Calls, opening: re.Match[str]) -> Step[str]:
        """The calls after an opening mark, as events; what turned out to be text. Raises ``Fault`` and ``Ended``,
        with a call that has begun open."""
        count = 0
        while True:
            source.record()
            try:
                yield from self._skip(source, self._opens)
                if self._tail and (yield from source.tag(self._tail)) is not None:
                    break
            except Ended:
                if count:
                    break
                raise
            yield from self.read_call(source, calls)
            count += 1
            if not (yield from self._another(source)):
                break
        if not count:
            calls.events.append(Malformed("The block of tool calls held no call: nothing was run.", ""))
        calls.events.append(CallsEnd())
        return ""

    def read_call(self, source: Source, calls: Calls) -> Step[None]:
        raise NotImplementedError

    def _skip(self, source: Source, skipped: tuple[Marker, ...]) -> Step[None]:
        while skipped and (yield from source.tag(skipped)) is not None:
            pass

    def _another(self, source: Source) -> Step[bool]:
        """Whether another call follows; where not, the closing marks are used."""
        try:
            while (found := (yield from source.tag((*self._closes, *self.separators, *self._opens)))) is not None:
                marker = found[0]
                if marker in self._tail:
                    return False
                if marker not in self._closes:
                    return True
        except Ended:
            # Closing marks that are missing at the end of a reply are forgiven.
            source.advance(len(source.text))
        return False

    separators: tuple[Marker, ...] = ()

    # --- writing --------------------------------------------------------------------------------------------------

    def render(self, calls: Sequence[MadeCall], *, text_precedes: bool = False) -> str:
        """What the model writes for ``calls``, as its template does."""
        return "".join(segment.text for segment in self.segments(calls, text_precedes=text_precedes))

    def segments(self, calls: Sequence[MadeCall], *, text_precedes: bool = False) -> list[Segment]:
        """The same; marks are special, names and values are not: they may be a file's text."""
        shape = self.shape
        # The gap holds all white space behind a text, also what a reply without one begins with.
        head = shape.head.lstrip() if text_precedes else shape.head
        segments = [Segment((shape.gap if text_precedes else "") + head, special=True)]
        for index, (name, arguments, call_id) in enumerate(calls):

            def mark(text: str, index: int = index, name: str = name, call_id: str = call_id) -> Segment:
                return Segment(shape.fill(text, index=index, call_id=call_id, name=name), special=True)

            segments += [mark(shape.between)] if index else []
            before = shape.before.lstrip() if text_precedes and not index and not head else shape.before
            segments += [mark(before), Segment(name), mark(shape.middle)]
            segments += [*self.argument_segments(arguments), mark(shape.after)]
        segments.append(Segment(shape.tail, special=True))
        return [segment for segment in segments if segment.text]

    def argument_segments(self, arguments: Mapping[str, Any]) -> list[Segment]:
        raise NotImplementedError

    def id_in(self, raw: str) -> str:
        """The id that a model gave its call; empty where the syntax has none."""
        for text in (self.shape.before, self.shape.middle, self.shape.after):
            before, hole, after = text.partition(ID)
            if hole:
                around = re.escape(before[-12:].lstrip()), re.escape(after[:12].rstrip())
                if found := re.search(f"{around[0]}\\s*({HOLES[ID]})\\s*{around[1]}", raw):
                    return found.group(1)
        return ""

    def id_of(self, call_id: str, name: str, index: int) -> str:
        """The id by which results name a call. ``call_id``: the log's."""
        shape = self.shape
        if shape.middle.startswith(f":{COUNT}"):
            prefix = "functions." if shape.before.endswith("functions.") else ""
            return f"{prefix}{name}:{shape.base + index}"
        if any(COUNT in mark for mark in (shape.before, shape.middle, shape.after)):
            return str(shape.base + index)
        # Nine letters and digits: some templates insist.
        return "".join(character for character in call_id if character.isalnum())[-9:].rjust(9, "0")

    @property
    def example(self) -> str:
        """The right form, to show to a model."""
        return self.render([("TOOL", {"PARAMETER": "VALUE"}, "123456789")]).strip()

    # --- for the engine -------------------------------------------------------------------------------------------

    def grammar(self, specs: Sequence[ToolSpec]) -> Grammar | None:
        """For calls from an opening mark on; None where no mark opens them. Raises ``ValueError`` for no tools, or two
        of one name."""
        shape = self.shape
        lead = (shape.head + shape.before).lstrip()
        if not self.entries:
            return None
        rules = gbnf.Rules()
        names = [self._tool_rule(rules, spec) for spec in specs]
        if not names:
            raise ValueError("a grammar needs at least one tool")
        triggers = [_PLAIN_WORD.findall(entry)[0] for entry in self.entries]
        starts = {trigger: lead[lead.index(trigger) :] for trigger in triggers if trigger in lead}
        several = f"({gbnf.mark(shape.between)} {gbnf.mark(shape.before)} call)*" if shape.several else ""
        opening = " | ".join(dict.fromkeys(map(gbnf.mark, starts.values())))
        tail = gbnf.mark(shape.tail.rstrip())
        rules.add("root", f"({opening}) call {several} {tail}")
        rules.add("call", " | ".join(names))
        return Grammar(rules.text, tuple(starts))

    def _tool_rule(self, rules: gbnf.Rules, spec: ToolSpec) -> str:
        shape = self.shape
        name = rules.named("call", spec.name)
        body = self.arguments_rule(rules, spec)
        after = shape.after if shape.tail or shape.several else shape.after.rstrip()
        marks = gbnf.mark(shape.fill(shape.middle, name=spec.name) if "\ue0f1" in shape.middle else shape.middle)
        rules.add(name, f"{gbnf.literal(spec.name)} {marks} {body} {gbnf.mark(after)}")
        return name

    def arguments_rule(self, rules: gbnf.Rules, spec: ToolSpec) -> str:
        raise NotImplementedError

    @property
    def stops(self) -> tuple[StopRule, ...]:
        """What ends a reply when its block of calls is complete: only a mark that nothing may follow, and that stands
        in no argument."""
        if not self._tail or not self.shape.tail.strip() or not _DISTINCT.match(words(self.shape.tail)[-1]):
            return ()
        return (StopRule("tool_calls", self.before_end + self._tail[-1].full.pattern, keep=True),)

    before_end = ""
    """What must stand before the last mark to tell it from the same text in an argument."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Every mark of the syntax, for what must not take them for the end of a reply, or for text."""
        shape = self.shape
        parts = (shape.head, shape.before, shape.middle, shape.after, shape.between, shape.tail)
        every = [word for part in parts for word in _PLAIN_WORD.findall(part)]
        return tuple(dict.fromkeys(word for word in every if _DISTINCT.match(word)))


def words(mark: str) -> list[str]:
    """The words of a mark, each perhaps one control token; one with a hole keeps its neighbours, that tell where the
    hole ends."""
    found: list[str] = []
    for word in _WORD.findall(mark):
        found += [word, *_PLAIN_WORD.findall(word)] if has_hole(word) else [word]
    return found


def has_hole(mark: str) -> bool:
    return any(hole in mark for hole in HOLES)


def markers(texts: Sequence[str]) -> tuple[Marker, ...]:
    return tuple(marker for text in dict.fromkeys(texts) if (marker := flexible(text)) is not None)
