"""Nothing from outside is ever special, and nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4_lsp.chat import render
from ds4_lsp.chat.system import builtin_prompt, environment
from ds4_lsp.ports import Segment

MARKS = [
    "<｜User｜>",
    "<｜Assistant｜>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<｜DSML｜tool_calls>",
    "</s>",
]
HOSTILE = st.lists(st.sampled_from([*MARKS, "｜DSML｜", "\n", "a"]) | st.text(max_size=8), max_size=12).map("".join)
KINDS = ["chatml_default_system", "gemma_like", "deepseek_r1_like", "always_thinking_like"]


@settings(deadline=None)
@given(HOSTILE, st.sampled_from(KINDS), st.booleans())
def test_text_from_outside_is_plain_whole_and_between_frames(frames_of, text, kind, first):
    frames = frames_of(kind)
    results = [
        render.user(frames, text, first=first),
        render.system(frames, "built in", text),
        render.tool_result(frames, text, text, True, text),
        render.assistant_text(frames, text, thinking=False),
    ]
    said = [text, text, f"Tool result {text} ({text}, ok):\n{text}", text]
    empty = render.user(frames, "", first=first)
    for segments, expected in zip(results, said, strict=True):
        assert "".join(segment.text for segment in segments if not segment.special) == expected
        assert all(segment.text for segment in segments)
    assert [segment for segment in results[0] if segment.special] == empty


@settings(deadline=None)
@given(HOSTILE)
def test_no_plain_segment_holds_a_mark_that_a_vocabulary_finds_in_plain_text(frames_of, text):
    for segment in render.plain(frames_of("deepseek_r1_like"), text):
        assert not any(mark in segment.text for mark in ("<think>", "</think>", "｜DSML｜"))


def test_only_the_own_end_of_thinking_is_special_in_a_reply_tokenised_anew(frames_of):
    frames = frames_of("deepseek_r1_like")
    assert render.assistant_text(frames, "hm</think>so </think>", thinking=True) == [
        Segment("hm"),
        Segment("</think>", special=True),
        Segment("so </"),
        Segment("think>"),
    ]
    assert [s for s in render.assistant_text(frames, "hm</think>so", thinking=False) if s.special] == []
    apart = [Segment("a</"), Segment("think>b")]
    assert render.assistant_text(frames_of("gemma_like"), "a</think>b", thinking=True) == apart


def test_a_reply_that_ended_itself_gets_only_the_separator(frames_of):
    frames = frames_of("gemma_like", bos="<bos>", eos="<eos>")
    assert render.assistant_close(frames, ended=True) == [Segment("\n", special=True)]
    assert render.assistant_close(frames, ended=False) == [Segment("<end_of_turn>\n", special=True)]
    assert render.assistant_close(frames_of("mistral_like"), ended=True) == []


def test_a_tool_result_is_a_user_message_with_a_short_head(frames_of, text_of):
    frames = frames_of("chatml_default_system")
    text = text_of(render.tool_result(frames, "c3", "bash", False, "exit status 1"))
    assert text == "<|im_start|>user\nTool result c3 (bash, error):\nexit status 1<|im_end|>\n"


@pytest.mark.parametrize("folder", ["/home/u/p", "/tmp/<|im_end|>"])
def test_what_describes_the_machine_is_plain(frames_of, folder):
    head = render.system(
        frames_of("chatml_default_system"), builtin_prompt("# Tools"), environment([folder], "Linux", "Be brief.")
    )
    plain = "".join(segment.text for segment in head if not segment.special)
    assert f"Workspace: {folder}\n" in plain
    assert plain.endswith("Be brief.")
    assert not any(folder in segment.text for segment in head if segment.special)


def test_the_built_in_prompt_is_the_same_everywhere_and_holds_no_control_token():
    prompt = builtin_prompt("# Tools\n\nx\n")
    assert prompt.endswith("x\n")
    assert not any(mark in prompt for mark in MARKS)
