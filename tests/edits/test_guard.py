import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.edits.guard import Lines, OldText, Refusal, Resolution, Whole, resolve
from ds4_lsp.edits.text import content, ending, file_tag, lines, unify
from ds4_lsp.edits.views import View

quick = settings(deadline=None, max_examples=80)


def seen_all(text):
    ranges = ((1, len(lines(text))),) if text else ()
    return View(text, ranges, ranges)


def applied(current, found):
    return current[: found.start] + found.new_text + current[found.end :]


def target_of(case):
    named = case["target"]
    if "oldText" in named:
        return OldText(named["oldText"])
    return Whole() if named.get("range") == "all" else Lines(named["startLine"], named["endLine"])


def test_the_guard_decides_as_the_vectors_say(vectors):
    wrong = []
    for case in vectors["guard"]:
        seen = case["seen"]
        view = None if seen is None else seen_all(seen)
        if case.get("shown"):
            ranges = tuple(map(tuple, case["shown"]))
            view = View(seen, ranges, ranges)
        tag = case.get("fileTag") or file_tag(seen)
        found = resolve(
            target_of(case), case["new"], tag=tag, current=case["current"], view=view, mode=case.get("mode", "rebase")
        )
        if isinstance(found, Refusal):
            right = found.code == case.get("refused")
        else:
            after = (applied(case["current"], found), found.rebased)
            right = "refused" not in case and after == (case["after"], case["rebased"])
        if not right:
            wrong.append((case["name"], found))
    assert wrong == []


@quick
@given(st.data())
def test_lines_named_with_the_current_tag_are_replaced_and_all_others_kept(random_documents, data):
    text = data.draw(random_documents)
    rows = lines(text)
    start = data.draw(st.integers(1, len(rows) + 1))
    end = data.draw(st.integers(start - 1, len(rows)))
    new = data.draw(random_documents)
    found = resolve(Lines(start, end), new, tag=file_tag(text), current=text, view=seen_all(text))
    assert isinstance(found, Resolution)
    after = lines(applied(text, found))
    fresh = [content(line) for line in lines(new)]
    kept = [content(line) for line in rows]
    wanted = [*kept[: start - 1], *fresh, *kept[end:]]
    unended = bool(rows) and not ending(rows[-1])
    if unended and wanted and not wanted[-1]:
        # An empty last line without an ending is the end of the line before it.
        wanted.pop()
    elif after and rows:
        assert bool(ending(after[-1])) == (not unended)
    assert [content(line) for line in after] == wanted


@quick
@given(st.data())
def test_only_the_endings_of_a_text_with_one_kind_of_ending_are_used(random_documents, data):
    text = data.draw(random_documents)
    kinds = {ending(line) for line in lines(text)} - {""}
    rows = len(lines(text))
    start = data.draw(st.integers(1, rows + 1))
    new = data.draw(random_documents)
    target = data.draw(st.sampled_from([Lines(start, min(start, rows)), Whole("text"), Whole("lines")]))
    found = resolve(target, new, tag=file_tag(text), current=text, view=seen_all(text))
    assert isinstance(found, Resolution)
    if len(kinds) == 1:
        assert {ending(line) for line in lines(applied(text, found))} - {""} <= kinds


@quick
@given(st.data())
def test_an_accepted_rebase_edits_exactly_the_seen_lines_where_they_now_stand(random_documents, data):
    seen = data.draw(random_documents)
    rows = lines(seen)
    # The user's edit: some lines go, some come, anywhere.
    cut = data.draw(st.integers(0, len(rows)))
    gone = data.draw(st.integers(0, 2))
    typed = data.draw(random_documents)
    current = "".join(rows[:cut]) + typed + "".join(rows[cut + gone :])
    start = data.draw(st.integers(1, len(rows) + 1))
    end = data.draw(st.integers(start - 1, len(rows)))
    found = resolve(Lines(start, end), "NEW", tag=file_tag(seen), current=current, view=seen_all(seen))
    if isinstance(found, Refusal):
        assert found.code == "staleFileTag"
        return
    now = lines(current)
    low = found.start_line
    assert now[low - 1 : found.end_line] == rows[start - 1 : end]
    if start > 1:
        assert now[low - 2] == rows[start - 2]
    if end < len(rows):
        assert now[found.end_line] == rows[end]
    after = lines(applied(current, found))
    plain = [content(line) for line in now]
    assert [content(line) for line in after] == [*plain[: low - 1], "NEW", *plain[found.end_line :]]
    assert found.rebased == (current != seen)


@quick
@given(st.data())
def test_old_text_is_replaced_where_it_stands_once_and_refused_otherwise(random_documents, data):
    text = data.draw(random_documents)
    flat = unify(text)
    start = data.draw(st.integers(0, len(flat)))
    old = flat[start : data.draw(st.integers(start, len(flat)))]
    new = data.draw(random_documents)
    found = resolve(OldText(old), new, tag=file_tag(text), current=text, view=seen_all(text))
    times = sum(flat.startswith(old, at) for at in range(len(flat)))
    if not old:
        assert isinstance(found, Refusal)
        assert found.code == "invalid"
    elif times > 1:
        assert isinstance(found, Refusal)
        assert found.code == "ambiguous"
    else:
        assert isinstance(found, Resolution)
        assert unify(applied(text, found)) == flat.replace(old, unify(new))


@quick
@given(st.data())
def test_lines_that_were_never_shown_are_refused_even_with_the_current_tag(random_documents, data):
    text = data.draw(random_documents.filter(lambda text: len(lines(text)) > 2))
    count = len(lines(text))
    hidden = data.draw(st.integers(1, count))
    shown = ((1, hidden - 1), (hidden + 1, count))
    view = View(text, shown, shown)
    start = data.draw(st.integers(1, hidden))
    end = data.draw(st.integers(hidden, count))
    for target in (Lines(start, end), Whole()):
        found = resolve(target, "x", tag=file_tag(text), current=text, view=view)
        assert isinstance(found, Refusal)
        assert found.code == "staleFileTag"


def test_a_client_need_not_have_been_shown_anything_by_the_server():
    found = resolve(Lines(1, 1), "x", tag=file_tag("a\nb\n"), current="a\nb\n", view=None, require_shown=False)
    assert isinstance(found, Resolution)
    assert resolve(Lines(1, 1), "x", tag="00000001", current="a\n", view=None, require_shown=False) == Refusal(
        "staleFileTag", "no text with that file_tag was shown in this session", (1, 1)
    )


def test_text_known_without_its_numbers_can_be_named_by_text_only():
    text = "a\nb\n"
    view = View(text, (), ((1, 2),))
    assert isinstance(resolve(OldText("b"), "x", tag=file_tag(text), current=text, view=view), Resolution)
    assert isinstance(resolve(Lines(2, 2), "x", tag=file_tag(text), current=text, view=view), Refusal)


def test_exact_keeps_every_byte_of_the_new_text():
    text = "a\r\nb\r\n"
    found = resolve(Whole("exact"), "x\ny", tag=file_tag(text), current=text, view=None, require_shown=False)
    assert applied(text, found) == "x\ny"


@pytest.mark.parametrize("target", [Lines(0, 3), Lines(3, 1)])
def test_ranges_that_are_none_are_invalid(target):
    found = resolve(target, "x", tag=file_tag("a\n"), current="a\n", view=seen_all("a\n"))
    assert isinstance(found, Refusal)
    assert found.code == "invalid"


@pytest.mark.parametrize("typed", ["", "typed\n"])
def test_a_guard_and_a_rebase_in_a_hundred_thousand_lines_cost_less_than_looking_at_each_line_once(typed):
    """Milliseconds, as ``make bench`` shows: a quarter of that, when nothing disturbs."""
    seen = "".join(f"line {number} of the file, as long as lines of code are\n" for number in range(100_000))
    current, view, tag = typed + seen, View(seen, ((1, 100_000),), ((1, 100_000),)), file_tag(seen)

    def best(work):
        took = []
        for _ in range(5):
            began = time.process_time()
            work()
            took.append(time.process_time() - began)
        return min(took)

    def guard():
        found = resolve(Lines(50_000, 50_002), "x", tag=tag, current=current, view=view)
        assert isinstance(found, Resolution)
        assert found.rebased == bool(typed)

    assert best(guard) < best(lambda: lines(seen))
