"""Frames of every kind of template equal what the template itself renders."""

from __future__ import annotations

import pytest

from ds4_lsp.chat import render
from ds4_lsp.chat.derive import derive
from ds4_lsp.chat.frames import Wrap

CHATML_USER = Wrap("<|im_start|>user\n", "<|im_end|>\n")
DEEPSEEK = {"bos": "<｜begin▁of▁sentence｜>", "eos": "<｜end▁of▁sentence｜>"}


@pytest.fixture
def conversation(text_of):
    """One whole transcript: system, two turns with a reply that was cut off, and the opening of the next reply."""

    def write(frames, *, thinking=False):
        segments = [
            *render.system(frames, "S", ""),
            *render.user(frames, "U1", first=True),
            *render.assistant_open(frames, thinking)[0],
            *render.plain(frames, "A1"),
            *render.assistant_close(frames, ended=False),
            *render.user(frames, "U2"),
            *render.assistant_open(frames, thinking)[0],
        ]
        return text_of(segments)

    return write


def test_chatml_with_a_default_system_never_shows_the_default(frames_of, conversation):
    frames = frames_of("chatml_default_system", bos="<|im_start|>", eos="<|im_end|>", add_bos=False)
    assert (frames.source, frames.warning, frames.start) == ("template", None, "")
    assert frames.user == CHATML_USER
    assert (frames.end_text, frames.separator) == ("<|im_end|>", "\n")
    assert frames.stop_texts == ("<|im_start|>", "<|im_end|>")
    assert conversation(frames) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
        "<|im_start|>user\nU2<|im_end|>\n<|im_start|>assistant\n"
    )


def test_headers_around_roles_and_no_date(frames_of, conversation):
    frames = frames_of("llama3_like", bos="<|begin_of_text|>", eos="<|eot_id|>")
    assert conversation(frames) == (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nToday: \n\nS<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nU1<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        "A1<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU2<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert frames.stop_texts == ("<|start_header_id|>", "<|eot_id|>")


@pytest.mark.parametrize("name", ["gemma_like", "gemma_merging_like"])
def test_without_a_system_role_its_text_begins_the_first_user_message(frames_of, conversation, name):
    frames = frames_of(name, bos="<bos>", eos="<eos>")
    assert frames.merges_system
    assert conversation(frames) == (
        "<bos><start_of_turn>user\nS\n\nU1<end_of_turn>\n<start_of_turn>model\nA1<end_of_turn>\n"
        "<start_of_turn>user\nU2<end_of_turn>\n<start_of_turn>model\n"
    )
    assert (frames.end_text, frames.separator) == ("<end_of_turn>", "\n")


def test_a_system_text_that_the_template_moves_to_the_last_turn_stays_in_the_first(frames_of, conversation):
    assert conversation(frames_of("mistral_like")) == "<s>[INST] S\n\nU1[/INST]A1</s>[INST] U2[/INST]"


def test_a_system_frame_inside_the_first_user_message(frames_of, conversation):
    assert conversation(frames_of("llama2_like")) == (
        "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU1 [/INST]A1 </s><s>[INST] U2 [/INST]"
    )


def test_an_end_of_text_after_a_closed_conversation_is_no_frame(frames_of, conversation):
    frames = frames_of("phi_like", bos="", eos="<|endoftext|>", add_bos=False)
    assert conversation(frames) == (
        "<|system|>\nS<|end|>\n<|user|>\nU1<|end|>\n<|assistant|>\nA1<|end|>\n<|user|>\nU2<|end|>\n<|assistant|>\n"
    )


def test_a_model_that_may_think_opens_its_thinking_itself(frames_of, text_of):
    frames = frames_of("hybrid_thinking_like", eos="<|im_end|>", add_bos=False)
    assert frames.thinks
    opened, begins = render.assistant_open(frames, True)
    assert (text_of(opened), begins) == ("<|im_start|>assistant\n", False)
    opened, begins = render.assistant_open(frames, False)
    assert (text_of(opened), begins) == ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False)


def test_a_model_that_always_thinks_gets_its_thinking_closed_where_that_is_off(frames_of, text_of):
    frames = frames_of("always_thinking_like", eos="<|im_end|>", add_bos=False)
    opened, begins = render.assistant_open(frames, True)
    assert (text_of(opened), begins) == ("<|im_start|>assistant\n<think>\n", True)
    opened, begins = render.assistant_open(frames, False)
    assert (text_of(opened), begins) == ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False)


@pytest.mark.parametrize(
    ("name", "think", "nothink"),
    [
        ("deepseek_r1_like", "<think>\n", "<think>\n\n</think>\n\n"),
        ("deepseek_hybrid_like", "<think>", "</think>"),
        ("deepseek_plain_like", "", ""),
    ],
)
def test_deepseeks_frames_come_from_its_template(frames_of, conversation, name, think, nothink):
    frames = frames_of(name, **DEEPSEEK)
    assert (frames.source, frames.warning) == ("template", None)
    for thinking, mark in ((True, think), (False, nothink)):
        assert conversation(frames, thinking=thinking) == (
            f"<｜begin▁of▁sentence｜>S<｜User｜>U1<｜Assistant｜>{mark}A1<｜end▁of▁sentence｜>"
            f"<｜User｜>U2<｜Assistant｜>{mark}"
        )
        assert render.assistant_open(frames, thinking)[1] is (thinking and think != "")


def test_a_deepseek_vocabulary_without_a_template_is_native(info):
    frames = derive(info(None, **DEEPSEEK))
    assert (frames.source, frames.begins_thinking) == ("deepseek", True)


@pytest.mark.parametrize("template", [None, ""])
def test_no_template_means_chatml_with_a_warning(info, template):
    frames = derive(info(template))
    assert (frames.source, frames.start, frames.user) == ("chatml", "<s>", CHATML_USER)
    assert "no chat template" in frames.warning


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages",
        "{{ raise_exception('never') }}",
        "no messages at all",
        "{% for m in messages %}{{ m.content | upper }}{% endfor %}",
        "{% for m in messages | reverse %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content ~ m.content }}{% endfor %}",
        "{% for m in messages %}{{ loop.index ~ m.role ~ m.content }}{% endfor %}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{{ 'x' * 100000000 }}",
        "x" * (1 << 20) + "{{ messages }}",
    ],
)
def test_a_template_that_is_no_frame_or_fails_means_chatml_with_a_warning(info, template):
    frames = derive(info(template))
    assert frames.source == "chatml"
    assert "could not be used" in frames.warning


def test_a_template_that_never_ends_is_given_up(info):
    loop = "{% for a in range(99999) %}" * 4 + "{% endfor %}" * 4
    assert derive(info(loop + "{{ messages }}")).source == "chatml"


def test_bos_is_added_where_the_model_wants_one_and_the_template_gives_none(frames_of):
    assert frames_of("chatml_default_system", add_bos=True).start == "<s>"
    assert frames_of("llama2_like").start == "<s>"
