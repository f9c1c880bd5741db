"""The text of a reply: what is shown, what is held back, what stops it, however it is split into tokens."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.engine.output import REACH, Marks, Match, Output, Stop
from ds4_lsp.engine.partial import PartialMatcher

CUT = Stop("cut", re.compile(r"<｜DSML｜\w"), keep=False)
KEEP = Stop("keep", re.compile(r"</tool_calls>"), keep=True)
THINK = (("<think>",), ("</think>",), False)


def run(pieces: list[bytes], **options: object) -> tuple[str, Match | None, list[str], Output]:
    """Everything shown, the match, what was shown after each piece, and the output itself."""
    output = Output(**options)  # type: ignore[arg-type]  # options are the test's own
    shown = []
    for piece in pieces:
        match = output.add(piece)
        if match is not None:
            break
        shown.append(output.take())
    else:
        match = None
    shown.append(output.finish(match))
    return "".join(shown), match, shown, output


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    points = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(points)]


PARTS = st.sampled_from(
    ["a", "é", "👩", "\n", "<", "<think>", "</think>", "<｜DSML｜", "<｜DSML｜t", "</tool_calls>", "x" * 300]
)
TEXTS = st.lists(PARTS, max_size=12).map("".join)
CUTS = st.lists(st.integers(0, 5000), max_size=40)


@settings(deadline=None, max_examples=100)
@given(TEXTS, CUTS)
def test_any_split_into_tokens_shows_the_same_text(text: str, cuts: list[int]) -> None:
    data = text.encode()
    options = {"stops": [CUT], "quiet": THINK}
    whole, match, _, _ = run([bytes([byte]) for byte in data], **options)
    shown, other, deltas, _ = run(split(data, cuts), **options)
    assert shown == whole
    assert (match is None) == (other is None)
    assert "\ufffd" not in "".join(deltas)
    if match is None:
        assert shown == text
    else:
        assert text.startswith(shown)
        assert text[len(shown) :].startswith("<｜DSML｜")


@settings(deadline=None, max_examples=100)
@given(TEXTS, CUTS)
def test_what_a_rule_cuts_off_is_never_shown(text: str, cuts: list[int]) -> None:
    _, match, deltas, _ = run(split(text.encode(), cuts), stops=[CUT])
    assert CUT.pattern.search("".join(deltas)) is None
    assert (match is not None) == (CUT.pattern.search(text) is not None)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=60), CUTS)
def test_arbitrary_bytes_never_raise_and_give_whole_code_points(data: bytes, cuts: list[int]) -> None:
    shown, _, _, _ = run(split(data, cuts), stops=[CUT, KEEP], quiet=THINK, triggers=("<｜DSML｜",))
    shown.encode()


SEVERAL = (("<think>", "<thinking>", "[T]", "bc"), ("</think>", "[/T]", "e"), False)
TRIGGERS = ("abc", "<call>", "ll>{", "d")
MARKED = st.lists(
    st.sampled_from(
        ["a", "b", "c", "d", "e", "<", "<think>", "<thinking>", "</think>", "[T]", "[/T]", "<call>", "ll>{"]
    ),
    max_size=14,
).map("".join)
FEW = Stop("few", re.compile("ca|hin"), keep=False)


@settings(deadline=None, max_examples=300)
@given(MARKED, CUTS, st.booleans(), st.booleans())
def test_any_split_finds_the_same_marks_match_and_trigger(
    text: str, cuts: list[int], initially: bool, stopping: bool
) -> None:
    options = {
        "stops": [FEW] if stopping else [],
        "quiet": (*SEVERAL[:2], initially),
        "triggers": TRIGGERS,
    }
    expected = run([character.encode() for character in text], **options)
    found = run(split(text.encode(), cuts), **options)
    assert found[0] == expected[0]
    assert (found[1] and found[1].start) == (expected[1] and expected[1].start)
    if expected[1] is None:
        assert found[3].trigger_at == expected[3].trigger_at


@settings(deadline=None, max_examples=300)
@given(MARKED, CUTS, st.booleans())
def test_triggers_and_rules_see_exactly_what_lies_outside_the_quiet_spans(
    text: str, cuts: list[int], initially: bool
) -> None:
    """Against a plain reading, character by character."""
    opens, closes, _ = SEVERAL
    quiet, since, expected = initially, 0, None
    for end in range(1, len(text) + 1):
        seen = text[since:end]
        if seen.endswith(closes if quiet else opens):
            quiet, since = not quiet, end
        elif not quiet and expected is None and seen.endswith(TRIGGERS):
            expected = end - max(len(trigger) for trigger in TRIGGERS if seen.endswith(trigger))
    _, _, _, output = run(split(text.encode(), cuts), quiet=(opens, closes, initially), triggers=TRIGGERS)
    assert output.trigger_at == expected


def test_the_mark_that_is_complete_first_counts_and_then_the_longest() -> None:
    assert Marks(["abcd", "bc"]).find("xabcd", 0) == (2, 4)
    assert Marks(["bc", "abc"]).find("xabcd", 0) == (1, 4)
    assert Marks(["abc"]).find("abc abc", 1) == (4, 7)
    assert Marks([]).find("abc", 0) is None


def test_while_the_grammar_is_in_force_no_quiet_span_begins_and_afterwards_one_does() -> None:
    stop = Stop("s", re.compile("STOP"), keep=True)
    output = Output([stop], THINK, ("<call>",))
    assert output.add(b"<call>") is None
    output.bound = True
    assert output.add(b"<think>") is None
    output.bound = False
    output.rearm()
    assert output.trigger_at is None
    assert output.add(b"<think><call>STOP</think>") is None
    assert output.trigger_at is None
    assert output.add(b"<call>STOP") is not None


def test_text_after_a_kept_match_in_the_same_token_stays() -> None:
    shown, match, _, _ = run([b"call </tool_", b"calls>\n"], stops=[KEEP])
    assert match is not None
    assert shown == "call </tool_calls>\n"


def test_nothing_is_held_back_without_a_possible_match() -> None:
    _, _, deltas, _ = run([b"plain ", b"text"], stops=[CUT])
    assert deltas == ["plain ", "text", ""]


def test_a_possible_match_is_held_back_and_released_when_it_is_none() -> None:
    _, _, deltas, _ = run([b"a <", "｜DS".encode(), b"x", b"y"], stops=[CUT])
    assert deltas == ["a ", "", "<｜DSx", "y", ""]


def test_no_more_than_the_reach_is_held_back() -> None:
    endless = Stop("endless", re.compile(r"<.*>"), keep=False)
    output = Output([endless])
    output.add(b"<" + b"x" * 1000)
    assert len(output.take()) == 1001 - REACH


@pytest.mark.parametrize("pieces", [[b"<think>STOP</think>STOP"], [b"<thi", b"nk>ST", b"OP</th", b"ink>ST", b"OP"]])
def test_rules_and_trigger_sleep_in_a_quiet_span_split_or_not(pieces: list[bytes]) -> None:
    stop = Stop("s", re.compile("STOP"), keep=True)
    _, match, _, _ = run(pieces, stops=[stop], quiet=THINK)
    assert match is not None
    assert match.start == len("<think>STOP</think>")
    _, _, _, output = run(pieces, quiet=THINK, triggers=("STOP",))
    assert output.trigger_at == len("<think>STOP</think>")


def test_a_reply_can_begin_in_a_quiet_span() -> None:
    shown, match, _, _ = run(
        [b"STOP</think>", b"STOP"],
        stops=[Stop("s", re.compile("STOP"), keep=False)],
        quiet=(("<think>",), ("</think>",), True),
    )
    assert match is not None
    assert shown == "STOP</think>"


def test_the_earliest_match_wins_and_then_the_first_rule() -> None:
    stops = [Stop("late", re.compile("b"), keep=True), Stop("early", re.compile("ab"), keep=True)]
    _, match, _, _ = run([b"xab"], stops=stops)
    assert match is not None
    assert match.stop.name == "early"


def test_undo_forgets_the_last_token() -> None:
    output = Output([CUT], THINK, ("<｜DSML｜",))
    output.add(b"text <")
    mark = output.mark()
    output.add("｜DSML｜".encode())
    assert output.trigger_at == 5
    output.undo(mark)
    assert output.trigger_at is None
    assert len(output.starts) == 1
    output.add(b" b")
    assert output.finish(None) == "text < b"


def test_token_starts_are_known_unless_inside_a_code_point() -> None:
    data = "é".encode()
    output = Output()
    for piece in (b"ab", data[:1], data[1:], b"c"):
        output.add(piece)
    assert output.starts == [0, 2, None, 3]


PATTERNS = st.sampled_from(
    [
        r"abc",
        r"a+b",
        r"(ab|ba)c?",
        r"a{2,3}",
        r"[ab]c",
        r"[^a]b",
        r"(?i)AB",
        r"a.*c",
        r"\d+a",
        r"a(?=b)bc",
        r"\bab",
        r"(a)\1",
    ]
)


@settings(deadline=None, max_examples=100)
@given(PATTERNS, st.text("abc1", max_size=12), st.integers(0, 12))
def test_a_match_never_begins_before_what_is_held_back(pattern: str, text: str, cut: int) -> None:
    """Whatever will match across ``cut`` begins at or after the earliest position that was held there."""
    match = re.search(pattern, text)
    if match is None or not match.start() < cut < match.end():
        return
    partial = PartialMatcher(pattern)
    partial.feed(text[:cut], 0)
    assert partial.earliest is not None
    assert partial.earliest <= match.start()
