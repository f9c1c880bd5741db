"""Where a summary ends that turns into something else."""

from __future__ import annotations

import re

from ds4_lsp.ports import StopRule
from ds4_lsp.syntax.block import Syntax
from ds4_lsp.syntax.dsml import BAR
from ds4_lsp.syntax.thinking import DEFAULT, Marks

_MARKUP = (
    f"<[/|{BAR} ]{{0,4}}DSML",
    rf"<[/|{BAR}]{{0,2}}(?:tool[_▁]calls?|function_calls?|invoke)\b",
    r"\[TOOL_CALLS\]",
)


def summary_stops(syntax: Syntax | None = None, marks: Marks = DEFAULT) -> tuple[StopRule, ...]:
    """A summary ends before it turns into thinking or into a call of any syntax, whatever the bars look like."""
    closes = [closing for _, closing in marks.pairs if closing] or ["</think>"]
    entries = [re.escape(entry) for entry in syntax.entries if len(entry) > 3] if syntax else []
    return (
        StopRule("think", "|".join(map(re.escape, closes)), keep=False),
        StopRule("calls", "|".join([*_MARKUP, *entries]), keep=False),
    )
