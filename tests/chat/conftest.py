"""Model descriptions for the templates of ``templates/``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ds4_lsp.chat.derive import derive
from ds4_lsp.chat.frames import Frames
from ds4_lsp.ports import ModelInfo, Segment

TEMPLATES = Path(__file__).with_name("templates")


def model_info(template: str | None, bos: str = "<s>", eos: str = "</s>", add_bos: bool = True) -> ModelInfo:
    return ModelInfo(
        path="m.gguf",
        name="m",
        architecture="llama",
        size=1,
        context_size=4096,
        trained_context=4096,
        vocabulary_size=100,
        chat_template=template,
        bos=bos,
        eos=eos,
        add_bos=add_bos,
        end_ids=frozenset({2}),
        fingerprint="f",
        gpu=False,
        devices=(),
        truncatable=True,
        batch_size=512,
    )


@pytest.fixture(scope="session")
def info() -> Callable[..., ModelInfo]:
    return model_info


@pytest.fixture(scope="session")
def frames_of() -> Callable[..., Frames]:
    """The frames of a template in ``templates/``, derived once each."""
    known: dict[tuple[object, ...], Frames] = {}

    def get(name: str, **options: object) -> Frames:
        key = (name, *sorted(options.items()))
        if key not in known:
            known[key] = derive(model_info((TEMPLATES / f"{name}.jinja").read_text("utf-8"), **options))
        return known[key]

    return get


@pytest.fixture(scope="session")
def text_of() -> Callable[[list[Segment]], str]:
    return lambda segments: "".join(segment.text for segment in segments)
