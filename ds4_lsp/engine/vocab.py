"""Text to tokens and back, for one loaded model. Safe to use from several threads, as llama.cpp's tokenizer is."""

from __future__ import annotations

import ctypes
import re
from array import array
from collections.abc import Iterable
from typing import Any

import llama_cpp.llama_cpp as C

_OVERFLOW = -(2**31)
_BRACKETED = re.compile(r"[<\[◁]\S+[>\]▷]")
_CONTROL_LIKE = re.compile(r"<[|｜]\S+>|<\S+[|｜]>")
_STRIKE = b"</s>"


class Vocabulary:
    """The loaded model's vocabulary. ``end_ids``: every token that ends a generation.

    ``marks``: user-defined tokens that shape a conversation, such as ``<tool_call>`` or gpt-oss's ``<|channel|>``.
    llama.cpp finds a user-defined token in any text; others of that kind, such as runs of spaces, are just text. A mark
    is one that ``template`` writes, or that looks like a control token. ``html``: an ordinary ``</s>`` of a vocabulary
    that ends otherwise, which llama.cpp takes for an end.
    """

    def __init__(self, handle: Any, template: str = "") -> None:
        self._handle = handle
        self._pieces: dict[int, bytes] = {}
        self.size: int = C.llama_vocab_n_tokens(handle)
        self.add_bos = bool(C.llama_vocab_get_add_bos(handle))
        eog = frozenset(i for i in range(self.size) if C.llama_vocab_is_eog(handle, i))
        self.html = frozenset(i for i in eog if self._is_html(i))
        self.end_ids = eog - self.html
        self.marks = frozenset(
            i
            for i in range(self.size)
            if C.llama_vocab_get_attr(handle, i) & C.LLAMA_TOKEN_ATTR_USER_DEFINED
            and _is_mark(self.piece(i).decode("utf-8", "replace"), template)
        )

    def _is_html(self, token: int) -> bool:
        ordinary = C.llama_vocab_get_attr(self._handle, token) & C.LLAMA_TOKEN_ATTR_NORMAL
        return bool(ordinary) and token not in self.usual_ends and self.piece(token) == _STRIKE

    @property
    def handle(self) -> Any:
        return self._handle

    @property
    def bos(self) -> str:
        return self._text(C.llama_vocab_bos(self._handle))

    @property
    def eos(self) -> str:
        return self._text(C.llama_vocab_eos(self._handle))

    @property
    def usual_ends(self) -> list[int]:
        """What ends a turn: EOT where the model has one, then EOS. llama.cpp may take a mark inside a reply for EOT."""
        tokens = (C.llama_vocab_eot(self._handle), C.llama_vocab_eos(self._handle))
        return [int(token) for token in tokens if token >= 0]

    def tokenize(self, segments: Iterable[tuple[str, bool]]) -> array[int]:
        """Tokens of (text, special) segments, joined. Text that is not special gives no control or end token, and no
        mark."""
        tokens = array("i")
        for text, special in segments:
            tokens.extend(self._segment(text, special) if special else self._plain(text))
        return tokens

    def _plain(self, text: str) -> array[int]:
        """llama.cpp finds user-defined tokens in any text, and a vocabulary may mark even an end token as one: their
        texts are cut in two, so that they stay text."""
        tokens = self._segment(text, special=False)
        shaping = {token for token in set(tokens) if self._shapes(token)}
        if not shaping:
            return tokens
        names = {self.piece(token).decode("utf-8", "replace") for token in shaping}
        names = {name for name in names if len(name) > 1 and name in text}
        if not names:
            return array("i", [token for token in tokens if token not in shaping])
        longest_first = sorted(names, key=len, reverse=True)
        cut = re.compile("|".join(f"(?<={re.escape(name[0])})(?={re.escape(name[1:])})" for name in longest_first))
        return array("i", [token for piece in cut.split(text) for token in self._plain(piece)])

    def _shapes(self, token: int) -> bool:
        """Whether a token may come from frames and the model alone."""
        if token in self.end_ids or token in self.marks:
            return True
        return bool(C.llama_vocab_is_control(self._handle, token)) and token not in self.html

    def _segment(self, text: str, special: bool) -> array[int]:
        data = text.encode("utf-8", "replace")
        if not data:
            return array("i")
        room = len(data) + 8
        while True:
            buffer = (C.llama_token * room)()
            count = C.llama_tokenize(self._handle, data, len(data), buffer, room, False, special)
            if count >= 0:
                tokens = array("i")
                tokens.frombytes(memoryview(buffer).cast("B")[: 4 * count])
                return tokens
            if count == _OVERFLOW:
                raise OverflowError(f"{len(data)} bytes of text are too many to tokenise at once")
            room = -count

    def piece(self, token: int) -> bytes:
        """The token's bytes, control tokens as their text; perhaps no whole code point."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token)
        return known

    def _read_piece(self, token: int) -> bytes:
        room = 128
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = C.llama_token_to_piece(self._handle, token, buffer, room, 0, True)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def _text(self, token: int) -> str:
        return self.piece(token).decode("utf-8", "replace") if token >= 0 else ""


def _is_mark(text: str, template: str) -> bool:
    if _CONTROL_LIKE.fullmatch(text):
        return True
    # A template may write only one of a pair: DeepSeek R1's never opens the thinking that it cuts off.
    bare = text.replace("/", "", 1)
    pair = (text, bare, f"{bare[:1]}/{bare[1:]}")
    return bool(_BRACKETED.fullmatch(text)) and any(mark in template for mark in pair)
