"""Text to tokens and back, for one loaded model. Safe to use from several threads, as llama.cpp's tokenizer is."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterable
from typing import Any

import llama_cpp.llama_cpp as C

_OVERFLOW = -(2**31)


class Vocabulary:
    """The loaded model's vocabulary. ``end_ids``: every token that ends a generation."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.size: int = C.llama_vocab_n_tokens(handle)
        self.end_ids = frozenset(i for i in range(self.size) if C.llama_vocab_is_eog(handle, i))
        self.add_bos = bool(C.llama_vocab_get_add_bos(handle))
        self._pieces: dict[int, bytes] = {}

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
        """Tokens of (text, special) segments, joined. Text that is not special gives no control or end token."""
        tokens = array("i")
        for text, special in segments:
            tokens.extend(self._segment(text, special) if special else self._plain(text))
        return tokens

    def _plain(self, text: str) -> array[int]:
        """A vocabulary may mark an end token as an ordinary one, and then llama.cpp finds it in any text: such text is
        cut inside the token's text, so that it stays text."""
        tokens = self._segment(text, special=False)
        for token in set(tokens):
            if not self._controls(token):
                continue
            name = self.piece(token).decode("utf-8", "replace")
            if len(name) < 2 or name not in text:
                return array("i", [t for t in tokens if not self._controls(t)])
            head, *parts = text.split(name)
            pieces = [head]
            for part in parts:
                pieces[-1] += name[0]
                pieces.append(name[1:] + part)
            return array("i", [t for piece in pieces for t in self._plain(piece)])
        return tokens

    def _controls(self, token: int) -> bool:
        return token in self.end_ids or bool(C.llama_vocab_is_control(self._handle, token))

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
