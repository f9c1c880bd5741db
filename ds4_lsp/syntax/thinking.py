"""Thinking marks: those of the model, and other spellings that models slip into."""

from __future__ import annotations

from dataclasses import dataclass, field

from ds4_lsp.ports import Quiet
from ds4_lsp.syntax.marks import Marker, marker

THINK = ("<think>", "</think>")
_OTHERS = (
    THINK,
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)


@dataclass(frozen=True)
class Marks:
    """``pairs``: the marks between which the loaded model thinks. Its own open thinking anywhere, others where a line
    begins. What was opened by one pair is closed by none but that one or the model's own."""

    pairs: tuple[tuple[str, str], ...] = (THINK,)
    hidden: tuple[str, ...] = ()
    """Marks between the parts of a reply, such as a channel's name: neither text nor thinking."""
    opens: tuple[Marker, ...] = field(init=False)
    _closes: dict[Marker | None, tuple[Marker, ...]] = field(init=False)

    def __post_init__(self) -> None:
        own = tuple(marker(close) for close in dict.fromkeys(close for _, close in self.pairs if close))
        closes: dict[Marker | None, tuple[Marker, ...]] = {None: own or (marker(THINK[1]),)}
        for opening, _ in self.pairs:
            if opening:
                closes[marker(opening)] = closes[None]
        for opening, closing in _OTHERS:
            closes.setdefault(marker(opening), (marker(closing), *own))
        object.__setattr__(self, "_closes", closes)
        object.__setattr__(self, "opens", tuple(opening for opening in closes if opening is not None))

    def closes(self, opening: Marker | None) -> tuple[Marker, ...]:
        """What ends the thinking that ``opening`` began; None: the frame before the reply did."""
        return self._closes[opening]

    def anywhere(self, opening: Marker) -> bool:
        """Whether that mark opens thinking also within a line: it is the model's own."""
        return self._closes[opening] is self._closes[None]

    def quiet(self, initially: bool) -> Quiet:
        """The spans in which the engine looks for neither stops nor calls."""
        opens = tuple(opening for opening, _ in self.pairs if opening)
        closes = tuple(dict.fromkeys(closing for _, closing in self.pairs if closing))
        return Quiet(opens or (THINK[0],), closes or (THINK[1],), initially)


DEFAULT = Marks()
