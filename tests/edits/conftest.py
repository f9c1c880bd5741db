"""Random documents and the helpers that several edits tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

ENDINGS = ("\n", "\r\n", "\r")
PIECES = (
    "",
    "a",
    "b",
    "  x = 1",
    "}",
    "naïve",
    "e\u0301",
    "👩‍👩‍👧",
    "😀",
    "a\x0cb",
    "c\u2028d",
    "e\x85f",
    "\t",
    "\ufeff",
)


def documents(max_lines: int = 8) -> st.SearchStrategy[str]:
    """Texts of few distinct lines, so that repeats are common, with one line ending or mixed ones."""
    styles = st.one_of(st.sampled_from([(mark,) for mark in ENDINGS]), st.just(ENDINGS))

    def of_style(style: tuple[str, ...]) -> st.SearchStrategy[str]:
        line = st.tuples(st.sampled_from(PIECES), st.sampled_from(style)).map("".join)
        last = st.sampled_from(("", "", "last", "é"))
        return st.tuples(st.lists(line, max_size=max_lines).map("".join), last).map("".join)

    return styles.flatmap(of_style)


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    """Cases that editors check their own implementations against."""
    return json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def random_documents() -> st.SearchStrategy[str]:
    return documents()
